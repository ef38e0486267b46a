package github

import "time"

// Subject is the object that an event is named after (`release`,
// `workflow_job`, `check_suite` and so on; of a deployment_status its
// deployment), as far as rules use it.
type Subject struct {
	App         int64  // app.id, of checks
	Title       string // title
	Name        string // name
	Tag         string // tag_name
	URL         string // html_url
	HeadSHA     string // head_sha
	SHA         string // sha
	HeadBranch  string // head_branch
	SuiteBranch string // check_suite.head_branch, of a check run
	BaseRef     string // base_ref, of a merge group
	Target      string // target_commitish, of a release
	Ref         string // ref, of a deployment
	Labels      []string
	UpdatedAt   time.Time
	CompletedAt time.Time
}

// isSubject reports whether the payload's field is what the event is about.
func (d *decoder) isSubject(key []byte) bool {
	return string(key) == d.event || d.event == "deployment_status" && string(key) == "deployment"
}

func (d *decoder) subject(key []byte) error {
	s := &d.ev.Subject
	switch string(key) {
	case "app":
		s.App = 0
		return d.object(d.only("id", func() error { return d.id(&s.App) }))
	case "title":
		return d.line(&s.Title)
	case "name":
		return d.line(&s.Name)
	case "tag_name":
		return d.name(&s.Tag, isPlain)
	case "html_url":
		return d.name(&s.URL, isURL)
	case "head_sha":
		return d.name(&s.HeadSHA, isSHA)
	case "sha":
		return d.name(&s.SHA, isSHA)
	case "head_branch":
		return d.name(&s.HeadBranch, isPlain)
	case "check_suite":
		s.SuiteBranch = ""
		return d.object(d.only("head_branch", func() error { return d.name(&s.SuiteBranch, isPlain) }))
	case "base_ref":
		return d.name(&s.BaseRef, isPlain)
	case "target_commitish":
		return d.name(&s.Target, isPlain)
	case "ref":
		return d.name(&s.Ref, isPlain)
	case "labels":
		return d.labels(&s.Labels)
	case "updated_at":
		return d.instant(&s.UpdatedAt)
	case "completed_at":
		return d.instant(&s.CompletedAt)
	}
	return d.skip()
}

// maxLabels is how many labels are read; GitHub permits 100 on an issue.
const maxLabels = 100

// labels reads a list of labels: objects with a name, or names.
func (d *decoder) labels(dst *[]string) error {
	*dst = nil
	if d.next() != '[' {
		return d.skip()
	}
	return d.elements(func() error {
		name := ""
		read := func() error { return d.name(&name, isPlain) }
		var err error
		if d.next() == '{' {
			err = d.members(d.only("name", read))
		} else {
			err = read()
		}
		if err == nil && name != "" && len(*dst) < maxLabels {
			*dst = append(*dst, name)
		}
		return err
	})
}
