package ingest

import (
	"strings"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// words say why something is so, and what can be done about it.
type words struct{ why, next string }

// ignored explains each of task.Reasons.
var ignored = map[task.Reason]words{
	task.Ping:                {"GitHub greets a new webhook so; there is nothing to do", ""},
	task.ForeignApp:          {"it came from the hook of another GitHub App than the source's", "give that App a source of its own, or remove its webhook"},
	task.ForeignInstallation: {"the installation belongs to another source", "remove the App from all but one of them"},
	task.Self:                {"belay's own App caused the event", ""},
	task.UnsupportedEvent:    {"no lane and no rule asks for this event", "take it out of the webhook's events, or route it"},
	task.UnsupportedAction:   {"no lane and no rule asks for this action of the event", ""},
	task.RefDeleted:          {"a branch or tag was deleted: there is nothing to run on", ""},
	task.Closed:              {"the pull request was closed: its queued reviews are superseded", ""},
	task.NoInstallation:      {"a GitHub App is configured, and the payload names no installation of it", "remove the repository's own webhook, or install the App there"},
	task.InstallationDeleted: {"the App was uninstalled: what was kept of the installation is purged", ""},
	task.TooOld:              {"by its own timestamp the event is older than the ids that are remembered, so it could be one that ran before", "raise [storage] dedupe_days"},
	task.Scope:               {"the configuration switches this installation, repository, lane or trigger off", "compare it with `belay config print`"},
	task.NoGitHubApp:         {"a command needs its author's permission checked, for which there is no GitHub App", "set [github] app_id and private_key_file"},
	task.QuotaExceeded:       {"the installation had its number of tasks of the last 24 hours", "raise its limit"},
	task.Unroutable:          {"nothing in the event calls a familiar: no assignment, label, command or review that one asks for", "compare the payload with the familiars in `belay config print`"},
}

// routed says by which lane a delivery became a task.
func routed(l *kv.Logged) string {
	who := "familiar " + l.Task.FamiliarID
	by := ""
	if c := l.Task.Commander; c != "" {
		by = " by " + c
	}
	switch {
	case l.Event == "issues" && l.Action == "assigned":
		return "the issue was assigned to " + who
	case l.Action == "labeled":
		return "the label is one that calls " + who
	case l.Task.Commander != "":
		return "a comment" + by + " begins with a command to " + who + verb(l.Task.Kind.Reason)
	case l.Event == "pull_request":
		return "pull requests are reviewed without being asked; action " + l.Action
	}
	return ""
}

func verb(reason string) string {
	if v, ok := strings.CutPrefix(reason, "command:"); ok {
		return ": " + v
	}
	return ""
}

// outcomes explains how attempts end.
var outcomes = map[task.Outcome]string{
	task.OutcomeCompleted:   "the command ended with a valid result",
	task.OutcomeFailed:      "it ended without a result that counts",
	task.OutcomeInterrupted: "its process gave no more signs of life; one try of the budget is spent",
	task.OutcomeReleased:    "its process was stopped as planned; no try is spent",
	task.OutcomeParked:      "GitHub asked to wait, or could not be asked; no try is spent",
	task.OutcomeCancelled:   "somebody cancelled the task",
	task.OutcomeSuperseded:  "a newer task took its place",
	task.OutcomeTimeout:     "the command took longer than its timeout; one try of the budget is spent",
	task.OutcomeInfra:       "something around the command failed; one try of the budget is spent",
}

// superseded says why a task had to make way.
func superseded(r *task.Record) string {
	switch r.Reason {
	case task.ReasonSuperseded:
		return "a newer " + sort(r) + " of " + r.SupersedeKey + " was admitted" + beaten(r)
	case task.ReasonStale:
		return "when it was admitted or ended, " + r.SupersedeKey + " had a newer head" + beaten(r)
	case task.ReasonCoalesced:
		return "another " + sort(r) + " of the same head was there already" + beaten(r)
	case task.ReasonReplayed:
		return "its body is that of an earlier delivery under another id: headers are not signed, so it could be a replay"
	case task.ReasonClosed:
		return "the pull request was closed"
	}
	return r.Reason
}

// sort is what a task is one of, with those that may supersede it.
func sort(r *task.Record) string {
	if r.Kind.Name == task.ReviewPullRequest || r.Rule == nil {
		return "review"
	}
	return "task of the rule " + r.Rule.Name
}

// beaten adds the order that won.
func beaten(r *task.Record) string {
	if r.BeatenBy == nil {
		return ""
	}
	return " (what the winner is about was last changed at " + r.BeatenBy.UpdatedAt.String() + ")"
}

// waits explains why queued tasks have not begun.
var waits = map[view.Wait]string{
	view.WaitDue:         "it is not to begin before a time",
	view.WaitPaused:      "claims are paused (`belay resume`), or GitHub's limit stops them",
	view.WaitPredecessor: "another task of its pull request or branch runs",
	view.WaitCap:         "its installation has as many running as it may",
	view.WaitWorker:      "no worker process gives a sign of life",
	view.WaitTurn:        "others are before it",
}

func tombstoneWhy(reason string) string {
	if reason == task.ReasonUninstalled {
		return "the App was uninstalled"
	}
	return "the task is past [storage] task_retention_days"
}
