package consumers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

func TestG06SameHeadIsOneRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	first := b.admitted(review(3, "a1", "a0", 1))
	second := b.admitted(review(3, "a1", "a0", 1))
	r := b.record(second)
	require.Equal(t, task.Superseded, r.State)
	require.Equal(t, task.ReasonCoalesced, r.Reason)
	require.Equal(t, first, r.SupersededBy)
	require.EqualValues(t, 2, r.BeatenBy.Seq, "the winner's order is the newest of that head")
	b.start()
	b.reaches(first, task.Completed)
	b.drained()
	require.Len(t, b.runner.started(), 1)
}

func TestG23LateOlderPushDoesNotTouchTheRunningOne(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env, fleet)
	b.runner.f = hold(nil)
	second := b.admitted(review(3, "a2", "a1", 20))
	b.startWorker()
	b.reaches(second, task.Running)
	first := b.admitted(review(3, "a1", "a0", 10))
	r := b.record(first)
	require.Equal(t, task.Superseded, r.State)
	require.Equal(t, task.ReasonStale, r.Reason)
	require.Equal(t, second, r.SupersededBy)
	require.Equal(t, int64(20), r.BeatenBy.UpdatedAt.Unix())
	require.Equal(t, task.Running, b.record(second).State)
	b.crash()
	c := newBench(t, env, fleet)
	c.startWorker()
	require.Equal(t, 2, c.reaches(second, task.Completed).Attempts)
	require.Equal(t, []string{string(second) + "/2"}, c.runner.started(), "one live generation")
}

func TestG24DT49NewerPushWaitsForTheRunningOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.Concurrency = 4 })
	release := make(chan struct{})
	b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Task.HeadSHA == "a1" {
			return hold(release)(ctx, j)
		}
		return completed()
	}
	b.start()
	first := b.accept(review(3, "a1", "a0", 1))
	b.reaches(first, task.Running)
	second := b.accept(review(3, "a2", "a1", 2))
	b.seen(second, task.Queued)
	stays(t, b, 4, "waiting", func() bool { return len(b.runner.started()) == 1 })
	require.Equal(t, task.Running, b.record(first).State, "a running one is not tombstoned")
	close(release)
	b.reaches(first, task.Completed)
	b.reaches(second, task.Completed)
}

// Two processes, five pushes that alternate between them within one second.
func TestG25PushesOverTwoProcesses(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	runs := newOverlap(nil)
	var nodes []*bench
	byPull := newOverlap(func(ctx context.Context, j executor.Job) executor.Report {
		j.Task.ID = "the pull" // counts over all tasks
		return runs.run(ctx, j)
	})
	for range 2 {
		b := newBench(t, env, fleet, func(o *Options) { o.Concurrency = 4 })
		b.runner.f = byPull.run
		nodes = append(nodes, b.start())
	}
	for round := range 6 {
		var last task.ID
		for push := range 5 {
			d := review(round, fmt.Sprint("h", push), fmt.Sprint("h", push-1), 1)
			last = nodes[push%2].accept(d)
		}
		nodes[0].reaches(last, task.Completed)
	}
	natstest.Eventually(t, "nothing to be live", func() bool {
		n := nodes[0].view.Counts()
		return n[task.Queued]+n[task.Running] == 0
	})
	most, _ := byPull.counts()
	require.Equal(t, 1, most)
	for _, s := range []task.State{task.Failed, task.Cancelled} {
		require.Zero(t, nodes[0].view.Counts()[s])
	}
}

// The winner's claim settles the predecessor itself: between the pointer's
// move and the predecessor's end nothing may start beside the winner.
func TestG25PredecessorCannotStartBesideItsWinner(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	held := newGate(t)
	a := newBench(t, env, fleet, quiet, func(o *Options) {
		o.Concurrency, o.Hooks = 1, &Hooks{BeforeClaim: held.wait} // no slot to admit the second by its token
	})
	first := a.admitted(review(3, "a1", "a0", 1))
	a.startWorker()
	natstest.Eventually(t, "the first to be before its claim", func() bool { return held.waiting() == 1 })
	// The second is admitted by a process that dies before it ends the first.
	b := newBench(t, env, fleet, quiet)
	release := make(chan struct{})
	b.runner.f = hold(release)
	f := &failOn{op: "update", prefix: kv.TaskKey(7, first), times: 1, err: kv.ErrFull}
	b.store.SetHooks(f.hooks())
	second := b.accept(review(3, "a2", "a1", 2))
	require.Error(t, b.admitAt(2))
	require.Equal(t, task.Queued, b.record(second).State)
	require.Equal(t, task.Queued, b.record(first).State)
	b.startWorker()
	b.reaches(second, task.Running)
	require.Equal(t, task.Superseded, b.record(first).State)
	close(held.open)
	natstest.Eventually(t, "the late claim to be refused", func() bool { _, lost := claimsWon([]*bench{a}); return lost >= 1 })
	require.Empty(t, a.runner.started())
	close(release)
	b.reaches(second, task.Completed)
}

