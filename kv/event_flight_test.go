package kv_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
)

// OT-91: a repository that moves to another tenant while requests are in
// flight is found out; what has ended, has expired or is foreign is not.
func TestOT91RemapIsFound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	want := map[operator.RequestID]bool{}
	for _, s := range operator.States[1:] {
		id, _ := d.request(s)
		want[id] = s != operator.StateDelivered
	}
	d.plant("invotek", freshID(), "foreign")
	tenant, moved, err := d.store.Remapped(t.Context())
	require.NoError(t, err)
	require.Equal(t, "invotek", tenant)
	require.Empty(t, moved, "nothing moved")

	d.tenants.set("acme")
	tenant, moved, err = d.store.Remapped(t.Context())
	require.NoError(t, err)
	require.Equal(t, "acme", tenant)
	require.Len(t, moved, 5)
	for _, m := range moved {
		require.True(t, want[m.ID], "%s is %s", m.ID, m.State)
	}
	d.ahead.Store(int64(25 * time.Hour))
	_, moved, err = d.store.Remapped(t.Context())
	require.NoError(t, err)
	require.Len(t, moved, 4, "a proposal that nobody can confirm comes to nothing")
	d.tenants.set("down")
	_, _, err = d.store.Remapped(t.Context())
	require.Error(t, err)
}

// A wake-up of one process is heard by the others, and is kept by no stream.
func TestOperatorWakeIsHeardEverywhere(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	heard := make(chan string, 2)
	stop, err := d.store.OnWake(func(tenant string, id operator.RequestID) { heard <- tenant + " " + string(id) })
	require.NoError(t, err)
	require.NoError(t, d.js.Conn().Flush())
	id := freshID()
	before := messages(t, d.env, kv.StreamOperator)
	require.NoError(t, d.store.Wake(t.Context(), "acme", id))
	select {
	case got := <-heard:
		require.Equal(t, "acme "+string(id), got)
	case <-time.After(10 * time.Second):
		t.Fatal("not heard")
	}
	require.Equal(t, before, messages(t, d.env, kv.StreamOperator))
	require.NoError(t, stop())
}
