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

func TestDeliveryBecomesCompletedTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t)).start()
	id := b.accept(issue(1))
	r := b.reaches(id, task.Completed)
	require.Equal(t, "done", r.Summary)
	require.Equal(t, 1, r.Attempts)
	require.Len(t, r.AttemptLog, 1)
	require.Equal(t, task.OutcomeCompleted, r.AttemptLog[0].Outcome)
	require.Equal(t, b.opts.Boot, r.AttemptLog[0].Boot)
}

func TestDT85EveryTaskCompletesWithOneSlot(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.Concurrency = 1 })
	var ids []task.ID
	for n := range 30 {
		ids = append(ids, b.accept(issue(n)))
	}
	b.start()
	for _, id := range ids {
		require.Equal(t, 1, b.reaches(id, task.Completed).Attempts)
	}
	require.Len(t, b.runner.started(), len(ids))
	b.drained()
}

// drained waits until the durable consumers have nothing left (J05).
func (b *bench) drained() {
	b.t.Helper()
	for _, name := range []string{"tasks", "admit"} {
		natstest.Eventually(b.t, name+" to have nothing pending", func() bool {
			c, err := b.env.JS.Consumer(context.Background(), "WEBHOOKS", name)
			if err != nil {
				return false
			}
			i := c.CachedInfo()
			return i.NumPending == 0 && i.NumAckPending == 0
		})
	}
}

func TestDT67SlotsAreNeverExceeded(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.Concurrency = 3 })
	release := make(chan struct{})
	b.runner.f = hold(release)
	var ids []task.ID
	for n := range 12 {
		ids = append(ids, b.accept(issue(n)))
	}
	b.start()
	natstest.Eventually(t, "three runs", func() bool { return len(b.runner.started()) == 3 })
	for _, id := range ids {
		b.seenAny(id)
	}
	natstest.Eventually(t, "the view to see them", func() bool { return b.view.Counts()[task.Running] == 3 })
	require.Len(t, b.runner.started(), 3)
	close(release)
	for _, id := range ids {
		b.reaches(id, task.Completed)
	}
}

func (b *bench) seenAny(id task.ID) {
	b.t.Helper()
	natstest.Eventually(b.t, "the view to know the task", func() bool { _, ok := b.view.Standing(id); return ok })
}

func TestRetryableRunsAgainUntilTheBudgetIsSpent(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	b.runner.f = func(_ context.Context, j executor.Job) executor.Report {
		if j.Task.Number == 1 && j.Attempt == 2 {
			return completed()
		}
		return retryable("couldn't find remote ref")
	}
	b.start()
	once, never := b.accept(issue(1)), b.accept(issue(2))
	r := b.reaches(once, task.Completed)
	require.Equal(t, 2, r.Attempts)
	require.Equal(t, "couldn't find remote ref", r.AttemptLog[0].Detail)
	r = b.reaches(never, task.Failed)
	require.Equal(t, 3, r.Attempts, "max_retries + 1")
	require.Contains(t, r.Reason, "3 of 3")
}

func TestG27RetryWaitsForItsBackoff(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.Backoff = backoff })
	b.runner.f = func(context.Context, executor.Job) executor.Report { return retryable("not yet") }
	b.start()
	id := b.accept(issue(1))
	var r task.Record
	natstest.Eventually(t, "the first try to end", func() bool {
		var err error
		r, _, err = b.store.Get(t.Context(), 7, id)
		return err == nil && r.State == task.Queued && r.Attempts == 1
	})
	require.GreaterOrEqual(t, r.NotBefore.Sub(r.UpdatedAt.Time).Seconds(), 2.0)
	require.Len(t, b.runner.started(), 1)
}

func TestDT87NewerReviewSupersedesQueuedOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	first := b.accept(review(3, "a1", "", 1))
	second := b.accept(review(3, "a2", "a1", 2))
	b.admit.Start()
	t.Cleanup(func() { _ = b.admit.Stop(context.Background()) })
	r := b.reaches(first, task.Superseded)
	require.Equal(t, second, r.SupersededBy)
	b.seen(first, task.Superseded)
	b.startWorker()
	b.reaches(second, task.Completed)
	require.Equal(t, []string{string(second) + "/1"}, b.runner.started())
}

func TestDT86InterruptedTaskRunsAgainAfterRestart(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	dead := newBench(t, env)
	release := make(chan struct{})
	defer close(release)
	dead.runner.f = hold(release)
	require.NoError(t, dead.adm.Admit(t.Context(), dead.logged(issue(1)), 1))
	// A process that was killed: its claim stands, nobody beats for it.
	r := dead.reaches(dead.only(), task.Queued)
	c, err := r.Claim("gone", "deadboot", "n", r.CreatedAt.Time)
	require.NoError(t, err)
	_, rev, err := dead.store.Get(t.Context(), 7, r.ID)
	require.NoError(t, err)
	_, err = dead.store.Update(t.Context(), c, rev)
	require.NoError(t, err)

	b := newBench(t, env)
	b.seen(r.ID, task.Running)
	b.startWorker()
	got := b.reaches(r.ID, task.Completed)
	require.Equal(t, 2, got.Attempts)
	require.Equal(t, task.OutcomeInterrupted, got.AttemptLog[0].Outcome)
	require.False(t, got.AttemptLog[0].EndedAt.IsZero())
}

// logged accepts a delivery and returns what the log holds.
func (b *bench) logged(d task.Delivery) task.Delivery {
	b.t.Helper()
	acc, err := b.log.Accept(b.t.Context(), d)
	require.NoError(b.t, err)
	return acc.Delivery
}

// only is the one task that the log's first delivery made.
func (b *bench) only() task.ID {
	b.t.Helper()
	l, err := b.log.Get(b.t.Context(), 1)
	require.NoError(b.t, err)
	return l.Task.ID
}

// The view's lock may be taken under the worker's, never the other way round:
// beats look for orphans while claims look for work.
func TestBeatsAndClaimsDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) {
		o.Concurrency, o.BeatEvery, o.ProbeEvery = 8, beat/4, time.Millisecond
	})
	b.start()
	var ids []task.ID
	for n := range 200 {
		ids = append(ids, b.accept(issue(n)))
	}
	for _, id := range ids {
		require.Equal(t, 1, b.reaches(id, task.Completed).Attempts)
	}
}
