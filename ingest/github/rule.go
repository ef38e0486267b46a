package github

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/belay-run/belay/kv/task"
)

// Rule routes events of one name that no lane makes a task of. An empty list
// matches everything. Names are compared as the payload writes them, case
// counts.
type Rule struct {
	Name    string
	Event   string
	Actions []string
	// Repos and Branches are patterns of path.Match, so `*` stops at a slash:
	// "acme/*", "main", "release/*". An event without a branch matches no
	// pattern.
	Repos    []string
	Branches []string
	// Labels are matched by the label that the event is of, else by one of
	// those on the issue, the pull request or the job.
	Labels []string
	// Kind is task.Custom, task.FixIssue (of an issue) or
	// task.ReviewPullRequest (of a pull request).
	Kind      task.KindName
	Familiar  string // its id
	Supersede task.Supersede
	// Once marks events whose body names one occurrence: the same body again
	// is a replay.
	Once bool
}

// Once is the replay guard that a rule has by itself: on where GitHub's bodies
// of the event name one occurrence (DESIGN §6).
func Once(event string) bool { return once(event) }

// asked is what an event asks for: of its lane, or, where that makes no task
// of it, of the first rule that matches. Deleted branches and installations
// are no rule's.
func asked(cfg *Config, event string, ev *Event) want {
	action := ev.Action
	if event == "push" {
		action = ""
	}
	w := want{reason: task.UnsupportedAction}
	if actions, ok := routes[event]; !ok {
		w.reason = task.UnsupportedEvent
	} else if l := actions[action]; l != nil {
		w = l(cfg, ev)
	}
	if w.spec != nil && !w.off || w.reason == task.RefDeleted || w.reason == task.InstallationDeleted {
		return w
	}
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if r.Event != event {
			continue
		}
		if w.reason == task.UnsupportedEvent {
			w.reason = task.UnsupportedAction
		}
		if !some(r.Actions, ev.Action) {
			continue
		}
		if spec := r.spec(cfg, ev); spec != nil {
			return want{spec: spec}
		}
		if w.reason == task.UnsupportedAction {
			w.reason = "" // unroutable: an event that is meant, but not this one
		}
	}
	return w
}

// spec is the task that the rule makes of an event of its name and action; nil
// if it does not match, or may not be for its familiar.
func (r *Rule) spec(cfg *Config, ev *Event) *task.Spec {
	f := cfg.byID(r.Familiar)
	if f == nil || ev.Repository.ID == 0 || ev.Repository.FullName == "" ||
		!covers(r.Repos, ev.Repository.FullName) || !covers(r.Branches, ev.branch()) || !r.labeled(ev) {
		return nil
	}
	var s *task.Spec
	switch r.Kind {
	case task.FixIssue:
		if ev.Issue.IsPullRequest {
			return nil
		}
		s = fixIssue(ev, f)
	case task.ReviewPullRequest:
		s = uncommandedReview(ev, f)
	default:
		s = r.custom(ev)
	}
	if s != nil {
		s.HeadSHA, s.Once = ev.sha(), r.Once
		s.Rule = &task.Rule{Name: r.Name, Group: r.group(ev)}
		if s.Rule.Group != "" && s.Review == nil {
			s.Review = &task.Review{Before: ev.Before}
			if at := ev.occurredAt(); !at.IsZero() {
				s.Review.UpdatedAt = task.At(at)
			}
		}
	}
	return s
}

func (r *Rule) custom(ev *Event) *task.Spec {
	s := &ev.Subject
	return &task.Spec{FamiliarID: r.Familiar, Kind: task.Kind{Name: task.Custom, Custom: task.CustomKind{
		Name: r.Name, Event: r.Event, Action: plainName(ev.Action), Ref: ev.ref(), Before: ev.Before, After: ev.After, SHA: ev.sha(),
		Number: cmp.Or(ev.Issue.Number, ev.PullRequest.Number),
		Title:  firstLine(cmp.Or(ev.Issue.Title, ev.PullRequest.Title, ev.HeadCommit.Title, s.Title, s.Name, s.Tag)),
		URL:    cmp.Or(ev.Issue.URL, ev.PullRequest.URL, ev.Compare, s.URL),
	}}}
}

// group is what the event's task supersedes older ones in; "" where the event
// names none.
func (r *Rule) group(ev *Event) string {
	switch r.Supersede {
	case task.SupersedePull:
		if n := ev.PullRequest.Number; n != 0 {
			return task.PullGroup(n)
		}
		if ev.Issue.IsPullRequest && ev.Issue.Number != 0 {
			return task.PullGroup(ev.Issue.Number)
		}
	case task.SupersedeBranch:
		if b := ev.branch(); b != "" {
			return task.BranchGroup(b)
		}
	}
	return ""
}

func (r *Rule) labeled(ev *Event) bool {
	if len(r.Labels) == 0 || ev.Label != "" {
		return some(r.Labels, ev.Label)
	}
	for _, on := range [][]string{ev.Issue.Labels, ev.PullRequest.Labels, ev.Subject.Labels} {
		if slices.ContainsFunc(on, func(l string) bool { return slices.Contains(r.Labels, l) }) {
			return true
		}
	}
	return false
}

// some reports whether a list is empty or has the value.
func some(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

// covers is some for patterns. Those that are malformed match nothing; the
// configuration has none.
func covers(patterns []string, value string) bool {
	return len(patterns) == 0 || value != "" && slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, value)
		return ok && err == nil
	})
}

const heads, refs = "refs/heads/", "refs/"

// branch is the one that an event is about, "" for none: of a pull request the
// one that it is for, of a release its target.
func (ev *Event) branch() string {
	s := &ev.Subject
	switch {
	case ev.PullRequest.Number != 0:
		return ev.PullRequest.BaseRef
	case ev.RefType == "tag":
		return ""
	}
	name := cmp.Or(ev.Ref, ev.Branch, s.HeadBranch, s.SuiteBranch, s.BaseRef, s.Target, s.Ref)
	if b, ok := strings.CutPrefix(name, heads); ok {
		return b
	}
	if strings.HasPrefix(name, refs) {
		return ""
	}
	return name
}

// ref is the full name of the branch or tag that an event is about, "" for none.
func (ev *Event) ref() string {
	s := &ev.Subject
	switch {
	case strings.HasPrefix(ev.Ref, refs):
		return ev.Ref
	case ev.Ref != "" && ev.RefType == "tag":
		return "refs/tags/" + ev.Ref
	case s.Tag != "":
		return "refs/tags/" + s.Tag
	case strings.HasPrefix(s.Ref, refs):
		return s.Ref
	}
	if b := ev.branch(); b != "" {
		return heads + b
	}
	return ""
}

// sha is the commit that an event is about, "" for none.
func (ev *Event) sha() string {
	s := &ev.Subject
	return cmp.Or(ev.PullRequest.HeadSHA, ev.After, s.HeadSHA, s.SHA, ev.SHA)
}

// ownCheck reports whether the event tells of a check of the source's own App:
// what it says, belay made happen, whoever the sender is (G28).
func (c *Config) ownCheck(event string, ev *Event) bool {
	if c.AppID == 0 || ev.Subject.App != c.AppID {
		return false
	}
	return event == "check_run" && (ev.Action == "created" || ev.Action == "completed") || event == "check_suite" && ev.Action == "completed"
}
