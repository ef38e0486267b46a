package doctor

import (
	"context"
	"net/url"
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/natstest"
)

func TestProbeOfARunningServer(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	u, err := url.Parse(env.Server.ClientURL())
	require.NoError(t, err)
	cfg := config.Default(env.Dir)
	cfg.NATS.Config = file(t, "port: "+u.Port(), 0o600)
	s, err := NewProbe(cfg).Inspect(context.Background())
	require.NoError(t, err)
	require.Empty(t, s.Drift)
	require.False(t, older(s.Version, MinNATSServer), "the built-in server %s is the pinned one or newer", s.Version)

	ctx := context.Background()
	stream, err := env.JS.Stream(ctx, "EVENTS")
	require.NoError(t, err)
	changed := stream.CachedInfo().Config
	changed.MaxBytes = 1 << 20
	_, err = env.JS.UpdateStream(ctx, changed)
	require.NoError(t, err)
	require.NoError(t, env.JS.DeleteConsumer(ctx, "WEBHOOKS", "tasks"))
	s, err = NewProbe(cfg).Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"consumer WEBHOOKS/tasks"}, s.Missing)
	require.Len(t, s.Drift, 1)
	require.Contains(t, s.Drift[0], "max_bytes")
	require.Equal(t, 1, s.Replicas["WEBHOOKS"])
	require.Empty(t, s.Lost)
	_, err = env.JS.Consumer(ctx, "WEBHOOKS", "tasks")
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound, "doctor changes nothing")
}

func TestProbeWithoutAServer(t *testing.T) {
	t.Parallel()
	_, err := NewProbe(config.Default(t.TempDir())).Inspect(context.Background())
	require.ErrorIs(t, err, os.ErrNotExist)
}
