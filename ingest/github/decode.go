package github

// Decode reads what routing needs of the payload of a known event, and of any
// other event its coordinates. Fields that are missing or of another type are
// absent; the last of two fields of one name counts, as in encoding/json. The
// only error is ErrParse: bad JSON anywhere in the body, or no object.
// Allocations grow with the kept texts only, and those are cut.
func Decode(event string, json []byte) (*Event, error) {
	d := decoder{scanner: scanner{b: json}, event: event, texts: routes[event] != nil}
	if d.next() != '{' {
		if err := d.skip(); err != nil {
			return nil, err
		}
		d.i = 0
		return nil, d.fail("the payload, which is no object")
	}
	if err := d.members(d.root); err != nil {
		return nil, err
	}
	if d.next(); d.i != len(d.b) {
		return nil, d.fail("what follows the payload")
	}
	return &d.ev, nil
}

type decoder struct {
	scanner
	event string
	ev    Event
	texts bool // whether a lane can make a task of the event, so that its texts count
}

// object walks over an object's fields; any other value is skipped.
func (d *decoder) object(field func(key []byte) error) error {
	if d.next() != '{' {
		return d.skip()
	}
	return d.members(field)
}

// title reads a title: whole if a lane can use it, of other events a line.
func (d *decoder) title(dst *string) error {
	if d.texts {
		return d.text(dst)
	}
	return d.line(dst)
}

// keep reads free text if it can matter.
func (d *decoder) keep(dst *string) error {
	if !d.texts {
		return d.skip()
	}
	return d.text(dst)
}

// only returns a walker that reads the one field name and skips the others.
func (d *decoder) only(name string, read func() error) func([]byte) error {
	return func(key []byte) error {
		if string(key) != name {
			return d.skip()
		}
		return read()
	}
}

// login reads the login of an account.
func (d *decoder) login(dst *string) error {
	*dst = ""
	return d.object(d.only("login", func() error { return d.name(dst, isLogin) }))
}

func (d *decoder) root(key []byte) error {
	ev := &d.ev
	switch string(key) {
	case "action":
		return d.name(&ev.Action, isPlain)
	case "number":
		return d.ordinal(&ev.Number)
	case "ref":
		return d.name(&ev.Ref, isPlain)
	case "ref_type":
		return d.name(&ev.RefType, isPlain)
	case "branch":
		return d.name(&ev.Branch, isPlain)
	case "before":
		return d.name(&ev.Before, isSHA)
	case "after":
		return d.name(&ev.After, isSHA)
	case "sha":
		return d.name(&ev.SHA, isSHA)
	case "compare":
		return d.name(&ev.Compare, isURL)
	case "deleted":
		return d.flag(&ev.Deleted)
	case "sender":
		return d.login(&ev.Sender)
	case "assignee":
		return d.login(&ev.Assignee)
	case "label":
		ev.Label = ""
		return d.object(d.only("name", func() error { return d.name(&ev.Label, isPlain) }))
	case "installation":
		ev.Installation = 0
		return d.object(d.only("id", func() error { return d.id(&ev.Installation) }))
	case "head_commit":
		ev.HeadCommit = Commit{}
		return d.object(d.headCommit)
	case "repository":
		ev.Repository = Repository{}
		return d.object(d.repository)
	case "issue":
		ev.Issue = Issue{}
		return d.object(d.issue)
	case "pull_request":
		ev.PullRequest = PullRequest{}
		return d.object(d.pullRequest)
	case "comment":
		ev.Comment = Comment{}
		return d.object(d.comment(&ev.Comment, "updated_at"))
	case "review":
		ev.Review = Comment{}
		return d.object(d.comment(&ev.Review, "submitted_at"))
	}
	if d.isSubject(key) {
		ev.Subject = Subject{}
		return d.object(d.subject)
	}
	return d.skip()
}

func (d *decoder) headCommit(key []byte) error {
	switch string(key) {
	case "message":
		return d.line(&d.ev.HeadCommit.Title)
	case "timestamp":
		return d.instant(&d.ev.HeadCommit.At)
	}
	return d.skip()
}

func (d *decoder) repository(key []byte) error {
	r := &d.ev.Repository
	switch string(key) {
	case "id":
		return d.id(&r.ID)
	case "full_name":
		return d.name(&r.FullName, isRepo)
	case "clone_url":
		return d.name(&r.CloneURL, isURL)
	case "default_branch":
		return d.name(&r.DefaultBranch, isPlain)
	case "pushed_at":
		if d.event == "push" {
			return d.instant(&r.PushedAt)
		}
	}
	return d.skip()
}

func (d *decoder) issue(key []byte) error {
	i := &d.ev.Issue
	switch string(key) {
	case "number":
		return d.ordinal(&i.Number)
	case "title":
		return d.title(&i.Title)
	case "html_url":
		return d.name(&i.URL, isURL)
	case "labels":
		return d.labels(&i.Labels)
	case "body":
		return d.keep(&i.Body)
	case "updated_at":
		return d.instant(&i.UpdatedAt)
	case "user":
		return d.login(&i.Author)
	case "performed_via_github_app":
		i.App = 0
		return d.object(d.only("id", func() error { return d.id(&i.App) }))
	case "pull_request":
		i.IsPullRequest = d.next() == '{'
	}
	return d.skip()
}

func (d *decoder) pullRequest(key []byte) error {
	p := &d.ev.PullRequest
	switch string(key) {
	case "number":
		return d.ordinal(&p.Number)
	case "title":
		return d.title(&p.Title)
	case "html_url":
		return d.name(&p.URL, isURL)
	case "labels":
		return d.labels(&p.Labels)
	case "draft":
		return d.flag(&p.Draft)
	case "updated_at":
		return d.instant(&p.UpdatedAt)
	case "user":
		return d.login(&p.Author)
	case "head":
		p.HeadSHA = ""
		return d.object(d.only("sha", func() error { return d.name(&p.HeadSHA, isSHA) }))
	case "base":
		p.BaseRef = ""
		return d.object(d.only("ref", func() error { return d.name(&p.BaseRef, isPlain) }))
	}
	return d.skip()
}

func (d *decoder) comment(c *Comment, when string) func([]byte) error {
	return func(key []byte) error {
		switch string(key) {
		case "body":
			return d.keep(&c.Body)
		case "diff_hunk":
			return d.keep(&c.DiffHunk)
		case "user":
			return d.login(&c.Author)
		case when:
			return d.instant(&c.UpdatedAt)
		}
		return d.skip()
	}
}
