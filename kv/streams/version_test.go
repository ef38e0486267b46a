package streams_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
)

// fetch takes one message from the durable tasks.
func fetch(t testing.TB, c jetstream.Consumer) {
	t.Helper()
	m, err := c.Next(jetstream.FetchMaxWait(10 * time.Second))
	require.NoError(t, err)
	require.NoError(t, m.DoubleAck(t.Context()))
}

// J12: two versions start at once on an empty server and differ in a setting
// of one durable. There is one durable afterwards, and both work with it.
func TestTwoVersionsStartTogether(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		set := embedded(t)
		stream(t, set, "WEBHOOKS").Consumers[1].AckWait = time.Duration(30+i) * time.Second
		js, err := jetstream.New(env.Connect())
		require.NoError(t, err)
		wg.Go(func() { _, errs[i] = streams.Reconcile(t.Context(), js, set, streams.Options{}) })
	}
	wg.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])

	s, err := env.JS.Stream(t.Context(), "WEBHOOKS")
	require.NoError(t, err)
	require.Equal(t, 3, s.CachedInfo().State.Consumers)
	for range 2 {
		_, err := env.JS.Publish(t.Context(), "webhook.1.2.task.review", nil)
		require.NoError(t, err)
		c, err := env.JS.Consumer(t.Context(), "WEBHOOKS", "tasks")
		require.NoError(t, err)
		fetch(t, c)
	}
}

// J12: an old belay that is running goes on while a newer one starts.
func TestOldVersionKeepsWorking(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	old, err := env.JS.Consumer(t.Context(), "WEBHOOKS", "tasks")
	require.NoError(t, err)

	set := embedded(t)
	stream(t, set, "WEBHOOKS").Consumers[1].AckWait = time.Minute
	reconcile(t, env.JS, set, streams.Options{Version: 2})
	newer, err := env.JS.Consumer(t.Context(), "WEBHOOKS", "tasks")
	require.NoError(t, err)
	require.Equal(t, time.Minute, newer.CachedInfo().Config.AckWait)
	for range 2 {
		_, err := env.JS.Publish(t.Context(), "webhook.1.2.task.review", nil)
		require.NoError(t, err)
	}
	fetch(t, old)
	fetch(t, newer)
}

// racing lets another belay act just before each creation of a stream.
type racing struct {
	jetstream.JetStream
	first func(name string)
}

// CreateStream lets the other go first.
func (r racing) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	r.first(cfg.Name)
	return r.JetStream.CreateStream(ctx, cfg)
}

// J12: another version creates a stream, with another setting, after this one
// found it missing. Its stream is updated.
func TestCreationIsLostToAnotherVersion(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	js := racing{JetStream: env.JS, first: func(name string) {
		cfg := stream(t, embedded(t), name).StreamConfig
		cfg.Description = "made by the other"
		_, err := env.JS.CreateStream(t.Context(), cfg)
		require.NoError(t, err)
	}}
	r := reconcile(t, js, embedded(t), streams.Options{})
	require.Equal(t, []string{"WEBHOOKS", "KV_STATE", "OPERATOR", "EVENTS", "AUDIT"}, names(r.Updated))
	require.Equal(t, streams.Report{}, reconcile(t, env.JS, embedded(t), streams.Options{}))
}

// unstable removes a stream as soon as it is made.
type unstable struct{ jetstream.JetStream }

// CreateStream creates and deletes.
func (u unstable) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := u.JetStream.CreateStream(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return s, u.DeleteStream(ctx, cfg.Name)
}

func TestStreamsThatDoNotStayAreAnError(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	_, err := streams.Reconcile(t.Context(), unstable{env.JS}, embedded(t), streams.Options{})
	require.EqualError(t, err, "create WEBHOOKS: removed again and again by somebody else")
}