func TestQ11RetryOfTheWinnerDoesNotSupersedeItself(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	b.runner.f = func(_ context.Context, j executor.Job) executor.Report {
		if j.Attempt == 1 {
			return retryable("once")
		}
		return completed()
	}
	old := b.admitted(review(3, "a1", "a0", 1))
	id := b.admitted(review(3, "a2", "a1", 2))
	require.Equal(t, task.Superseded, b.record(old).State)
	b.start()
	require.Equal(t, 2, b.reaches(id, task.Completed).Attempts)
	require.NoError(t, b.admitAt(2), "nor does its message, again")
	require.Equal(t, task.Completed, b.record(id).State)
}

// Three pushes of one second (Q17): the chain of heads decides wherever the
// heads that arrived so far are related, and exactly one is left live.
func TestQ17BeforeChainWithinOneSecond(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	for n, c := range []struct {
		order  []int
		newest bool // by what was known at each arrival; else the head check finds it later
	}{
		{[]int{1, 2, 3}, true}, {[]int{1, 3, 2}, true}, {[]int{2, 1, 3}, true}, {[]int{2, 3, 1}, true},
		{[]int{3, 1, 2}, false}, {[]int{3, 2, 1}, false},
	} {
		ids := map[int]task.ID{}
		for _, i := range c.order {
			ids[i] = b.admitted(review(n+1, fmt.Sprint("h", i), fmt.Sprint("h", i-1), 5))
		}
		live := 0
		for _, id := range ids {
			if b.record(id).State == task.Queued {
				live++
			}
		}
		require.Equal(t, 1, live, "order %v", c.order)
		if c.newest {
			require.Equal(t, task.Queued, b.record(ids[3]).State, "order %v", c.order)
		}
	}
}

// With whole seconds between them payload order decides in every permutation.
func TestPayloadOrderBeatsArrival(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	for n, order := range [][]int{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}} {
		ids := map[int]task.ID{}
		for _, i := range order {
			ids[i] = b.admitted(review(n+1, fmt.Sprint("h", i), "", i))
		}
		for i, id := range ids {
			r := b.record(id)
			if i == 3 {
				require.Equal(t, task.Queued, r.State, "order %v", order)
				continue
			}
			require.Equal(t, task.Superseded, r.State, "order %v", order)
			if r.Reason == task.ReasonStale {
				require.NotNil(t, r.BeatenBy, "a stale arrival names what beat it")
				require.Greater(t, r.BeatenBy.UpdatedAt.Unix(), int64(i))
			}
		}
	}
}

func TestTwoFamiliarsOnOnePullAreIndependent(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	of := func(familiar, head string, at int) task.ID {
		d := review(3, head, "", at)
		d.Task.FamiliarID = familiar
		return b.admitted(d)
	}
	c1, r1 := of("cody", "a1", 1), of("rita", "a1", 1)
	c2 := of("cody", "a2", 2)
	require.Equal(t, task.Superseded, b.record(c1).State)
	require.Equal(t, task.Queued, b.record(r1).State)
	require.Equal(t, task.Queued, b.record(c2).State)
}

// A commanded review neither moves the pointer nor is moved by it (DT-93).
func TestDT93CommandedReviewSupersedesNothingAtAdmission(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	auto := b.admitted(review(3, "a1", "", 1))
	d := review(3, "a1", "", 2)
	d.Task.Review, d.Task.Commander, d.Task.Kind.Reason = nil, "alice", "command:review"
	commanded := b.admitted(d)
	require.Equal(t, task.Queued, b.record(auto).State)
	b.admitted(review(3, "a2", "a1", 3))
	require.Equal(t, task.Superseded, b.record(auto).State)
	require.Equal(t, task.Queued, b.record(commanded).State, "spared")
}

