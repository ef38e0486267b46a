package consumers

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

func TestStopWaitsForRunsThatFinish(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	release := make(chan struct{})
	b.runner.f = hold(release)
	id := b.admitted(issue(1))
	waiting := b.admitted(issue(2))
	b.worker.o.Concurrency = 1
	b.startWorker()
	b.reaches(id, task.Running)
	stopped := make(chan error, 1)
	go func() { stopped <- b.worker.Stop(context.Background()) }()
	natstest.Eventually(t, "pulling to end", func() bool { return b.worker.pull.Err() != nil })
	close(release)
	require.NoError(t, <-stopped)
	require.Equal(t, task.OutcomeCompleted, b.reaches(id, task.Completed).AttemptLog[0].Outcome)
	require.Equal(t, task.Queued, b.record(waiting).State, "nothing new was begun")
}

// What the drain timeout cuts off is released: its attempt is free, and
// another process runs it at once (Q09, DT-78).
func TestQ09DT78DrainTimeoutReleasesForFree(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env, fleet, watchOnly, func(o *Options) { o.DrainTimeout, o.MaxRetries = 10*time.Millisecond, 0 })
	b.runner.f = hold(nil)
	id := b.admitted(issue(1))
	b.startWorker()
	b.reaches(id, task.Running)
	other := newBench(t, env, fleet, watchOnly, func(o *Options) { o.MaxRetries = 0 })
	other.startWorker()
	require.NoError(t, b.worker.Stop(t.Context()))
	r := other.reaches(id, task.Completed)
	require.Equal(t, 2, r.Attempts)
	require.Equal(t, task.OutcomeReleased, r.AttemptLog[0].Outcome)
	require.Zero(t, r.Spent(), "attempt 1 of 1 was not used up")
}

func TestSecondSignalEndsTheDrainAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.DrainTimeout = time.Hour })
	b.runner.f = hold(nil)
	id := b.admitted(issue(1))
	b.startWorker()
	b.reaches(id, task.Running)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- b.worker.Stop(ctx) }()
	natstest.Eventually(t, "the drain", func() bool { return b.worker.pull.Err() != nil })
	cancel()
	began := time.Now()
	require.NoError(t, <-stopped)
	require.Less(t, time.Since(began), 10*time.Second)
	require.Equal(t, task.OutcomeReleased, b.reaches(id, task.Queued).AttemptLog[0].Outcome)
}

// A run that was claimed in the very moment of the stop is released too.
func TestRunClaimedWhileStoppingIsReleased(t *testing.T) {
	t.Parallel()
	held := newGate(t)
	b := newBench(t, natstest.New(t), func(o *Options) {
		o.DrainTimeout, o.Hooks = time.Millisecond, &Hooks{Claimed: held.wait}
	})
	b.runner.f = hold(nil)
	id := b.admitted(issue(1))
	b.startWorker()
	natstest.Eventually(t, "the claim", func() bool { return held.waiting() == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- b.worker.Stop(context.Background()) }()
	natstest.Eventually(t, "the cancellation", func() bool {
		b.worker.mu.Lock()
		defer b.worker.mu.Unlock()
		return b.worker.running[id].ctx.Err() != nil
	})
	close(held.open)
	require.NoError(t, <-stopped)
	require.Equal(t, task.OutcomeReleased, b.reaches(id, task.Queued).AttemptLog[0].Outcome)
}

// The server went first: a stop is bounded, and says what it could not do.
func TestJ30StopIsBoundedWhenTheStoreIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.DrainTimeout = 50 * time.Millisecond })
	b.runner.f = hold(nil)
	id := b.admitted(issue(1))
	b.startWorker()
	b.admit.Start()
	b.reaches(id, task.Running)
	natstest.Eventually(t, "the run", func() bool { return len(b.runner.started()) == 1 })
	b.nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	require.ErrorContains(t, b.worker.Stop(ctx), "1 did not end")
	require.NoError(t, b.admit.Stop(context.Background()))
	require.Less(t, time.Since(began), 10*time.Second)
}

// The fate of a claim is unknown when the server goes: a hurried stop does
// not wait for an answer that cannot come.
func TestJ30StopDoesNotWaitForTheFateOfAClaim(t *testing.T) {
	t.Parallel()
	held := newGate(t)
	b := newBench(t, natstest.New(t), func(o *Options) { o.Hooks = &Hooks{BeforeClaim: held.wait} })
	b.admitted(issue(1))
	b.startWorker()
	natstest.Eventually(t, "the claim", func() bool { return held.waiting() == 1 })
	b.nc.Close()
	close(held.open)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	began := time.Now()
	require.Error(t, b.worker.Stop(ctx), "beats could not be ended")
	require.Less(t, time.Since(began), 9*time.Second)
	require.Empty(t, b.runner.started())
}

// Ten goroutines start and stop one service; in whatever order, each call
// returns and nothing is left running (goleak).
func TestStartAndStopFromTenGoroutines(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	for range 5 {
		b := newBench(t, env)
		b.runner.f = func(context.Context, executor.Job) executor.Report { return completed() }
		b.admitted(issue(1))
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if i%2 == 0 {
					_ = b.worker.Start(context.Background())
					b.admit.Start()
					return
				}
				_ = b.worker.Stop(context.Background())
				_ = b.admit.Stop(context.Background())
			})
		}
		wg.Wait()
		require.NoError(t, b.worker.Stop(t.Context()))
		require.NoError(t, b.admit.Stop(t.Context()))
		require.ErrorIs(t, b.worker.Start(t.Context()), errStarted)
		require.Zero(t, b.worker.Progress().Running)
	}
}

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	require.NoError(t, b.worker.Stop(t.Context()))
	require.NoError(t, b.admit.Stop(t.Context()))
	b.admit.Start() // after Stop: does nothing
	require.NoError(t, b.admit.Stop(t.Context()))
}
