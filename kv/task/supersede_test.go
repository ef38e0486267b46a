package task_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

func sec(n int) task.Time {
	return task.At(noon.Truncate(time.Second).Add(time.Duration(n) * time.Second))
}

// push is a review that asks for the key: task id = its own seq.
func push(id, head, before string, at int, seq uint64) task.Candidate {
	return task.Candidate{Task: task.ID(id), Head: head, Before: before, Order: task.Order{UpdatedAt: sec(at), Seq: seq}}
}

// arrive decides on candidates one after the other, as admission does.
func arrive(p *task.Pointer, live bool, cs ...task.Candidate) (last task.Verdict, _ *task.Pointer) {
	for _, c := range cs {
		v, next := task.Decide(p, c, live)
		last = v
		if v == task.Wins || v == task.Coalesced {
			p = &next
		}
	}
	return last, p
}

func TestDecideRelations(t *testing.T) {
	t.Parallel()
	a, b := push("1", "A", "", 1, 1), push("2", "B", "A", 2, 2)
	guessed := []task.Candidate{push("1", "C", "B", 1, 1), push("2", "A", "X", 1, 2), push("3", "B", "A", 1, 3)}
	for _, c := range []struct {
		name  string
		first []task.Candidate
		next  task.Candidate
		live  bool
		want  task.Verdict
	}{
		{"first", nil, a, false, task.Wins},
		{"named already", []task.Candidate{a}, a, true, task.Holds},
		{"newer by time", []task.Candidate{a}, push("2", "B", "", 2, 2), true, task.Wins},
		{"newer by chain in one second", []task.Candidate{push("1", "A", "", 2, 9)}, b, true, task.Wins},
		{"older by chain in one second", []task.Candidate{b}, push("1", "A", "", 2, 9), true, task.Stale},
		{"stale", []task.Candidate{b}, push("9", "Z", "Y", 1, 9), true, task.Stale},
		{"stale though the winner ended", []task.Candidate{b}, push("9", "Z", "Y", 1, 9), false, task.Stale},
		{"same second and no chain: the log's order", []task.Candidate{push("1", "A", "X", 1, 5)}, push("2", "B", "Y", 1, 6), true, task.Wins},
		{"same second and no chain, earlier in the log", []task.Candidate{push("1", "A", "X", 1, 5)}, push("2", "B", "Y", 1, 4), true, task.Stale},
		{"G06 same head, live", []task.Candidate{a}, push("2", "A", "", 1, 2), true, task.Coalesced},
		{"same head, ended", []task.Candidate{a}, push("2", "A", "", 1, 2), false, task.Wins},
		{"same head, older", []task.Candidate{push("2", "A", "", 2, 2)}, push("1", "A", "", 1, 3), true, task.Stale},
		{"coalesced before, decided again", []task.Candidate{a, push("2", "A", "", 1, 2)}, push("2", "A", "", 1, 2), true, task.Coalesced},
		{"coalesced before, decided again after the winner ended", []task.Candidate{a, push("2", "A", "", 1, 2)}, push("2", "A", "", 1, 2), false, task.Coalesced},
		{"no head is not the same head", []task.Candidate{push("1", "", "", 1, 1)}, push("2", "", "", 1, 2), true, task.Wins},
		{"a head that won is older than itself no more", guessed, push("4", "D", "B", 1, 0), false, task.Wins},
		{"a second event of the head tells its past", []task.Candidate{push("1", "B", "", 1, 1), push("2", "B", "A", 1, 2)}, push("3", "A", "", 1, 3), false, task.Stale},
		{"no time: chain", []task.Candidate{b}, task.Candidate{Task: "3", Head: "C", Before: "B", Order: task.Order{Seq: 3}}, true, task.Wins},
		{"no time: log", []task.Candidate{b}, task.Candidate{Task: "3", Head: "C", Order: task.Order{Seq: 3}}, true, task.Wins},
		{"no time, earlier in the log", []task.Candidate{b}, task.Candidate{Task: "3", Head: "C", Order: task.Order{Seq: 1}}, true, task.Stale},
	} {
		_, p := arrive(nil, c.live || strings.HasPrefix(c.name, "coalesced"), c.first...)
		got, _ := task.Decide(p, c.next, c.live)
		require.Equal(t, c.want, got, c.name)
	}
}

func TestDecidePointers(t *testing.T) {
	t.Parallel()
	_, p := arrive(nil, true, push("1", "A", "", 1, 1), push("2", "B", "A", 2, 2))
	require.Equal(t, &task.Pointer{V: 1, Task: "2", Head: "B", Before: "A", Order: task.Order{UpdatedAt: sec(2), Seq: 2}, Prev: "1", Older: []string{"A"}}, p)
	_, p = arrive(p, true, push("3", "B", "", 4, 3))
	require.Equal(t, task.ID("2"), p.Task, "the live task keeps the key")
	require.Equal(t, task.Order{UpdatedAt: sec(4), Seq: 3}, p.Order, "its order moves")
	v, _ := arrive(p, true, push("4", "Z", "", 3, 4))
	require.Equal(t, task.Stale, v, "else a late older head would win")
}

