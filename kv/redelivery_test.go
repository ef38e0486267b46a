package kv_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// TestDT55RedeliveriesAreKeptAndChangeByCAS over a restart, each source by itself.
func TestDT55RedeliveriesAreKeptAndChangeByCAS(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, err := kv.OpenRedeliveryStore(t.Context(), env.JS)
	require.NoError(t, err)
	c, rev, err := s.Cursor(t.Context(), "default")
	require.NoError(t, err)
	require.Zero(t, c)
	require.NoError(t, s.MoveCursor(t.Context(), "default", kv.RedeliveryCursor{At: noon}, rev))
	require.ErrorIs(t, s.MoveCursor(t.Context(), "default", kv.RedeliveryCursor{}, rev), kv.ErrConflict)
	r := kv.Redelivery{Source: "default", GUID: "g1", Attempt: 5, FirstAt: noon}
	require.NoError(t, s.Add(t.Context(), r))
	require.NoError(t, s.Add(t.Context(), kv.Redelivery{Source: "other", GUID: "g1"}))
	all, err := s.All(t.Context(), "default")
	require.NoError(t, err)
	require.Len(t, all, 1)
	all[0].Tries = 1
	changed, err := s.Change(t.Context(), all[0])
	require.NoError(t, err)
	_, err = s.Change(t.Context(), all[0])
	require.ErrorIs(t, err, kv.ErrConflict, "a process that read before")
	require.NoError(t, s.Add(t.Context(), r), "one that is there stays")

	env.Restart()
	s, err = kv.OpenRedeliveryStore(t.Context(), env.JS)
	require.NoError(t, err)
	c, rev, err = s.Cursor(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, noon, c.At)
	require.NoError(t, s.MoveCursor(t.Context(), "default", c, rev))
	all, err = s.All(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, []kv.Redelivery{changed}, all)
	require.NoError(t, s.Settle(t.Context(), changed))
	all, err = s.All(t.Context(), "default")
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestDT57TheLogSaysWhichDeliveriesItHolds(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	accept(t, l, delivery("g1"))
	twice := delivery("g1")
	twice.HookID, twice.PayloadHash = "2", "another"
	accept(t, l, twice)
	other := delivery("g2")
	other.Source = "ghes"
	accept(t, l, other)
	replay := delivery(task.ReplayID("g3"))
	accept(t, l, replay)
	accept(t, l, delivery("g4"))
	holds := func(source string, since time.Time) map[task.DeliveryID]bool {
		ids := map[task.DeliveryID]bool{"g1": false, "g2": false, "g3": false, "g4": false}
		require.NoError(t, l.Holds(t.Context(), source, since, ids))
		return ids
	}
	past := time.Now().Add(-time.Hour)
	require.Equal(t, map[task.DeliveryID]bool{"g1": true, "g2": false, "g3": false, "g4": true}, holds("default", past), "a replay is none of GitHub's")
	require.Equal(t, map[task.DeliveryID]bool{"g1": false, "g2": true, "g3": false, "g4": false}, holds("ghes", past))
	require.Equal(t, map[task.DeliveryID]bool{"g1": false, "g2": false, "g3": false, "g4": false}, holds("default", time.Now().Add(time.Hour)))
}
