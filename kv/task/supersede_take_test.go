package task_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// DT-93: a review that begins at the live head takes the key, from whomever.
func TestDT93TakeIsNewerThanWhatTheKeyHasSeen(t *testing.T) {
	t.Parallel()
	require.Equal(t, task.Pointer{V: 1, Task: "c", Head: "A", Order: task.Order{Seq: 7}}, task.Take(nil, "c", "A", 7))

	_, p := arrive(nil, true, push("1", "A", "", 1, 1), push("2", "B", "A", 2, 9))
	same := task.Take(p, "c", "B", 7)
	require.Equal(t, []any{task.ID("c"), "B", "A", task.ID("2"), uint64(9)}, []any{same.Task, same.Head, same.Before, same.Prev, same.Order.Seq})
	require.Equal(t, same, task.Take(&same, "c", "B", 7), "again changes nothing")

	ahead := task.Take(p, "c", "C", 7)
	v, _ := task.Decide(&ahead, push("3", "C", "B", 3, 10), true)
	require.Equal(t, task.Coalesced, v, "the event of its own head, which came later")
	v, _ = task.Decide(&ahead, push("3", "B", "A", 2, 11), true)
	require.Equal(t, task.Stale, v, "the event of a head before it")
	v, won := task.Decide(&ahead, push("3", "D", "C", 3, 12), true)
	require.Equal(t, task.Wins, v)
	require.Equal(t, task.ID("c"), won.Prev)
}

// A review that goes on at another head keeps the key and who it beat.
func TestTakeByTheHolderMovesTheHeadOnly(t *testing.T) {
	t.Parallel()
	_, p := arrive(nil, true, push("1", "A", "", 1, 1), push("2", "B", "A", 2, 2))
	n := task.Take(p, "2", "C", 2)
	require.Equal(t, []any{task.ID("2"), "C", task.ID("1")}, []any{n.Task, n.Head, n.Prev})
	require.Equal(t, []string{"A", "B"}, n.Older)
}
