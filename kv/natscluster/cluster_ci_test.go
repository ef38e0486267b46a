//go:build ci

package natscluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natscluster"
)

// program is the nats-server of the system, which has to be there.
func program(conf, _ string) []string { return []string{"nats-server", "-c", conf} }

// The cluster keeps what it took over the kill of a leader, a clean restart
// and a freeze, each time under another leader.
func TestClusterOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := natscluster.Start(ctx, natscluster.Options{Dir: t.TempDir(), Command: program})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = c.JetStream().CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: natscluster.Size})
	require.NoError(t, err)
	publish := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			_, err := c.JetStream().Publish(ctx, "s", nil, jetstream.WithMsgID("x"), jetstream.WithRetryAttempts(0))
			return err == nil
		}, 30*time.Second, 10*time.Millisecond)
	}
	publish()
	leave := map[string]struct{ gone, back func(*natscluster.Node) error }{
		"kill":   {(*natscluster.Node).Kill, func(n *natscluster.Node) error { return n.Start(ctx) }},
		"stop":   {func(n *natscluster.Node) error { return n.Stop(ctx) }, func(n *natscluster.Node) error { return n.Start(ctx) }},
		"freeze": {(*natscluster.Node).Freeze, (*natscluster.Node).Thaw},
	}
	for name, l := range leave {
		led, err := c.Leader(ctx, "S")
		require.NoError(t, err, name)
		require.NoError(t, l.gone(led), name)
		require.Eventually(t, func() bool {
			now, err := c.Leader(ctx, "S")
			return err == nil && now.Name != led.Name
		}, 30*time.Second, 10*time.Millisecond, name)
		publish()
		require.NoError(t, l.back(led), name)
		require.NoError(t, led.Healthy(ctx), name)
	}
	s, err := c.JetStream().Stream(ctx, "S")
	require.NoError(t, err)
	require.EqualValues(t, 1, s.CachedInfo().State.Msgs, "one message id, one message")
	require.Len(t, s.CachedInfo().Cluster.Replicas, natscluster.Size-1)
}
