package consumers

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// capped gives installation 7 a cap; the others have none.
func capped(limit int) func(*Options) {
	return func(o *Options) { o.Limit = limitOf7(func() int { return limit }) }
}

func limitOf7(limit func() int) func(int64) int {
	return func(inst int64) int {
		if inst == 7 {
			return limit()
		}
		return 0
	}
}

// crowdOf counts the runs of installation 7 that are really going on, over
// all processes that share it.
type crowdOf struct {
	mu         sync.Mutex
	live, most int
	run        func(ctx context.Context, j executor.Job) executor.Report
}

func (c *crowdOf) f(ctx context.Context, j executor.Job) executor.Report {
	if j.Task.InstallationID != 7 {
		return c.run(ctx, j)
	}
	c.mu.Lock()
	c.live++
	c.most = max(c.most, c.live)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.live--
		c.mu.Unlock()
	}()
	return c.run(ctx, j)
}

func (c *crowdOf) counts() (live, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live, c.most
}

// recorded follows the records of installation 7 and returns how many were
// running at once, at most, by the order of the store.
func recorded(t *testing.T, env *natstest.Env) func() int {
	t.Helper()
	var mu sync.Mutex
	running, most := map[task.ID]bool{}, 0
	cons, err := env.JS.OrderedConsumer(t.Context(), kv.StreamState, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"$KV.STATE.task.7.>"}})
	require.NoError(t, err)
	c, err := cons.Consume(func(msg jetstream.Msg) {
		r, err := task.DecodeRecord(msg.Data())
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if delete(running, r.ID); r.State == task.Running {
			running[r.ID] = true
		}
		most = max(most, len(running))
	})
	require.NoError(t, err)
	t.Cleanup(func() { c.Stop(); <-c.Closed() })
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}

// places are who holds a place of installation 7, by the leader.
func (b *bench) places() []task.Slot {
	b.t.Helper()
	s, _, err := b.store.Slots(context.Background(), 7)
	require.NoError(b.t, err)
	return s.Entries
}

// noPlaces waits until all places of installation 7 were given back.
func (b *bench) noPlaces() {
	b.t.Helper()
	natstest.Eventually(b.t, "every place to be given back", func() bool { return len(b.places()) == 0 })
}

// completes waits until as many tasks are completed.
func (b *bench) completes(n int) {
	b.t.Helper()
	natstest.Eventually(b.t, "all to be completed", func() bool { return b.view.Counts()[task.Completed] == n })
}

func (b *bench) slotWrites() int {
	return int(testutil.ToFloat64(b.worker.met.slots.WithLabelValues("written")) + testutil.ToFloat64(b.worker.met.slots.WithLabelValues("conflict")))
}
