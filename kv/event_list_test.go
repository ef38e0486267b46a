package kv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
)

// TestEveryRequestIsListed with its events, whatever its state; what else is
// under the subjects is no request.
func TestEveryRequestIsListed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	none, err := d.store.Requests(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
	var want []kv.OperatorRequest
	for _, s := range operator.States[1:] {
		id, rev := d.request(s)
		want = append(want, kv.OperatorRequest{Tenant: ann.Tenant, ID: id, Events: rev})
	}
	_, err = d.js.Publish(t.Context(), "operator.invotek.no-uuid", []byte("{}"))
	require.NoError(t, err)
	got, err := d.store.Requests(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
	for _, subject := range []string{"", "operator", "operator.x", "other.invotek." + string(want[0].ID), "operator.." + string(want[0].ID)} {
		_, _, ok := kv.ParseOperatorSubject(subject)
		require.False(t, ok, subject)
	}
}
