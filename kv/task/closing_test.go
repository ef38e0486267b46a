package task_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func two(_ task.Record, n int) []task.Intent {
	return []task.Intent{{N: n, Channel: "callback:a"}, {N: n + 1, Channel: "callback:b"}}
}

func numbers(r task.Record) (out []int) {
	for _, in := range r.Intents {
		out = append(out, in.N)
	}
	return out
}

// OB-38: a record gets its intents once an end, and no number serves twice,
// though a person may retry the task.
func TestOB38CloseNumbersIntentsOverAllEnds(t *testing.T) {
	t.Parallel()
	for _, s := range task.States {
		r := in(t, s)
		n := r.Close(two)
		if !s.Terminal() {
			require.Equal(t, r, n, s)
			continue
		}
		require.Empty(t, r.Intents, "the given record is not changed")
		require.Equal(t, []int{0, 1}, numbers(n), s)
		require.Equal(t, n, n.Close(two), "once an end")
		tomb, err := n.Entomb(noon)
		require.NoError(t, err)
		require.Equal(t, tomb, tomb.Close(two), "a tombstone sends nothing")
	}
	r, err := in(t, task.Failed).Close(two).Retry(noon)
	require.NoError(t, err)
	require.Empty(t, r.Intents)
	r, err = r.Cancel("asked", noon)
	require.NoError(t, err)
	require.Equal(t, []int{2, 3}, numbers(r.Close(two)))
}

func TestOpenSurfacesIsTheHoldersAlone(t *testing.T) {
	t.Parallel()
	r := running(t)
	r.HeadSHA = ""
	n, err := r.OpenSurfaces(holder, "abc", noon.Add(time.Second))
	require.NoError(t, err)
	require.Equal(t, task.SurfacesOpen, n.Surfaces)
	require.Equal(t, "abc", n.HeadSHA)
	require.Equal(t, task.Running, n.State)
	require.Empty(t, r.Surfaces)
	n, err = n.OpenSurfaces(holder, "def", noon)
	require.NoError(t, err)
	require.Equal(t, "abc", n.HeadSHA, "the check run is at the first one")
	other := holder
	other.Nonce = "other"
	_, err = r.OpenSurfaces(other, "abc", noon)
	require.ErrorIs(t, err, task.ErrFence)
	_, err = queued(t).OpenSurfaces(holder, "abc", noon)
	require.ErrorIs(t, err, task.ErrState)
}
