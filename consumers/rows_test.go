package consumers

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// Q03: the original arrives long after its task ended, even after its
// retention: a duplicate, not a second run.
func TestQ03LateOriginalIsADuplicate(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t)).start()
	d := issue(1)
	id := b.accept(d)
	b.reaches(id, task.Completed)
	b.seen(id, task.Completed)
	require.NoError(t, b.retention(31*day, nil).Pass(t.Context()))
	acc, err := b.log.Accept(t.Context(), d)
	require.NoError(t, err)
	require.True(t, acc.Duplicate)
	require.NoError(t, b.adm.Admit(t.Context(), acc.Delivery, acc.Seq))
	require.Len(t, b.runner.started(), 1)
}

// Q04: a review that fails for good gives its supersede key back in the same
// write: the one that waited for it starts at once.
func TestQ04FailedReviewReleasesItsKey(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := newBench(t, natstest.New(t), func(o *Options) { o.MaxRetries = 0 })
	b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Task.HeadSHA != "a1" {
			return completed()
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return retryable("broken for good")
	}
	b.start()
	first := b.accept(review(3, "a1", "", 1))
	b.seen(first, task.Running)
	second := b.accept(review(3, "a2", "a1", 2))
	b.seen(second, task.Queued)
	require.Len(t, b.runner.started(), 1, "the newer one waits")
	close(release)
	b.reaches(first, task.Failed)
	require.Equal(t, 1, b.reaches(second, task.Completed).Attempts)
}

// Q20: a record with fields of another version runs; one of a newer version
// is left alone, visibly.
func TestQ20OtherVersionsRunOrAreSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	raw := func(d task.Delivery, change func(map[string]any)) task.ID {
		r, err := task.New(d, 1, task.At(time.Now()))
		require.NoError(t, err)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(data, &m))
		change(m)
		data, err = json.Marshal(m)
		require.NoError(t, err)
		_, err = b.env.JS.Publish(t.Context(), "$KV.STATE."+kv.TaskKey(7, r.ID), data)
		require.NoError(t, err)
		return r.ID
	}
	known := raw(b.logged(issue(1)), func(m map[string]any) { m["field_of_another_version"] = map[string]any{"x": 1} })
	newer := raw(b.logged(issue(2)), func(m map[string]any) { m["v"] = task.Version + 1 })
	b.start()
	b.reaches(known, task.Completed)
	natstest.Eventually(t, "the newer record to be counted", func() bool { return b.view.Poisoned() == 1 })
	_, _, err := b.store.Get(t.Context(), 7, newer)
	require.ErrorIs(t, err, kv.ErrNewer)
	require.Len(t, b.runner.started(), 1)
}

// J20: cancelling many queued tasks is a change of their records; their work
// items are acknowledged when they come, and the others run.
func TestJ20ManyCancelledTasksHoldNobodyUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	b.admit.Start()
	t.Cleanup(func() { _ = b.admit.Stop(context.Background()) })
	var kept []task.ID
	for n := range 60 {
		id := b.accept(issue(n))
		b.seen(id, task.Queued)
		if n%10 == 9 {
			kept = append(kept, id)
			continue
		}
		_, _, err := b.store.Change(t.Context(), 7, id, func(r task.Record) (task.Record, error) {
			return r.Cancel("not wanted", time.Now())
		}, nil)
		require.NoError(t, err)
	}
	b.startWorker()
	for _, id := range kept {
		b.reaches(id, task.Completed)
	}
	require.Len(t, b.runner.started(), len(kept))
	b.drained()
}

// A close that is admitted after a later event of the same head must not end
// the review that this event was coalesced onto.
func TestLateCloseSparesWhatWasReopened(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	closes := base()
	closes.Event, closes.Action, closes.Number = "pull_request", "closed", 3
	closes.Routing = task.Ignored(task.Closed)
	first, second, third := b.logged(review(3, "a1", "", 1)), b.logged(closes), b.logged(review(3, "a1", "", 5))
	require.NoError(t, b.adm.Admit(t.Context(), first, 1))
	require.NoError(t, b.adm.Admit(t.Context(), third, 3))
	b.seen(first.Task.ID, task.Queued)
	require.NoError(t, b.adm.Admit(t.Context(), second, 2))
	require.Equal(t, task.Queued, b.record(first.Task.ID).State)
	require.Equal(t, task.ReasonCoalesced, b.record(third.Task.ID).Reason)
}
