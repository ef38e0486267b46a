package consumers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// pushOf is a push to a branch that the rule `deploy` made a task of.
func pushOf(branch, head, before string, at int) task.Delivery {
	d := base()
	d.Event, d.Action = "push", ""
	d.Task = &task.Spec{
		FamiliarID: "cody", HeadSHA: head, Rule: &task.Rule{Name: "deploy", Group: task.BranchGroup(branch)},
		Kind:   task.Kind{Name: task.Custom, Custom: task.CustomKind{Name: "deploy", Event: "push", Ref: "refs/heads/" + branch, SHA: head}},
		Review: &task.Review{Before: before, UpdatedAt: task.At(time.Unix(int64(at), 0))},
	}
	return d
}

// Three pushes to a branch within one second, the last one logged too early: the
// chain of heads decides, and other branches and rules have their own.
func TestQ17NewestPushOfABranchSurvives(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	first := b.admitted(pushOf("main", "a1", "a0", 5))
	third := b.admitted(pushOf("main", "a3", "a2", 5))
	second := b.admitted(pushOf("main", "a2", "a1", 5))
	other := b.admitted(pushOf("next", "b1", "b0", 5))
	lint := pushOf("main", "a2", "a1", 5)
	lint.Task.Rule.Name, lint.Task.Kind.Custom.Name = "lint", "lint"
	another := b.admitted(lint)
	pull := b.admitted(review(3, "a2", "a1", 5))
	require.Equal(t, task.Queued, b.record(other).State)
	require.Equal(t, task.Queued, b.record(another).State)
	require.Equal(t, task.Queued, b.record(pull).State)
	r := b.record(second)
	require.Equal(t, task.Superseded, r.State)
	require.Equal(t, third, r.SupersededBy)
	require.Equal(t, task.ReasonStale, r.Reason)
	require.Equal(t, "acme/api@main", r.SupersedeKey)
	b.start()
	b.reaches(third, task.Completed)
	b.reaches(first, task.Superseded)
	for _, id := range []task.ID{other, another, pull} {
		b.reaches(id, task.Completed)
	}
}

// Two events of one commit are not one event: only two pushes that make the same
// head are. The newest survives.
func TestQ17NewestEventOfACommitSurvives(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	event := func(name string, at int) task.ID {
		d := pushOf("main", "a1", "a0", at)
		d.Event, d.Action, d.Task.Kind.Custom.Event = name, "completed", name
		return b.admitted(d)
	}
	first, second := event("workflow_run", 5), event("workflow_run", 5)
	require.Equal(t, task.ReasonSuperseded, b.record(first).Reason)
	require.Equal(t, second, b.record(first).SupersededBy)
	require.Equal(t, task.Queued, b.record(second).State)
	third, again := event("push", 6), event("push", 6)
	require.Equal(t, task.Queued, b.record(third).State)
	require.Equal(t, task.ReasonCoalesced, b.record(again).Reason)
}

// A push waits for the run of the one before it, which is never cancelled: that
// is a setting of reviews.
func TestNewerPushWaitsForTheRunningOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) {
		o.Concurrency, o.Review = 4, func() ReviewPolicy { return ReviewPolicy{OnSupersede: SupersedeCancel} }
	})
	release := make(chan struct{})
	b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Task.HeadSHA == "a1" {
			return hold(release)(ctx, j)
		}
		return completed()
	}
	b.start()
	first := b.accept(pushOf("main", "a1", "a0", 1))
	b.reaches(first, task.Running)
	second := b.accept(pushOf("main", "a2", "a1", 2))
	third := b.accept(pushOf("main", "a3", "a2", 3))
	b.reaches(second, task.Superseded)
	b.seen(third, task.Queued)
	stays(t, b, 4, "waiting", func() bool { return len(b.runner.started()) == 1 })
	close(release)
	b.reaches(first, task.Completed)
	b.reaches(third, task.Completed)
	require.Len(t, b.runner.started(), 2)
}

// A rule that routes the closing of pull requests takes nothing from what that
// means to the queued reviews.
func TestClosedPullClearsItsQueueThoughARuleRoutesIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	mine := b.admitted(review(3, "a1", "", 1))
	d := pushOf("main", "a1", "", 2)
	d.Event, d.Action, d.Number, d.Task.Review, d.Task.Rule.Group = "pull_request", "closed", 3, nil, ""
	clean := b.admitted(d)
	require.Equal(t, task.ReasonClosed, b.record(mine).Reason)
	require.Equal(t, task.Queued, b.record(clean).State)
}
