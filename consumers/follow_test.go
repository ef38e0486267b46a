package consumers

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
)

// What the server has sent to a follower that stops is still handed over:
// nobody else gets it before its AckWait is over.
func TestAFollowerThatStopsHandsOverWhatItHas(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env)
	const n = 5
	for i := range n {
		b.accept(issue(i + 1))
	}
	ctx, stop := context.WithCancel(t.Context())
	var handled atomic.Int32
	begun, free := make(chan struct{}), make(chan struct{})
	f := (&follower{
		js: b.js, stream: kv.StreamWebhooks, consumer: kv.ConsumerAdmit, parallel: 1, log: slog.New(slog.DiscardHandler), now: time.Now,
		handle: func(jetstream.Msg) {
			if handled.Add(1) == 1 {
				close(begun)
				<-free
			}
			// By the next one the pull has heard that it is over.
			<-time.After(20 * time.Millisecond)
		},
	}).register(prometheus.NewRegistry())
	done := make(chan struct{})
	go func() { defer close(done); f.run(ctx) }()
	<-begun
	natstest.Eventually(t, "all to be sent", func() bool {
		c, err := b.js.Consumer(t.Context(), kv.StreamWebhooks, kv.ConsumerAdmit)
		return err == nil && c.CachedInfo().NumAckPending == n
	})
	stop()
	close(free)
	<-done
	require.EqualValues(t, n, handled.Load())
}

// J10: messages wait, the pull is alive by its heartbeats, and nothing comes, as
// when a request was lost in a change of leaders. A paused consumer is like that.
func TestJ10APullThatBringsNothingIsOpenedAgain(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env)
	_, err := b.js.PauseConsumer(t.Context(), kv.StreamWebhooks, kv.ConsumerAdmit, time.Now().Add(time.Hour))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	handled := make(chan struct{}, 1)
	log := slog.New(slog.DiscardHandler)
	f := (&follower{
		js: b.js, stream: kv.StreamWebhooks, consumer: kv.ConsumerAdmit, parallel: 1, log: log, now: time.Now,
		handle: func(m jetstream.Msg) { _ = m.Ack(); handled <- struct{}{} },
	}).register(prometheus.NewRegistry())
	f.heartbeat = 500 * time.Millisecond // the client takes no shorter one
	done := make(chan struct{})
	go func() { defer close(done); f.run(ctx) }()
	defer func() { stop(); <-done }()
	natstest.Eventually(t, "quiet to be a sign", func() bool { return !f.lastSign().Equal(time.Unix(0, 0)) })
	require.Zero(t, testutil.ToFloat64(f.stalls), "nothing waits")
	b.accept(issue(1))
	natstest.Eventually(t, "the pull to be opened again", func() bool { return testutil.ToFloat64(f.stalls) > 0 })
	_, err = b.js.ResumeConsumer(t.Context(), kv.StreamWebhooks, kv.ConsumerAdmit)
	require.NoError(t, err)
	<-handled
}

// A message that comes to a process which stops is given back at once, not
// after its AckWait, and nothing is begun for it.
func TestIssuesThatStopGiveMessagesBack(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	d := c.desk()
	d.stopPull() // as Stop does first; what was begun goes on
	id := c.approved()
	cons, err := c.env.JS.Consumer(t.Context(), kv.StreamOperator, kv.ConsumerIssues)
	require.NoError(t, err)
	for {
		msg, err := cons.Next(jetstream.FetchMaxWait(10 * time.Second))
		require.NoError(t, err)
		meta, err := msg.Metadata()
		require.NoError(t, err)
		if meta.NumDelivered > 1 {
			break
		}
		d.handle(msg)
	}
	require.Equal(t, operator.StateApproved, c.read(id).State)
	require.Zero(t, c.posts())
}
