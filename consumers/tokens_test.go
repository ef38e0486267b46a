package consumers

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// again publishes a stored message once more, under another message id.
func again(t *testing.T, env *natstest.Env, seq uint64) {
	t.Helper()
	s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	m, err := s.GetMsg(t.Context(), seq)
	require.NoError(t, err)
	_, err = env.JS.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Data: m.Data, Header: nats.Header{}})
	require.NoError(t, err)
}

func TestJ28SameWorkItemTwiceRunsOnce(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env)
	release := make(chan struct{})
	b.runner.f = hold(release)
	b.start()
	id := b.accept(issue(1))
	b.reaches(id, task.Running)
	again(t, env, 1) // while it runs
	close(release)
	want := b.reaches(id, task.Completed)
	again(t, env, 1) // and after its end
	b.drained()
	require.Equal(t, want, b.record(id))
	require.Len(t, b.runner.started(), 1)
}

// The window of message ids is over, or was lost: the id still is one task (J09).
func TestJ09SameDeliveryAfterTheWindowIsOneTask(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env).start()
	d := issue(1)
	id := b.accept(d)
	want := b.reaches(id, task.Completed)
	s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	cfg := s.CachedInfo().Config
	cfg.Duplicates = 100 * time.Millisecond
	_, err = env.JS.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	natstest.Eventually(t, "the log to have forgotten the message id", func() bool {
		acc, err := b.log.Accept(t.Context(), d)
		require.NoError(t, err)
		got, _ := acc.Delivery.Routing.Task()
		require.Equal(t, id, got)
		return !acc.Duplicate && acc.Seq > 1
	})
	b.drained()
	require.Equal(t, want, b.record(id))
	require.Len(t, b.runner.started(), 1)
	// A person's retry is another matter.
	_, _, err = b.store.Change(t.Context(), 7, id, func(r task.Record) (task.Record, error) { return r.Retry(time.Now()) }, nil)
	require.NoError(t, err)
	natstest.Eventually(t, "the retry to run", func() bool { return len(b.runner.started()) == 2 })
	require.Equal(t, 2, b.reaches(id, task.Completed).Attempts)
}

func TestJ21DeletedConsumersAreMadeAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{kv.ConsumerTasks, kv.ConsumerAdmit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			b := newBench(t, env, func(o *Options) { o.Concurrency = 1 })
			release := make(chan struct{})
			b.runner.f = hold(release)
			b.start()
			ids := []task.ID{b.accept(issue(0)), b.accept(issue(1)), b.accept(issue(2))}
			b.reaches(ids[0], task.Running)
			require.NoError(t, env.JS.DeleteConsumer(t.Context(), kv.StreamWebhooks, name))
			ids = append(ids, b.accept(issue(3)))
			close(release)
			for _, id := range ids {
				require.Equal(t, 1, b.reaches(id, task.Completed).Attempts)
			}
			natstest.Eventually(t, "the consumer to be there again", func() bool {
				_, err := env.JS.Consumer(context.Background(), kv.StreamWebhooks, name)
				return err == nil
			})
			b.drained()
			require.Len(t, b.runner.started(), len(ids))
		})
	}
}

// With admission dead, tokens lead to records within the probe.
func TestJ21TokensAdmitWhenAdmissionIsDead(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	b.startWorker() // no admit loop at all
	id := b.accept(issue(1))
	r := b.reaches(id, task.Completed)
	require.Less(t, r.CreatedAt.Sub(base().ReceivedAt.Time).Abs(), 5*time.Second)
	require.Len(t, b.runner.started(), 1)
}

func TestJ05ReplayOfTheWholeLogRunsNothingTwice(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env, func(o *Options) { o.Concurrency = 8 })
	b.runner.f = func(_ context.Context, j executor.Job) executor.Report {
		if j.Task.Number%10 == 9 {
			return retryable("always")
		}
		return completed()
	}
	b.start()
	const n = 60
	want := map[task.ID]task.Record{}
	var ids []task.ID
	for i := range n {
		ids = append(ids, b.accept(issue(i)))
	}
	for i, id := range ids {
		state := task.Completed
		if i%10 == 9 {
			state = task.Failed
		}
		want[id] = b.reaches(id, state)
	}
	runs := len(b.runner.started())
	require.Equal(t, n+2*n/10, runs)
	b.drained()
	for _, name := range []string{kv.ConsumerTasks, kv.ConsumerAdmit} {
		require.NoError(t, env.JS.DeleteConsumer(t.Context(), kv.StreamWebhooks, name))
	}
	natstest.Eventually(t, "the log to be replayed", func() bool {
		c, err := env.JS.Consumer(context.Background(), kv.StreamWebhooks, kv.ConsumerTasks)
		return err == nil && c.CachedInfo().AckFloor.Stream == n
	})
	b.drained()
	require.Len(t, b.runner.started(), runs)
	for id, r := range want {
		require.Equal(t, r, b.record(id))
	}
}

