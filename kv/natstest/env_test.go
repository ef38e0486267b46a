package natstest_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

func TestNewHasStreamsAndBucket(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	for _, name := range []string{"WEBHOOKS", "KV_STATE", "OPERATOR", "EVENTS", "AUDIT"} {
		_, err := env.JS.Stream(t.Context(), name)
		require.NoError(t, err, name)
	}
	bucket, err := env.JS.KeyValue(t.Context(), "STATE")
	require.NoError(t, err)
	rev, err := bucket.Create(t.Context(), "task.1.x", []byte("1"))
	require.NoError(t, err)
	require.EqualValues(t, 1, rev)
	require.Empty(t, env.Server.ClientURL())
	require.False(t, env.Server.SyncAlways())
}

func TestRestartKeepsMessages(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	_, err := env.JS.Publish(t.Context(), "webhook.1.2.task.review", []byte("x"))
	require.NoError(t, err)
	env.Restart()
	s, err := env.JS.Stream(t.Context(), "WEBHOOKS")
	require.NoError(t, err)
	require.EqualValues(t, 1, s.CachedInfo().State.Msgs)
}

func TestListenerTakesAnotherConnection(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener(), natstest.WithoutStreams())
	nc, err := nats.Connect(env.URL())
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, nc.Flush())
}

func TestSmallStoreIsFull(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithMaxFileStore(64<<10))
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		_, err = env.JS.Publish(t.Context(), "webhook.1.2.task.review", make([]byte, 1024))
	}
	var full jetstream.JetStreamError
	require.ErrorAs(t, err, &full)
	require.EqualValues(t, 10023, full.APIError().ErrorCode, "insufficient resources")
}

func BenchmarkNew(b *testing.B) {
	for _, c := range []struct {
		name string
		opts []natstest.Option
	}{
		{"bare", []natstest.Option{natstest.WithoutStreams()}},
		{"streams", nil},
		{"listener", []natstest.Option{natstest.WithListener()}},
		{"sync", []natstest.Option{natstest.WithSyncAlways()}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				env := natstest.New(b, c.opts...)
				env.NC.Close()
				require.NoError(b, env.Server.Shutdown(b.Context()))
			}
		})
	}
}
