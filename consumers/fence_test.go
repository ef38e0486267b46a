package consumers

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// contenders are processes whose claimers all stand before the CAS of one
// task, each with a claim that is good by what it read.
func contenders(t *testing.T, n int) ([]*bench, []*gate, *overlap, task.ID) {
	t.Helper()
	env := natstest.New(t)
	runs := newOverlap(nil)
	var benches []*bench
	var gates []*gate
	for range n {
		g := newGate(t)
		b := newBench(t, env, fleet, quiet, func(o *Options) { o.Hooks = &Hooks{BeforeClaim: g.wait} })
		b.runner.f = runs.run
		benches, gates = append(benches, b), append(gates, g)
	}
	id := benches[0].admitted(issue(1))
	for _, b := range benches {
		b.seen(id, task.Queued)
		b.startWorker()
	}
	for _, g := range gates {
		natstest.Eventually(t, "every contender before its claim", func() bool { return g.waiting() == 1 })
	}
	return benches, gates, runs, id
}

// claimsWon counts the claims that were won and the processes that won none
// but lost at least one.
func claimsWon(benches []*bench) (won, losers int) {
	for _, b := range benches {
		n := int(testutil.ToFloat64(b.worker.met.claims))
		won += n
		if n == 0 && testutil.ToFloat64(b.worker.met.lost) > 0 {
			losers++
		}
	}
	return won, losers
}

func TestDT68OneOfManyHeldClaimsWins(t *testing.T) {
	t.Parallel()
	benches, gates, runs, id := contenders(t, 4)
	for _, g := range gates {
		close(g.open)
	}
	r := benches[0].reaches(id, task.Completed)
	require.Equal(t, 1, r.Attempts)
	require.Len(t, r.AttemptLog, 1)
	natstest.Eventually(t, "the others to have lost", func() bool { _, losers := claimsWon(benches); return losers == 3 })
	won, _ := claimsWon(benches)
	_, total := runs.counts()
	require.Equal(t, 1, won)
	require.Equal(t, 1, total)
}

func TestDT68HeldClaimsReleasedOneAtATime(t *testing.T) {
	t.Parallel()
	benches, gates, runs, id := contenders(t, 3)
	close(gates[2].open)
	r := benches[2].reaches(id, task.Completed)
	for i, g := range gates[:2] {
		close(g.open)
		natstest.Eventually(t, "the late claim to be refused", func() bool { _, losers := claimsWon(benches[:i+1]); return losers == i+1 })
	}
	require.Equal(t, r, benches[0].record(id), "late claims changed nothing")
	_, total := runs.counts()
	require.Equal(t, 1, total)
}

func TestClaimWhoseAnswerWasLostIsKnownByItsNonce(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	id := b.admitted(issue(1))
	fail := &failOn{op: "update", prefix: "task.", times: 1, after: true, err: kv.ErrUnknown}
	b.store.SetHooks(fail.hooks())
	b.startWorker()
	r := b.reaches(id, task.Completed)
	require.Equal(t, 1, fail.count())
	require.Equal(t, 1, r.Attempts, "the claim that was made is the one that ran")
	require.Equal(t, []string{string(id) + "/1"}, b.runner.started())
}

func TestClaimThatNeverReachedTheStoreIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	id := b.admitted(issue(1))
	fail := &failOn{op: "update", prefix: "task.", times: 2, err: kv.ErrUnknown}
	b.store.SetHooks(fail.hooks())
	b.startWorker()
	r := b.reaches(id, task.Completed)
	require.Equal(t, 2, fail.count())
	require.Equal(t, 1, r.Attempts, "a claim that was not written is no attempt")
	require.Len(t, b.runner.started(), 1)
}

// The answer is lost, and the claim that is found is another's.
func TestUnknownClaimThatAnotherWonIsLost(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b, other := newBench(t, env, fleet, quiet), newBench(t, env, fleet, quiet)
	id := b.admitted(issue(1))
	b.store.SetHooks(&kv.Hooks{Before: func(ctx context.Context, op, key string) error {
		if op != "update" || key != kv.TaskKey(7, id) {
			return nil
		}
		_, _, err := other.store.Change(ctx, 7, id, func(r task.Record) (task.Record, error) {
			return r.Claim("other", other.opts.Boot, "theirs", r.UpdatedAt.Time)
		}, nil)
		if err != nil {
			return err
		}
		return kv.ErrUnknown
	}})
	b.startWorker()
	natstest.Eventually(t, "the claim to be lost", func() bool { _, losers := claimsWon([]*bench{b}); return losers == 1 })
	r := b.record(id)
	require.Equal(t, other.opts.Boot, r.Open().Boot)
	require.Equal(t, 1, r.Attempts)
	require.Empty(t, b.runner.started())
}

