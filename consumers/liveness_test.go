package consumers

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// A process whose beats fail cancels its runs before anyone may take them,
// and claims nothing until it beats again.
func TestHolderThatCannotBeatCancelsItsRunsFirst(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	a := newBench(t, env, fleet)
	var cancelled atomic.Pointer[error]
	stopped := make(chan struct{})
	a.runner.f = func(ctx context.Context, _ executor.Job) executor.Report {
		<-ctx.Done()
		err := context.Cause(ctx)
		cancelled.CompareAndSwap(nil, &err)
		<-stopped
		return executor.Report{Class: executor.Canceled, Outcome: task.OutcomeCancelled}
	}
	mute := a.mute()
	id := a.admitted(issue(1))
	a.startWorker()
	a.reaches(id, task.Running)

	b := newBench(t, env, fleet, func(o *Options) { o.Concurrency = 1 })
	taken := make(chan error, 1)
	b.runner.f = func(context.Context, executor.Job) executor.Report {
		if p := cancelled.Load(); p != nil {
			taken <- *p
		} else {
			taken <- nil
		}
		return completed()
	}
	b.startWorker()
	mute.set(always)
	require.ErrorIs(t, <-taken, errLostBeat, "the holder's run was cancelled before the other took the task")
	r := b.reaches(id, task.Completed)
	require.Equal(t, task.OutcomeInterrupted, r.AttemptLog[0].Outcome)
	close(stopped)
	natstest.Eventually(t, "the result to be discarded", func() bool { return testutil.ToFloat64(a.worker.met.discarded) == 1 })
	require.Equal(t, r, a.record(id))
}

func TestMuteProcessClaimsNothingUntilItBeatsAgain(t *testing.T) {
	t.Parallel()
	a := newBench(t, natstest.New(t))
	mute := a.mute()
	a.startWorker()
	mute.set(always)
	natstest.Eventually(t, "the process to know that it is mute", a.worker.silent)
	id := a.admitted(issue(1))
	failed := mute.count()
	natstest.Eventually(t, "six more beats to fail", func() bool { return mute.count() >= failed+6 })
	require.Equal(t, task.Queued, a.record(id).State, "the others take it for dead: it must not claim")
	require.Empty(t, a.runner.started())
	mute.set(0)
	require.Equal(t, 1, a.reaches(id, task.Completed).Attempts)
}

func TestQ02TwoOfThreeBeatsLostIsNoDeath(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	a := newBench(t, env, steady)
	var n atomic.Int64
	a.store.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, key string) error {
		if op == "put" && hasPrefix(key, "worker.") && n.Add(1)%3 != 1 {
			return kv.ErrUnknown
		}
		return nil
	}})
	release := make(chan struct{})
	a.runner.f = hold(release)
	id := a.admitted(issue(1))
	a.startWorker()
	a.reaches(id, task.Running)
	b := newBench(t, env, steady)
	b.startWorker()
	stays(t, b, 8, "the attempt lives", func() bool {
		s, ok := b.view.Standing(id)
		return !ok || s.State == task.Running && s.Holder.Boot == a.opts.Boot
	})
	close(release)
	r := b.reaches(id, task.Completed)
	require.Equal(t, 1, r.Attempts)
	require.Greater(t, testutil.ToFloat64(a.worker.met.beats.WithLabelValues("failed")), 3.0)
}

func TestQ06LongRunIsNotTakenWhileItsProcessBeats(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	release := make(chan struct{})
	a := newBench(t, env, steady, func(o *Options) { o.Timeout = time.Nanosecond }) // the runner's to enforce
	a.runner.f = hold(release)
	id := a.admitted(issue(1))
	a.startWorker()
	a.reaches(id, task.Running)
	b := newBench(t, env, steady)
	b.startWorker()
	stays(t, b, 8, "held by its first attempt", func() bool { return len(b.runner.started()) == 0 })
	close(release)
	require.Equal(t, 1, a.reaches(id, task.Completed).Attempts)
}

func TestQ18TwoProcessesOfOneNameDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	release := make(chan struct{})
	a := newBench(t, env, steady, func(o *Options) { o.DrainTimeout = time.Minute })
	a.runner.f = hold(release)
	x := a.admitted(issue(1))
	a.startWorker()
	a.reaches(x, task.Running)
	b := newBench(t, env, steady) // the same name, another boot, while a drains
	require.Equal(t, a.opts.Name, b.opts.Name)
	require.NotEqual(t, a.opts.Boot, b.opts.Boot)
	b.startWorker()
	drained := make(chan error, 1)
	go func() { drained <- a.worker.Stop(context.Background()) }()
	stays(t, b, 7, "the draining run lives", func() bool { return len(b.runner.started()) == 0 })
	close(release)
	require.NoError(t, <-drained)
	r := b.reaches(x, task.Completed)
	require.Equal(t, 1, r.Attempts)
	require.Equal(t, a.opts.Boot, r.AttemptLog[0].Boot)
	// The end of one boot's beats is no death of the other.
	y := b.admitted(issue(2))
	require.Equal(t, b.opts.Boot, b.reaches(y, task.Completed).AttemptLog[0].Boot)
}

