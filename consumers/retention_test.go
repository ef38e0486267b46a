package consumers

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

const day = 24 * time.Hour

// retention makes one whose clock is ahead of the real one.
func (b *bench) retention(ahead time.Duration, forget func(task.ID) error) *Retention {
	return NewRetention(RetentionOptions{
		Store: b.store, Log: b.log, View: b.view, Forget: forget, Tasks: 30 * day, Deliveries: 90 * day, Dedupe: 365 * day,
		Now: func() time.Time { return time.Now().Add(ahead) }, Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(),
	})
}

// oldAndLive makes a completed, a running and a queued task.
func oldAndLive(t *testing.T, b *bench) (done, running, queued task.ID, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Task.Number == 1 {
			return completed()
		}
		return hold(release)(ctx, j)
	}
	b.start()
	done = b.accept(issue(1))
	b.reaches(done, task.Completed)
	running, queued = b.accept(issue(2)), b.accept(issue(3))
	b.seen(running, task.Running)
	b.seen(queued, task.Queued)
	b.seen(done, task.Completed)
	return done, running, queued, release
}

func TestDT101RetentionEndsTerminalTasksOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.Concurrency = 1 })
	done, running, queued, release := oldAndLive(t, b)
	var forgot []task.ID
	r := b.retention(29*day, nil)
	require.NoError(t, r.Pass(t.Context()))
	require.False(t, b.record(done).Tombstone, "before its time")

	r = b.retention(31*day, func(id task.ID) error { forgot = append(forgot, id); return nil })
	require.NoError(t, r.Pass(t.Context()))
	tomb := b.record(done)
	require.True(t, tomb.Tombstone)
	require.Equal(t, task.Completed, tomb.State)
	require.Empty(t, tomb.Title+tomb.Summary)
	require.Empty(t, tomb.AttemptLog)
	require.Equal(t, []task.ID{done}, forgot)
	require.Equal(t, task.Running, b.record(running).State)
	require.Equal(t, task.Queued, b.record(queued).State)
	natstest.Eventually(t, "the list to hide it", func() bool {
		p, err := b.view.List(view.Query{Limit: 10})
		_, gone := b.view.Entombed(done)
		return err == nil && len(p.Items) == 2 && gone
	})
	close(release)
	b.reaches(queued, task.Completed)
}

func TestDT5TombstoneKeepsADeliveryFromRunningAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t)).start()
	d := b.logged(issue(1))
	b.reaches(d.Task.ID, task.Completed)
	b.seen(d.Task.ID, task.Completed)
	require.NoError(t, b.retention(31*day, nil).Pass(t.Context()))
	require.NoError(t, b.adm.Admit(t.Context(), d, 1))
	require.True(t, b.record(d.Task.ID).Tombstone)
	require.Len(t, b.runner.started(), 1)
}

func TestTombstoneCannotBeRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t)).start()
	id := b.accept(issue(1))
	b.reaches(id, task.Completed)
	b.seen(id, task.Completed)
	require.NoError(t, b.retention(31*day, nil).Pass(t.Context()))
	_, err := b.record(id).Retry(time.Now())
	require.ErrorIs(t, err, task.ErrState)
}

func TestLogIsPurgedBelowWhatIsStillNeeded(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.Concurrency = 1 })
	done, running, _, release := oldAndLive(t, b)
	defer close(release)
	natstest.Eventually(t, "admission to acknowledge all", func() bool {
		floor, err := b.log.AdmitFloor(context.Background())
		return err == nil && floor == 4
	})
	require.NoError(t, b.retention(89*day, nil).Pass(t.Context()))
	_, err := b.log.Get(t.Context(), 1)
	require.NoError(t, err, "younger than its days")
	require.NoError(t, b.retention(91*day, nil).Pass(t.Context()))
	_, err = b.log.Get(t.Context(), b.record(done).DeliverySeq)
	require.ErrorIs(t, err, kv.ErrNotFound)
	_, err = b.log.Get(t.Context(), b.record(running).DeliverySeq)
	require.NoError(t, err, "its task runs")
}

func TestUnadmittedDeliveriesAreNotPurged(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	b.accept(issue(1))
	require.NoError(t, b.retention(400*day, nil).Pass(t.Context()))
	_, err := b.log.Get(t.Context(), 1)
	require.NoError(t, err)
}

// uninstalled is GitHub's event for a deleted installation.
func uninstalled(inst int64) task.Delivery {
	d := base()
	d.Event, d.Action, d.InstallationID, d.RepoID, d.Repo = "installation", "deleted", inst, 0, ""
	d.Routing = task.Ignored(task.InstallationDeleted)
	return d
}

func TestDT102UninstallPurgesOneTenantAndNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), func(o *Options) { o.Concurrency = 1 })
	done, running, queued, release := oldAndLive(t, b)
	defer close(release)
	other := issue(9)
	other.InstallationID = 8
	kept := b.accept(other)
	first := b.logged(uninstalled(7))
	require.Nil(t, first.Task)
	for _, id := range []task.ID{done, running, queued} {
		natstest.Eventually(t, "the tombstone of "+string(id), func() bool { return b.record(id).Tombstone })
		require.Equal(t, task.ReasonUninstalled, b.record(id).Reason)
		require.Empty(t, b.record(id).Repo)
	}
	natstest.Eventually(t, "the run to be cancelled", func() bool { return b.worker.Progress().Running <= 1 && !b.worker.holds(running) })
	require.True(t, b.record(running).Tombstone, "its result was refused")
	natstest.Eventually(t, "its deliveries to go", func() bool {
		_, err := b.log.Get(context.Background(), 1)
		return errors.Is(err, kv.ErrNotFound)
	})
	r, _, err := b.store.Get(t.Context(), 8, kept)
	require.NoError(t, err)
	require.False(t, r.Tombstone)

	late := b.accept(issue(4))
	natstest.Eventually(t, "a late delivery to be refused", func() bool {
		r, _, err := b.store.Get(context.Background(), 7, late)
		return err == nil && r.Tombstone && r.State == task.Cancelled
	})
}

func TestDT102UninstallIsRepeatedUntilDone(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	var ids []task.ID
	for n := range 5 {
		d := b.logged(issue(n))
		require.NoError(t, b.adm.Admit(t.Context(), d, uint64(n+1)))
		ids = append(ids, d.Task.ID)
	}
	var writes atomic.Int32
	b.store.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, _ string) error {
		if op == "update" && writes.Add(1) == 3 {
			return kv.ErrFull
		}
		return nil
	}})
	d := b.logged(uninstalled(7))
	require.ErrorIs(t, b.adm.Admit(t.Context(), d, 6), kv.ErrFull)
	require.NoError(t, b.adm.Admit(t.Context(), d, 6))
	for _, id := range ids {
		require.True(t, b.record(id).Tombstone)
	}
}
