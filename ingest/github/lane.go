package github

import "github.com/belay-run/belay/kv/task"

// want is what an event asks for, before the gates. Without a spec and a
// reason the event is unroutable.
type want struct {
	spec   *task.Spec
	reason task.Reason // the event is recorded for this reason alone
	off    bool        // the trigger that matched is switched off
	gated  bool        // the commander needs write access
}

// lane reads an event of one kind and says what it asks for.
type lane func(*Config, *Event) want

// routes is the routing table: event → action → lane. A push has no
// action.
var routes = map[string]map[string]lane{
	"issues": {
		"assigned": assigned,
		"labeled":  labeled,
	},
	"issue_comment":               {"created": issueComment},
	"pull_request_review":         {"submitted": submittedReview},
	"pull_request_review_comment": {"created": reviewComment},
	"pull_request": {
		"opened":           review,
		"synchronize":      review,
		"reopened":         review,
		"ready_for_review": review,
		"labeled":          labeledReview,
		"closed":           func(*Config, *Event) want { return want{reason: task.Closed} },
	},
	"installation": {"deleted": uninstalled},
	"push":         {"": push},
}

// complete reports whether the event names its thread, without which no task
// can be made: the supersede key needs the base repository's id (G16).
func (ev *Event) complete() bool {
	return ev.Repository.ID != 0 && ev.Repository.FullName != "" && ev.number() != 0
}

func assigned(cfg *Config, ev *Event) want {
	return want{spec: fixIssue(ev, byLogin(cfg.Familiars, ev.Assignee)), off: !cfg.Lanes.Assignment}
}

func labeled(cfg *Config, ev *Event) want {
	return want{spec: fixIssue(ev, cfg.byLabel(ev.Label)), off: !cfg.Lanes.Label}
}

func fixIssue(ev *Event, f *Familiar) *task.Spec {
	if f == nil || !ev.complete() {
		return nil
	}
	return &task.Spec{FamiliarID: f.ID, Kind: task.Kind{
		Name: task.FixIssue, IssueNumber: ev.number(), IssueTitle: ev.Issue.Title, IssueBody: ev.Issue.Body,
	}}
}

// review is the lane of pull requests that nobody commanded a review of.
func review(cfg *Config, ev *Event) want {
	if cfg.isFamiliar(ev.PullRequest.Author) || ev.PullRequest.Draft && !cfg.IncludeDrafts {
		return want{}
	}
	return want{spec: uncommandedReview(ev, cfg.reviewer()), off: !cfg.ReviewPullRequest}
}

// labeledReview works with the review lane off, and on drafts.
func labeledReview(cfg *Config, ev *Event) want {
	return want{spec: uncommandedReview(ev, cfg.byLabel(ev.Label)), off: !cfg.Lanes.Label}
}

// uncommandedReview is a review that supersedes at admission (DT-93).
func uncommandedReview(ev *Event, f *Familiar) *task.Spec {
	if f == nil || !ev.complete() {
		return nil
	}
	r := &task.Review{}
	if at := ev.PullRequest.UpdatedAt; !at.IsZero() {
		r.UpdatedAt = task.At(at)
	}
	if ev.Action == "synchronize" {
		r.Before = ev.Before
	}
	return &task.Spec{FamiliarID: f.ID, Review: r, Kind: task.Kind{
		Name: task.ReviewPullRequest, PRNumber: ev.number(), PRTitle: ev.PullRequest.Title, Reason: ev.Action,
	}}
}

// uninstalled is recorded for admission, which purges the tenant. Without an
// id it would name the hooks that have no App, so it is then unroutable.
func uninstalled(_ *Config, ev *Event) want {
	if ev.Installation == 0 {
		return want{}
	}
	return want{reason: task.InstallationDeleted}
}

// push makes no task by itself; rules come after the lanes.
func push(_ *Config, ev *Event) want {
	if ev.Deleted {
		return want{reason: task.RefDeleted}
	}
	return want{}
}