func TestQ07OneStuckAmongManyHealthyIsRecovered(t *testing.T) {
	t.Parallel()
	const healthy = 40
	env := natstest.New(t)
	release := make(chan struct{})
	a := newBench(t, env, fleet, func(o *Options) { o.Concurrency = healthy })
	a.runner.f = hold(release)
	var ids []task.ID
	for n := range healthy {
		ids = append(ids, a.admitted(issue(n)))
	}
	a.startWorker()
	for _, id := range ids {
		a.reaches(id, task.Running)
	}
	b := newBench(t, env, fleet)
	b.startWorker()
	stuck := b.admitted(issue(1000))
	b.reaches(stuck, task.Completed)
	// Now one of a boot that died long ago.
	stuck = a.admittedHeld(issue(1001), "deadboot")
	r := b.reaches(stuck, task.Completed)
	require.Equal(t, 2, r.Attempts)
	require.Equal(t, task.OutcomeInterrupted, r.AttemptLog[0].Outcome)
	close(release)
	for _, id := range ids {
		require.Equal(t, 1, a.reaches(id, task.Completed).Attempts, "no healthy one was touched")
	}
}

// admittedHeld makes a record that is running by a boot, never seen queued.
func (b *bench) admittedHeld(d task.Delivery, boot task.BootID) task.ID {
	b.t.Helper()
	acc, err := b.log.Accept(b.t.Context(), d)
	require.NoError(b.t, err)
	r, err := task.New(acc.Delivery, acc.Seq, task.At(time.Now()))
	require.NoError(b.t, err)
	r, err = r.Claim("other", boot, "nonce", time.Now())
	require.NoError(b.t, err)
	_, err = b.store.Create(b.t.Context(), r)
	require.NoError(b.t, err)
	b.seen(r.ID, task.Running)
	return r.ID
}

// Recovery may be slow, or stuck: beats go on beside it.
func TestQ02StuckRecoveryDoesNotStopBeats(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env, fleet)
	block := make(chan struct{})
	var reached atomic.Bool
	b.store.SetHooks(&kv.Hooks{Before: func(ctx context.Context, op, key string) error {
		if op == "get" && hasPrefix(key, "task.") {
			reached.Store(true)
			select {
			case <-block:
			case <-ctx.Done():
			}
		}
		return nil
	}})
	b.admittedHeld(issue(1), "deadboot")
	b.startWorker()
	natstest.Eventually(t, "recovery to be stuck", reached.Load)
	stays(t, b, 6, "beating", func() bool { return !b.worker.silent() })
	close(block)
	natstest.Eventually(t, "the orphan to run", func() bool { return len(b.runner.started()) == 1 })
}

// The old attempt's context ends before the new attempt starts (Q16): the
// same order as a server restart brings, by the watch alone.
func TestQ16LostAttemptIsCancelledByTheWatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), watchOnly)
	causes := make(chan error, 1)
	b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Attempt > 1 {
			return completed()
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return executor.Report{Class: executor.Canceled, Outcome: task.OutcomeCancelled}
	}
	id := b.admitted(issue(1))
	b.startWorker()
	r := b.reaches(id, task.Running)
	a := r.Open()
	h := task.Holder{N: a.N, Boot: a.Boot, Nonce: a.Nonce}
	_, _, err := b.store.Change(t.Context(), 7, id, func(r task.Record) (task.Record, error) {
		return r.EndAttempt(h, task.Ending{Outcome: task.OutcomeInterrupted}, 2, time.Now())
	}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, <-causes, errTaken)
	require.Equal(t, 2, b.reaches(id, task.Completed).Attempts)
}

func TestPurgedTaskIsCancelled(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env)
	causes := make(chan error, 1)
	b.runner.f = func(ctx context.Context, _ executor.Job) executor.Report {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return executor.Report{Class: executor.Canceled, Outcome: task.OutcomeCancelled}
	}
	id := b.admitted(issue(1))
	b.startWorker()
	b.reaches(id, task.Running)
	b.seen(id, task.Running)
	bucket, err := env.JS.KeyValue(t.Context(), "STATE")
	require.NoError(t, err)
	require.NoError(t, bucket.Purge(t.Context(), kv.TaskKey(7, id)))
	require.ErrorIs(t, <-causes, errTaken)
	natstest.Eventually(t, "the slot to be free", func() bool { return b.worker.Progress().Running == 0 })
}

// Crash loops end: every life of the process dies with the task (J24, G35).
func TestJ24CrashLoopEndsFailed(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprint("alone ", alone), func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			keep := newBench(t, env, fleet)
			id := keep.admitted(issue(1))
			for life := 1; life <= 3; life++ {
				b := newBench(t, env, func(o *Options) { o.Alone = alone })
				b.runner.f = hold(nil)
				b.startWorker()
				natstest.Eventually(t, "this life to run it", func() bool { return len(b.runner.started()) == 1 })
				require.Equal(t, life, keep.record(id).Attempts)
				b.crash()
			}
			last := newBench(t, env, func(o *Options) { o.Alone = alone })
			last.startWorker()
			r := last.reaches(id, task.Failed)
			require.Equal(t, 3, r.Attempts, "max_retries + 1")
			for _, a := range r.AttemptLog {
				require.Equal(t, task.OutcomeInterrupted, a.Outcome)
				require.False(t, a.EndedAt.IsZero())
			}
			require.Contains(t, r.Reason, "3 of 3")
			require.Empty(t, last.runner.started())
		})
	}
}