// A message that a stale ack or an operator removed takes no task with it.
func TestLostMessageOfAnAdmittedTaskRunsAnyway(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env)
	deleted, acked := b.admitted(issue(1)), b.admitted(issue(2))
	s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(t.Context(), 1))
	tok, err := b.worker.tokens.pull(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, tok.seq)
	require.NoError(t, tok.msg.AckSync(nats.Context(t.Context())))
	b.start()
	b.reaches(deleted, task.Completed)
	b.reaches(acked, task.Completed)
	b.drained()
}

// A blind watch: the view of the process shows nothing any more.
func TestBlindViewTokensStillLeadToRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	b.startWorker()
	b.stopView()
	id := b.accept(issue(1))
	require.Equal(t, 1, b.reaches(id, task.Completed).Attempts)
	natstest.Eventually(t, "the canary", func() bool { return testutil.ToFloat64(b.worker.met.reopened) > 0 })
	require.Equal(t, 1.0, testutil.ToFloat64(b.worker.met.unseen))
}

func TestCanaryOpensTheWatchAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	b.start()
	b.worker.mu.Lock()
	b.worker.beatRev = always // a beat that never comes through
	b.worker.mu.Unlock()
	natstest.Eventually(t, "the watch to be opened again", func() bool { return testutil.ToFloat64(b.worker.met.reopened) > 0 })
	b.reaches(b.accept(issue(1)), task.Completed)
}

// Messages and records that cannot be read fail alone.
func TestPoisonFailsAlone(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env)
	var audited auditLog
	b.worker.o.Audit = &audited
	id, newer, corrupt := b.accept(issue(1)), b.accept(issue(2)), b.accept(issue(3))
	put(t, env, kv.TaskKey(7, newer), `{"v":99,"id":"x"}`)
	put(t, env, kv.TaskKey(7, corrupt), `{"v":1`)
	for _, data := range []string{"garbage", `{}`, `{"v":99}`, `{"v":1,"delivery_id":"x","routing":"ignored:ping"}`} {
		_, err := env.JS.Publish(t.Context(), "webhook.7.99.task.fix_issue", []byte(data))
		require.NoError(t, err)
	}
	b.start()
	last := b.accept(issue(4))
	b.reaches(id, task.Completed)
	b.reaches(last, task.Completed)
	natstest.Eventually(t, "every poison token to be counted", func() bool { return testutil.ToFloat64(b.worker.met.poison) >= 4 })
	natstest.Eventually(t, "two unreadable records", func() bool { return b.view.Poisoned() == 2 })
	require.Len(t, b.runner.started(), 2)
	require.NotZero(t, audited.count("poison"))
	for key, value := range map[string]string{kv.TaskKey(7, newer): `{"v":99,"id":"x"}`, kv.TaskKey(7, corrupt): `{"v":1`} {
		bucket, err := env.JS.KeyValue(t.Context(), "STATE")
		require.NoError(t, err)
		e, err := bucket.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, value, string(e.Value()), "left as it was")
	}
}

// A pause of any shape stops claims and nothing else (Q27).
func TestQ27AnyPauseStopsClaimsOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, value string }{
		{"control.pause", `{"v":1}`}, {"control.pause", "garbage"}, {"control.pause", ""},
		{"control.pause", `{"v":99}`}, {"control.pause.7", "?"},
	} {
		t.Run(c.key+" "+c.value, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			b := newBench(t, env)
			put(t, env, c.key, c.value)
			natstest.Eventually(t, "the pause", func() bool { return b.view.Paused(7) })
			b.start()
			id := b.accept(issue(1))
			b.seen(id, task.Queued)
			stays(t, b, 3, "paused", func() bool { return len(b.runner.started()) == 0 })
			require.Equal(t, task.Queued, b.record(id).State)
			bucket, err := env.JS.KeyValue(t.Context(), "STATE")
			require.NoError(t, err)
			require.NoError(t, bucket.Purge(t.Context(), c.key))
			require.Equal(t, 1, b.reaches(id, task.Completed).Attempts)
		})
	}
}
