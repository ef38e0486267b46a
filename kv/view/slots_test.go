package view

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func place(n, attempt int, boot task.BootID) task.Slot {
	return task.Slot{Task: id(n), Attempt: attempt, Boot: boot}
}

// seated feeds the slots of installation 7.
func (b *bench) seated(entries ...task.Slot) {
	b.t.Helper()
	v, err := json.Marshal(task.Slots{V: 1, Entries: entries})
	require.NoError(b.t, err)
	b.put("slots.7", v)
}

func (b *bench) capAt(n int) {
	b.SetLimits(func(inst int64) int {
		if inst == 7 {
			return n
		}
		return 0
	})
}

// starts is how many tasks of installation 7 may start.
func (b *bench) starts() int { return len(b.Eligible(100, 0, never)[7]) }

func TestDT95EligibleUpToTheCap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for n := range 9 {
		b.tasks(rec(n))
		b.tasks(rec(100+n, inst(8)))
	}
	require.Equal(t, 9, b.starts())
	b.capAt(3)
	require.Equal(t, 3, b.starts())
	require.Len(t, b.Eligible(100, 0, never)[8], 9, "the others have no cap")
	require.Zero(t, b.AtLimit())

	b.Claim(7, id(0))
	b.Claim(7, id(0))
	require.Equal(t, 2, b.starts(), "claimed here")
	b.SawSlots(7, task.Slots{V: 1, Entries: []task.Slot{place(0, 1, "x")}}, b.rev+1, []task.ID{id(0)})
	require.Equal(t, 2, b.starts(), "its place counts instead")
	b.tasks(rec(0, held("x")))
	require.Equal(t, 2, b.starts(), "and is the same when it runs")
	b.tasks(rec(1, held("y")))
	require.Equal(t, 1, b.starts(), "what runs without a place counts too")
	b.Claim(7, id(2))
	require.Zero(t, b.starts())
	require.NotContains(t, b.Waiting(), int64(7))
	require.Contains(t, b.Waiting(), int64(8))
	require.Empty(t, b.EligibleOf(7, 5, never))
	require.Equal(t, 1, b.AtLimit())
	b.Unclaim(7, id(2))
	b.Unclaim(7, id(2))
	require.Equal(t, 1, b.starts())

	b.Over(7, place(0, 1, "x"))
	require.Equal(t, 2, b.starts(), "over here, though neither its record nor its place say so yet")
	b.tasks(rec(0, state(task.Completed)))
	require.Equal(t, 2, b.starts())
	b.seated()
	require.Equal(t, 2, b.starts())
	b.tasks(rec(1, state(task.Failed)))
	require.Equal(t, 3, b.starts())
	b.capAt(1)
	require.Equal(t, 1, b.starts(), "lowered")
	b.capAt(0)
	require.Equal(t, 7, b.starts(), "lifted")
}

// What this process knows to be over is that attempt, not a later one.
func TestOverIsOfOneAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.capAt(1)
	b.tasks(rec(1))
	b.tasks(rec(2))
	b.seated(place(1, 1, "x"))
	b.Over(7, place(1, 1, "x"))
	require.Equal(t, 1, b.starts())
	b.seated(place(1, 2, "y"))
	require.Zero(t, b.starts())
	b.seated()
	require.Equal(t, 1, b.starts())
}

// Slots that cannot be read let nothing start, and are counted.
func TestUnreadableSlotsAreFull(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.capAt(5)
	b.tasks(rec(1))
	b.put("slots.7", []byte(`{"v":99}`))
	require.Zero(t, b.starts())
	require.Equal(t, 1, b.Poisoned())
	b.seated()
	require.Equal(t, 1, b.starts())
	require.Zero(t, b.Poisoned())
}

func TestStaleSlots(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.SetSelf("me")
	b.beat("me")
	b.beat("alive")
	mine := func(s task.Slot) bool { return s.Task == id(1) }
	b.tasks(rec(5, held("gone")))
	b.seated(place(1, 1, "me"), place(2, 1, "me"), place(3, 1, "alive"), place(4, 1, "gone"), place(5, 1, "gone"))
	stale := func(alone bool) []int {
		var out []int
		for _, h := range b.StaleSlots(alone, mine) {
			require.EqualValues(t, 7, h.InstallationID)
			for n := range 6 {
				if h.Task == id(n) {
					out = append(out, n)
				}
			}
		}
		return out
	}
	require.ElementsMatch(t, []int{2}, stale(false), "of my own what I do not know of")
	for range MissedBeats {
		b.beat("alive")
		b.beat("me")
	}
	require.ElementsMatch(t, []int{2, 4}, stale(false), "and of the dead what does not run by its record")
	require.ElementsMatch(t, []int{2, 3, 4}, stale(true))
	for range MissedBeats {
		b.beat("me")
	}
	require.ElementsMatch(t, []int{2, 3, 4}, stale(false), "the dead are remembered as long as they hold places")
}
