package view

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
	"github.com/belay-run/belay/kv/task"
)

func TestWatchSyncsAndFollows(t *testing.T) {
	t.Parallel()
	w := &watching{View: New(quiet, time.Now), env: natstest.New(t), t: t}
	w.store(rec(1), rec(2, state(task.Completed)))
	w.publish("control.pause", nil)
	w.publish("supersede.7.11.5.fam", []byte(`{"v":1}`))
	require.False(t, w.Synced())
	w.run()
	w.until("the first sync", w.Synced)
	require.True(t, w.knows(1) && w.knows(2) && w.Paused(7))
	require.Zero(t, w.Poisoned())
	w.store(rec(3))
	w.until("a new task", func() bool { return w.knows(3) })
	<-w.Changed()
	w.purge(keyOf(rec(3)), "control.pause")
	w.until("the purge to show", func() bool { return !w.knows(3) && !w.Paused(7) })
}

// purge leaves the markers that the bucket leaves.
func (w *watching) purge(keys ...string) {
	w.t.Helper()
	b, err := w.env.JS.KeyValue(context.Background(), bucketName)
	require.NoError(w.t, err)
	for _, k := range keys {
		require.NoError(w.t, b.Purge(context.Background(), k))
	}
}

func TestReopenResumesAfterARestart(t *testing.T) {
	t.Parallel()
	w := &watching{View: New(quiet, time.Now), env: natstest.New(t), t: t}
	stop := w.run()
	w.store(rec(1), rec(2))
	w.until("the tasks", func() bool { return w.knows(1) && w.knows(2) })
	stop()
	w.env.Restart()
	w.store(rec(2, state(task.Completed)), rec(3))
	gen := w.gen
	w.run()
	w.until("what came meanwhile", func() bool { return w.knows(3) && w.Counts()[task.Completed] == 1 })
	require.True(t, w.knows(1), "what was known stays")
	w.mu.RLock()
	require.Equal(t, gen, w.gen, "no full replay was needed")
	w.mu.RUnlock()
	w.Reopen()
	w.store(rec(4))
	w.until("the reopened watch", func() bool { return w.knows(4) })
}

// A stream that was wiped, or restored lower, is replayed in full: what is not
// in it any more is gone from the view, pauses and poison too.
func TestWipedStreamIsReplayedInFull(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 50} { // the new stream ends below, or above, what was seen
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			t.Parallel()
			w := watch(t)
			w.store(rec(1), rec(2), rec(3))
			w.publish("control.pause", nil)
			w.publish("task.7.garbage", []byte("x"))
			w.until("all", func() bool { return w.knows(1) && w.knows(2) && w.knows(3) && w.Paused(7) && w.Poisoned() == 1 })
			w.wipe()
			w.store(rec(2, state(task.Completed)))
			for i := range more {
				w.store(rec(100 + i))
			}
			w.Reopen()
			w.until("the vanished to be dropped", func() bool { return !w.knows(1) && !w.knows(3) })
			require.True(t, w.knows(2))
			require.Equal(t, 1, w.Counts()[task.Completed])
			w.until("the rest to be dropped", func() bool { return !w.Paused(7) && w.Poisoned() == 0 })
			require.Equal(t, more, w.Counts()[task.Queued])
		})
	}
}

// wipe deletes the stream of the bucket and makes it again, empty.
func (w *watching) wipe() {
	w.t.Helper()
	require.NoError(w.t, w.env.JS.DeleteStream(context.Background(), bucketStream))
	set, err := natstest.Set()
	require.NoError(w.t, err)
	_, err = streams.Reconcile(context.Background(), w.env.JS, set, streams.Options{})
	require.NoError(w.t, err)
}

// resumes asks what a re-opened watch would do, with the view as it stands.
func (w *watching) resumes() (full bool) {
	w.t.Helper()
	_, full, err := w.resume(context.Background(), w.env.JS)
	require.NoError(w.t, err)
	return full
}

