package github

import "github.com/belay-run/belay/kv/task"

// The bodies of command_reply tasks. They are fixed: nothing of a comment
// comes back in a reply (G39).
const (
	// ReplyStatus is no text but a mark: the worker puts the thread's tasks
	// in its place.
	ReplyStatus = "status"
	// ReplyVerbs answers an unknown verb.
	ReplyVerbs = "I don't know that command. I know `review`, `deepen`, `fix`, `retry`, `cancel` and `status`; " +
		"on issues `fix`, `retry` and `status`."
	// ReplyPullOnly answers review and deepen on an issue.
	ReplyPullOnly = "`review` and `deepen` are for pull requests. On an issue I know `fix`, `retry` and `status`."
	// ReplyReviewsOnly answers cancel on an issue.
	ReplyReviewsOnly = "`cancel` is for reviews only: on a pull request it cancels the queued ones."
)

func issueComment(cfg *Config, ev *Event) want {
	return command(cfg, ev, &ev.Comment, ev.Issue.IsPullRequest, ev.Issue.Title)
}

func submittedReview(cfg *Config, ev *Event) want {
	return command(cfg, ev, &ev.Review, true, ev.PullRequest.Title)
}

func reviewComment(cfg *Config, ev *Event) want {
	return command(cfg, ev, &ev.Comment, true, ev.PullRequest.Title)
}

// command makes what a comment commands. Gated commands carry their commander,
// whose permission the worker checks; the others have none, as none is needed.
func command(cfg *Config, ev *Event, c *Comment, pull bool, title string) want {
	if c.Author == "" || cfg.ours(c.Author) || !ev.complete() {
		return want{}
	}
	f, verb, ok := ParseCommand(cfg.Familiars, c.Body)
	if !ok {
		return want{}
	}
	spec := &task.Spec{FamiliarID: f.ID}
	w := want{spec: spec, off: !cfg.Lanes.Command, gated: verb != VerbStatus && verb != VerbUnknown}
	if w.gated {
		spec.Commander = c.Author
	}
	if pull {
		spec.Kind = pullCommand(verb, ev.number(), title, c)
	} else {
		spec.Kind = issueCommand(verb, ev)
	}
	return w
}

func pullCommand(verb Verb, number int, title string, c *Comment) task.Kind {
	switch verb {
	case VerbReview, VerbDeepen, VerbRetry:
		return task.Kind{
			Name: task.ReviewPullRequest, PRNumber: number, PRTitle: title, Reason: "command:" + string(verb),
		}
	case VerbFix:
		return task.Kind{
			Name: task.AddressReviewComment, PRNumber: number, CommentBody: c.Body, DiffHunk: c.DiffHunk,
		}
	case VerbCancel:
		return task.Kind{Name: task.CancelReviews, PRNumber: number}
	case VerbStatus:
		return reply(number, ReplyStatus)
	}
	return reply(number, ReplyVerbs)
}

func issueCommand(verb Verb, ev *Event) task.Kind {
	number := ev.number()
	switch verb {
	case VerbFix, VerbRetry:
		return task.Kind{
			Name: task.FixIssue, IssueNumber: number, IssueTitle: ev.Issue.Title, IssueBody: ev.Issue.Body,
		}
	case VerbReview, VerbDeepen:
		return reply(number, ReplyPullOnly)
	case VerbCancel:
		return reply(number, ReplyReviewsOnly)
	case VerbStatus:
		return reply(number, ReplyStatus)
	}
	return reply(number, ReplyVerbs)
}

func reply(number int, body string) task.Kind {
	return task.Kind{Name: task.CommandReply, IssueNumber: number, Body: body}
}
