package backup

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

func TestBackupIsRestoredElsewhere(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.New(t))
	for n := range 300 {
		s.admit(n, task.Completed, task.Intent{N: 0, Channel: "callback:ci", To: "x", Payload: []byte(`{}`)})
	}
	queued, running := s.admit(1000, task.Queued), s.admit(1001, task.Running)
	s.admitted()
	s.request(operator.StateApproved)
	path := take(t, s.env, TakeOptions{Version: "1.2.3"})

	a := opened(t, path)
	require.True(t, a.Manifest.Quiet)
	require.EqualValues(t, 302, a.Manifest.Admitted)
	found, err := Verify(t.Context(), a, t.TempDir(), nil)
	require.NoError(t, err, "%v", found.Problems)
	require.Equal(t, 302, found.Tasks)
	require.Equal(t, 302, found.Deliveries)
	require.Equal(t, 1, found.Requests)

	r, held := elsewhere(t, path, RestoreOptions{})
	require.Equal(t, kv.Held{Replies: 300, Requests: 1, Live: 2}, held)
	got, _, err := r.tasks.Get(t.Context(), queued.InstallationID, queued.ID)
	require.NoError(t, err)
	require.Equal(t, queued, got)
	got, _, err = r.tasks.Get(t.Context(), running.InstallationID, running.ID)
	require.NoError(t, err)
	require.Equal(t, running, got)
	require.True(t, r.accept(5).Duplicate, "a delivery of before the backup")
	require.False(t, r.accept(5000).Duplicate)
	require.Equal(t, count(t, s.env.JS, kv.StreamOperator)+2, count(t, r.env.JS, kv.StreamOperator))
}

// J27: whichever byte of a backup changes, it is found.
func TestJ27FlippedByteIsFound(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.New(t))
	for n := range 20 {
		s.admit(n, task.Queued)
	}
	path := take(t, s.env, TakeOptions{})
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	bad := filepath.Join(t.TempDir(), "bad")
	try := func(b []byte) error {
		require.NoError(t, os.WriteFile(bad, b, 0o600))
		a, err := Open(bad)
		if err == nil {
			require.NoError(t, a.Close())
		}
		return err
	}
	require.NoError(t, try(whole))
	places := []int{0, 1, len(whole) - 1, len(whole) - 1024, len(whole) - 1500, len(whole) - 2048, len(whole) - 2049}
	for range 300 {
		places = append(places, rand.IntN(len(whole)))
	}
	for _, i := range places {
		b := append([]byte(nil), whole...)
		b[i] ^= 1 << rand.IntN(8)
		require.ErrorIs(t, try(b), ErrDamaged, "byte %d of %d", i, len(whole))
	}
	require.ErrorIs(t, try(whole[:len(whole)-512]), ErrDamaged)
	require.ErrorIs(t, try(append(append([]byte(nil), whole...), 0)), ErrDamaged)
	require.ErrorIs(t, try(nil), ErrDamaged)
}
