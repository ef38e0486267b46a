package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func TestWaitsSaysWhyATaskHasNotBegun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(rec(1), rec(2, func(r *task.Record) { r.NotBefore = task.At(noon.Add(time.Minute)) }), rec(3, state(task.Completed)))
	require.Equal(t, WaitWorker, b.Waits(id(1)))
	b.beat("w")
	require.Equal(t, WaitTurn, b.Waits(id(1)))
	require.Equal(t, WaitDue, b.Waits(id(2)))
	require.Empty(t, b.Waits(id(3)))
	require.Empty(t, b.Waits(id(99)))

	b.capAt(1)
	require.Equal(t, WaitTurn, b.Waits(id(1)))
	b.tasks(rec(4, held("w")))
	require.Equal(t, WaitCap, b.Waits(id(1)))
	b.tasks(rec(5, review(8, "fam"), func(r *task.Record) { held("w")(r) }), rec(6, review(8, "fam")))
	require.Equal(t, WaitPredecessor, b.Waits(id(6)))
	b.put("control.pause", []byte(`{"v":1}`))
	require.Equal(t, WaitPaused, b.Waits(id(1)))
}