// A holder that froze before it could write its result, and woke up after
// another process had run the task.
func TestJ04DT71FrozenHolderLosesAndDiscards(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	frozen := newGate(t)
	first := newBench(t, env, fleet, func(o *Options) { o.Hooks = &Hooks{BeforeEnd: frozen.wait} })
	first.runner.f = func(context.Context, executor.Job) executor.Report {
		return executor.Report{Class: executor.Done, Result: task.Result{State: task.Completed, Summary: "stale"}}
	}
	mute := first.mute()
	id := first.admitted(issue(1))
	first.startWorker()
	natstest.Eventually(t, "the first to freeze", func() bool { return frozen.waiting() == 1 })
	mute.set(always)

	second := newBench(t, env, fleet)
	second.startWorker()
	r := second.reaches(id, task.Completed)
	require.Equal(t, 2, r.Attempts)
	require.Equal(t, task.OutcomeInterrupted, r.AttemptLog[0].Outcome)
	require.Equal(t, second.opts.Boot, r.AttemptLog[1].Boot)

	close(frozen.open)
	natstest.Eventually(t, "the stale result to be discarded", func() bool {
		return testutil.ToFloat64(first.worker.met.discarded) == 1
	})
	require.Equal(t, r, first.record(id), "its result was refused")
	require.Equal(t, "done", r.Summary)
}

// The same, but the other process still runs it: neither the result nor the
// release of the first may end the attempt of the second.
func TestDT71FrozenHolderDoesNotEndTheNextAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		rep  executor.Report
	}{
		{"result", completed()}, {"failed try", retryable("stale")},
		{"release", executor.Report{Class: executor.Canceled, Outcome: task.OutcomeCancelled}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			frozen := newGate(t)
			first := newBench(t, env, fleet, func(o *Options) { o.Hooks = &Hooks{BeforeEnd: frozen.wait} })
			first.runner.f = func(context.Context, executor.Job) executor.Report { return c.rep }
			mute := first.mute()
			id := first.admitted(issue(1))
			first.startWorker()
			natstest.Eventually(t, "the first to freeze", func() bool { return frozen.waiting() == 1 })
			mute.set(always)
			second := newBench(t, env, steady)
			release := make(chan struct{})
			second.runner.f = hold(release)
			second.startWorker()
			natstest.Eventually(t, "the second to run it", func() bool { return len(second.runner.started()) == 1 })
			want := second.record(id)
			close(frozen.open)
			natstest.Eventually(t, "the stale end to be discarded", func() bool {
				return testutil.ToFloat64(first.worker.met.discarded) == 1
			})
			require.Equal(t, want, second.record(id))
			close(release)
			require.Equal(t, 2, second.reaches(id, task.Completed).Attempts)
		})
	}
}

func TestFinishWhoseAnswerWasLostIsDecidedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		f    func(context.Context, executor.Job) executor.Report
		want task.State
		runs int
	}{
		{"completed", nil, task.Completed, 1},
		{"failed try", func(context.Context, executor.Job) executor.Report { return retryable("no") }, task.Failed, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, natstest.New(t))
			b.runner.f = c.f
			fail := &failOn{op: "update", prefix: "task.", times: 1000, after: true, err: kv.ErrUnknown}
			b.store.SetHooks(fail.hooks())
			id := b.admitted(issue(1))
			b.startWorker()
			r := b.reaches(id, c.want)
			require.Equal(t, c.runs, r.Attempts)
			natstest.Eventually(t, "the run to end", func() bool { return b.worker.Progress().Running == 0 })
			require.Equal(t, 2*c.runs, fail.count(), "one claim and one end a run, each written once")
			require.Zero(t, testutil.ToFloat64(b.worker.met.discarded))
		})
	}
}

func TestDT72FinishOnATerminalTaskIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	release := make(chan struct{})
	b.runner.f = hold(release)
	id := b.admitted(issue(1))
	b.startWorker()
	b.reaches(id, task.Running)
	want, _, err := b.store.Change(t.Context(), 7, id, func(r task.Record) (task.Record, error) {
		return r.Cancel("by test", r.UpdatedAt.Time)
	}, nil)
	require.NoError(t, err)
	close(release)
	natstest.Eventually(t, "the result to be discarded", func() bool { return testutil.ToFloat64(b.worker.met.discarded) == 1 })
	require.Equal(t, want, b.record(id))
}

// A record that became unreadable under its run gives the slot back.
func TestUnreadableRecordDoesNotHoldItsRun(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"garbage", `{"v":99}`} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			b := newBench(t, env, func(o *Options) { o.Concurrency = 1 })
			release := make(chan struct{})
			b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
				if j.Task.Number == 1 {
					return hold(release)(ctx, j)
				}
				return completed()
			}
			id := b.admitted(issue(1))
			b.startWorker()
			b.reaches(id, task.Running)
			put(t, env, kv.TaskKey(7, id), value)
			other := b.admitted(issue(2))
			b.reaches(other, task.Completed)
			_, _, err := b.store.Get(t.Context(), 7, id)
			require.True(t, errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNewer), "left as it was: %v", err)
		})
	}
}