func closes(n int) task.Delivery {
	d := base()
	d.Event, d.Action, d.Number, d.Routing = "pull_request", "closed", n, task.Ignored(task.Closed)
	return d
}

func TestClosedPullClearsItsQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	mine, other := b.admitted(review(3, "a1", "", 1)), b.admitted(review(4, "b1", "", 1))
	late := b.logged(closes(3))
	after := b.admitted(review(3, "a2", "a1", 9)) // reopened, and admitted first
	require.Equal(t, task.Superseded, b.record(mine).State)
	fix := b.admitted(issue(3))
	require.NoError(t, b.adm.Admit(t.Context(), late, 3))
	require.Equal(t, task.Queued, b.record(after).State, "logged after it")
	require.Equal(t, task.Queued, b.record(other).State)
	require.Equal(t, task.Queued, b.record(fix).State, "reviews only")
	seq := b.accepted(closes(3))
	require.NoError(t, b.admitAt(seq))
	r := b.record(after)
	require.Equal(t, task.Superseded, r.State)
	require.Equal(t, task.ReasonClosed, r.Reason)
	// Reopened with the same head: it has to be reviewed.
	again := b.admitted(review(3, "a2", "", 12))
	require.Equal(t, task.Queued, b.record(again).State)
}

// accepted logs a delivery and returns its sequence.
func (b *bench) accepted(d task.Delivery) uint64 {
	b.t.Helper()
	acc, err := b.log.Accept(b.t.Context(), d)
	require.NoError(b.t, err)
	return acc.Seq
}

// Headers are not signed, only the body is: the same body under another id is
// a replay, where a body names one occurrence.
func TestReplayGuard(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	once := issue(1)
	once.Task.Once = true
	first := b.admitted(once)
	replay := once
	replay.ID = base().ID
	spec := *once.Task
	replay.Task = &spec
	second := b.admitted(replay)
	r := b.record(second)
	require.Equal(t, task.Superseded, r.State)
	require.Equal(t, task.ReasonReplayed, r.Reason)
	require.Equal(t, first, r.SupersededBy)
	require.NoError(t, b.admitAt(1))
	require.Equal(t, task.Queued, b.record(first).State)

	many := issue(2) // a push, say: bodies may repeat
	one := b.admitted(many)
	many.ID = base().ID
	spec2 := *many.Task
	many.Task = &spec2
	require.Equal(t, task.Queued, b.record(b.admitted(many)).State)
	require.Equal(t, task.Queued, b.record(one).State)
}

func TestRetryNeverOverwritesANewerReview(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.Review = func() ReviewPolicy { return ReviewPolicy{OnSupersede: SupersedeCancel} } })
	release := make(chan struct{})
	b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Task.HeadSHA == "a2" {
			return hold(release)(ctx, j)
		}
		return completed()
	}
	b.start()
	old := b.accept(review(3, "a1", "", 1))
	b.reaches(old, task.Completed)
	newer := b.accept(review(3, "a2", "a1", 2))
	b.reaches(newer, task.Running)
	_, _, err := b.store.Change(t.Context(), 7, old, func(r task.Record) (task.Record, error) { return r.Retry(time.Now()) }, nil)
	require.NoError(t, err)
	b.seen(old, task.Queued)
	stays(t, b, 3, "the newer one runs on", func() bool { return b.worker.holds(newer) })
	close(release)
	require.Equal(t, 1, b.reaches(newer, task.Completed).Attempts)
	require.Equal(t, newer, b.reaches(old, task.Superseded).SupersededBy)
}

func TestOnSupersedeCancelEndsTheRunningReview(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), watchOnly, func(o *Options) { o.Review = func() ReviewPolicy { return ReviewPolicy{OnSupersede: SupersedeCancel} } })
	b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Task.HeadSHA == "a1" {
			return hold(nil)(ctx, j)
		}
		return completed()
	}
	b.start()
	old := b.accept(review(3, "a1", "", 1))
	b.reaches(old, task.Running)
	newer := b.accept(review(3, "a2", "a1", 2))
	r := b.reaches(old, task.Superseded)
	require.Equal(t, newer, r.SupersededBy)
	require.Equal(t, task.OutcomeSuperseded, r.AttemptLog[0].Outcome)
	require.Equal(t, 1, b.reaches(newer, task.Completed).Attempts)
}
