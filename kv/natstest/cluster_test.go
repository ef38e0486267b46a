package natstest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

func TestClusterKeepsThreeCopies(t *testing.T) {
	t.Parallel()
	c := natstest.NewCluster(t)
	_, err := c.JS[0].Publish(t.Context(), "webhook.1.2.task.review", []byte("x"))
	require.NoError(t, err)
	for _, js := range c.JS {
		s, err := js.Stream(t.Context(), "WEBHOOKS")
		require.NoError(t, err)
		require.Equal(t, 3, s.CachedInfo().Config.Replicas)
		require.EqualValues(t, 1, s.CachedInfo().State.Msgs)
		require.NotEmpty(t, s.CachedInfo().Cluster.Leader)
	}
}