func TestResumeChoosesAFullReplay(t *testing.T) {
	t.Parallel()
	c := &clock{at: noon}
	w := &watching{View: New(quiet, c.now), env: natstest.New(t), t: t}
	w.store(rec(1))
	require.True(t, w.resumes(), "the first time")
	w.apply(update{key: keyOf(rec(1)), value: mustJSON(rec(1)), rev: 1})
	require.True(t, w.resumes(), "a first replay that was cut short")
	w.caughtUp(true)
	require.False(t, w.resumes())
	c.add(maxSilence)
	require.False(t, w.resumes())
	c.add(1)
	require.True(t, w.resumes(), "markers may have expired unseen")
	w.apply(update{key: "worker.b", rev: 1})
	require.True(t, w.resumes(), "a later replay that was cut short")
	w.caughtUp(true)
	require.False(t, w.resumes())
	w.rev = 100
	require.True(t, w.resumes(), "the stream ends below what was seen")
}

func TestPoisonFailsAloneAndHeals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(rec(1), rec(2))
	mismatch := rec(3)
	for _, bad := range []string{
		`garbage`, ``, `{}`, `null`, `{"v":99}`, `{"v":1,"id":"` + string(id(1)) + `","installation_id":7,"state":"paused"}`,
		string(mustJSON(mismatch)),
	} {
		b.put(keyOf(rec(1)), []byte(bad))
		require.Equal(t, 1, b.Poisoned(), bad)
		_, ok := b.Find(id(1))
		require.False(t, ok, bad)
		require.Equal(t, []task.ID{id(2)}, b.eligible(7), "the others go on")
		b.tasks(rec(1))
		require.Zero(t, b.Poisoned(), "healed")
		require.Equal(t, []task.ID{id(1), id(2)}, b.eligible(7))
	}
	for _, key := range []string{"task.7.not-a-uuid", "task.7", "task.7.{" + string(id(5)) + "}", "task.8." + string(id(6))} {
		b.put(key, mustJSON(rec(6)))
		require.Equal(t, 1, b.Poisoned(), key)
		b.purge(key)
		require.Zero(t, b.Poisoned(), key)
	}
	require.Len(t, b.all(), 2)
}

func (b *bench) all() []Item {
	p, err := b.List(Query{Limit: 100})
	require.NoError(b.t, err)
	return p.Items
}

func TestOldRevisionsAreIgnored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(rec(1), rec(1, state(task.Completed)))
	b.apply(update{key: keyOf(rec(1)), value: mustJSON(rec(1)), rev: 1})
	s, _ := b.Standing(id(1))
	require.Equal(t, task.Completed, s.State)
	require.EqualValues(t, 2, s.Revision)
	b.apply(update{key: keyOf(rec(1)), rev: 1, deleted: true})
	_, ok := b.Find(id(1))
	require.True(t, ok)
	b.apply(update{key: keyOf(rec(1)), value: mustJSON(rec(1)), rev: 2})
	s, _ = b.Standing(id(1))
	require.Equal(t, task.Completed, s.State, "the same revision again changes nothing")
}

// Readers of every kind while the watch writes; for -race.
func TestReadersDoNotRace(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.SetSelf("me")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				p, err := w.List(Query{Limit: 3})
				if err != nil {
					t.Errorf("list: %v", err)
				}
				for _, it := range p.Items {
					w.Find(it.ID)
					w.Standing(it.ID)
				}
				w.Eligible(2, 5, never)
				w.Orphans(false, never)
				w.Thread(7, "acme/api", 1, 2)
				w.QueuedReviews(7, 11, 5)
				_, _, _, _ = w.NextDue(), w.OldestQueued(), w.LiveWorkers(), w.Counts()
				_, _ = w.Paused(7), w.Poisoned()
				w.OwnBeat()
			}
		})
	}
	const n = 300
	for i := range n {
		w.store(rec(i, review(5, "fam")), rec(i, held("x")), rec(i, state(task.Completed)))
		w.publish("worker.me", []byte(`{"v":1}`))
		if i%50 == 0 {
			w.Reopen()
		}
	}
	w.until("all tasks", func() bool { return w.Counts()[task.Completed] == n })
	cancel()
	wg.Wait()
	require.Zero(t, w.Poisoned())
}

func TestRunEndsAndSurvivesAMissingBucket(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	require.NoError(t, env.JS.DeleteStream(t.Context(), bucketStream))
	w := &watching{View: New(quiet, time.Now), env: env, t: t}
	stop := w.run()
	set, err := natstest.Set()
	require.NoError(t, err)
	_, err = streams.Reconcile(t.Context(), env.JS, set, streams.Options{})
	require.NoError(t, err)
	w.store(rec(1))
	w.until("the bucket to be there", func() bool { return w.knows(1) })
	stop() // returns only when Run did
}
