package relay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
)

// OB-53: what is done goes past its days, and with a task only after the
// task's intents; what is not done stays, however old.
func TestOB53Retire(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	g.play("callback:ci", nil)
	rec := g.ended("d1")
	derived := outbox.DerivedID(string(rec.ID), 1)
	g.put("alone", "callback:ci")
	r := g.start()
	g.seen(derived, outbox.Delivered)
	g.seen("alone", outbox.Delivered)
	require.NoError(t, r.Stop(t.Context()))
	g.put("pending", "callback:ci")
	g.put("claimed", "callback:ci")
	_, _, err := g.store.Claim(t.Context(), "claimed", "b")
	require.NoError(t, err)
	g.seen("claimed", outbox.Delivering)

	retire := func(before time.Time) int {
		n, err := Retire(t.Context(), g.view, g.tasks, g.store, before)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, retire(time.Now().Add(-time.Hour)))
	later := time.Now().Add(time.Hour)
	require.Equal(t, 1, retire(later), "the one without a task")
	require.Equal(t, outbox.Delivered, g.find(derived).Status, "its task carries intents")

	stored, rev, err := g.tasks.Get(t.Context(), rec.InstallationID, rec.ID)
	require.NoError(t, err)
	tomb, err := stored.Entomb(later)
	require.NoError(t, err)
	require.NoError(t, g.tasks.Entomb(t.Context(), tomb, rev, time.Hour))
	require.Equal(t, 1, retire(later))
	gone, err := g.store.Find(t.Context(), derived)
	require.NoError(t, err)
	require.Nil(t, gone)
	require.Equal(t, outbox.Pending, g.find("pending").Status)
	require.Equal(t, outbox.Delivering, g.find("claimed").Status)
	require.Empty(t, g.view.Underived(9), "nothing is derived again")
}