// A head that is pushed back to stands on both sides of the chain.
func TestForcePushBack(t *testing.T) {
	t.Parallel()
	a, b, again := push("1", "A", "X", 1, 1), push("2", "B", "A", 2, 2), push("3", "A", "B", 3, 3)
	for _, order := range [][]task.Candidate{{a, b, again}, {b, a, again}, {b, again, a}, {again, b, a}, {again, a, b}, {a, again, b}} {
		_, p := arrive(nil, false, order...)
		require.Equal(t, task.ID("3"), p.Task)
	}
	// Pushed back while the pull request was closed: no before, and the head
	// is the pointer's before.
	v, p := arrive(nil, false, a, b, push("4", "A", "", 3, 3))
	require.Equal(t, task.Wins, v)
	require.Equal(t, "A", p.Head)
	// A late one whose before is the head that holds the key again.
	c := push("5", "C", "B", 3, 9)
	_, p = arrive(nil, false, push("6", "B", "A", 5, 3), c)
	require.Equal(t, task.ID("6"), p.Task)
}

// Q17: three in one millisecond, whatever their order of arrival.
func TestQ17ThreeInOneSecond(t *testing.T) {
	t.Parallel()
	base := push("0", "X", "W", 0, 1)
	pushes := []task.Candidate{push("1", "A", "X", 1, 0), push("2", "B", "A", 1, 0), push("3", "C", "B", 1, 0)}
	for _, perm := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, live := range []bool{false, true} {
			_, p := arrive(nil, live, base)
			for i, k := range perm {
				c := pushes[k]
				c.Order.Seq = uint64(2 + i)
				_, p = arrive(p, live, c)
			}
			require.Equal(t, "C", p.Head, "arrival %v", perm)
			require.Equal(t, task.ID("3"), p.Task, "arrival %v", perm)
		}
	}
}

// Whatever the order of arrival, the last head ends up with the key. At most
// two pushes share a second here; heads may come back.
func TestLastHeadWinsInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		chain := drawChain(t, 2)
		last := chain[len(chain)-1]
		arrival := rapid.Permutation(chain).Draw(t, "arrival")
		var p *task.Pointer
		for i, c := range arrival {
			c.Order.Seq = uint64(i + 1)
			live := rapid.Bool().Draw(t, "live")
			_, p = arrive(p, live, c)
			if rapid.Bool().Draw(t, "again") { // the message comes twice
				_, p = arrive(p, live, c)
			}
		}
		require.Equal(t, last.Head, p.Head)
		require.True(t, p.Order.UpdatedAt.Equal(last.Order.UpdatedAt.Time))
	})
}

// Any number of pushes in one second, each at most one place too early or late.
func TestLastHeadWinsInOneSecondSlightlyShuffled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		chain := []task.Candidate{push("0", "h0", "", 0, 1)}
		for i := 1; i <= n; i++ {
			chain = append(chain, push(fmt.Sprint(i), fmt.Sprintf("h%d", i), fmt.Sprintf("h%d", i-1), 1, 0))
		}
		for i := 1; i < n; i++ {
			if rapid.Bool().Draw(t, "swap") {
				chain[i], chain[i+1] = chain[i+1], chain[i]
				i++
			}
		}
		for i := range chain {
			chain[i].Order.Seq = uint64(i + 1)
		}
		_, p := arrive(nil, rapid.Bool().Draw(t, "live"), chain...)
		require.Equal(t, fmt.Sprintf("h%d", n), p.Head)
		require.LessOrEqual(t, len(p.Older), 8)
	})
}

// Coalescing never loses the last head: the live task under the key is of the
// last head, whatever other events name heads along the way.
func TestCoalescingKeepsTheLastHead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		chain := drawChain(t, 2)
		last := chain[len(chain)-1]
		events := slices.Clone(chain)
		for i, c := range chain { // labels and the like, at the head of their time
			for j := range rapid.IntRange(0, 2).Draw(t, "labels") {
				c.Task = task.ID(fmt.Sprintf("label-%d-%d", i, j))
				c.Before = ""
				events = append(events, c)
			}
		}
		events = rapid.Permutation(events).Draw(t, "arrival")
		heads := map[task.ID]string{}
		var p *task.Pointer
		for i, c := range events {
			c.Order.Seq = uint64(i + 1)
			heads[c.Task] = c.Head
			_, p = arrive(p, true, c)
			require.Equal(t, p.Head, heads[p.Task], "the task under the key is of its head")
		}
		require.Equal(t, last.Head, p.Head)
	})
}

// drawChain draws pushes of one pull request in their true order; at most
// perSecond share a second. Heads come back, but not within one second: there
// A → B and B → A would each be said to come before the other.
func drawChain(t *rapid.T, perSecond int) []task.Candidate {
	n := rapid.IntRange(1, 7).Draw(t, "pushes")
	var out []task.Candidate
	before, at := "X", 1
	second := []string{before} // heads that may not come in this second
	for i := range n {
		if len(second) > perSecond || i > 0 && rapid.Bool().Draw(t, "next second") {
			at, second = at+1, []string{before}
		}
		free := slices.DeleteFunc([]string{"A", "B", "C", "D", "E"}, func(h string) bool { return slices.Contains(second, h) })
		head := rapid.SampledFrom(free).Draw(t, "head")
		out = append(out, push(fmt.Sprint(i), head, before, at, 0))
		second = append(second, head)
		before = head
	}
	return out
}

func TestOrderIsTotal(t *testing.T) {
	t.Parallel()
	draw := rapid.Custom(func(t *rapid.T) task.Order {
		return task.Order{UpdatedAt: sec(rapid.IntRange(0, 3).Draw(t, "at")), Seq: rapid.Uint64Range(1, 4).Draw(t, "seq")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw.Draw(t, "a"), draw.Draw(t, "b"), draw.Draw(t, "c")
		require.False(t, a.Less(a))
		require.Equal(t, a != b, a.Less(b) || b.Less(a))
		require.False(t, a.Less(b) && b.Less(a))
		if a.Less(b) && b.Less(c) {
			require.True(t, a.Less(c))
		}
	})
}
