package relay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
)

// DT-102: an end that was written before its installation was deleted may be
// derived after the purge. Nothing of it goes out.
func TestDT102NothingOfADeletedInstallationGoesOut(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	ch := g.play("c", nil)
	require.NoError(t, g.tasks.MarkDeleted(t.Context(), 7, g.now()))
	natstest.Eventually(t, "the view to know", func() bool { return g.view.Uninstalled(7) })
	in := func(installation int64) func(*outbox.Record) {
		return func(r *outbox.Record) { r.InstallationID = installation }
	}
	g.start()
	g.put("late", "c", in(7))
	g.put("other", "c", in(8))
	g.put("none", "c", in(0))
	g.reaches("other", outbox.Delivered)
	g.reaches("none", outbox.Delivered)
	natstest.Eventually(t, "the late one to be gone", func() bool {
		r, err := g.store.Find(t.Context(), "late")
		return err == nil && r == nil
	})
	require.Zero(t, ch.times("late"))
}
