package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func due(d time.Duration) func(*task.Record) {
	return func(r *task.Record) { r.NotBefore = task.At(noon.Add(d)) }
}

// DT-63: the oldest delivery first, whenever its record came.
func TestDT63QueueIsOldestFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(rec(3), rec(1), rec(2), rec(9, inst(8)), rec(4, state(task.Running)), rec(5, state(task.Completed)))
	require.Equal(t, []task.ID{id(1), id(2), id(3)}, b.eligible(7))
	require.Equal(t, []task.ID{id(9)}, b.eligible(8))
	b.tasks(rec(1, state(task.Running)))
	b.purge(keyOf(rec(2)))
	require.Equal(t, []task.ID{id(3)}, b.eligible(7))
	c := b.Eligible(1, 0, never)[7][0]
	require.Equal(t, Candidate{ID: id(3), InstallationID: 7, Seq: 3, Since: c.Since}, c)
	require.True(t, c.Since.Equal(noon))
}

func TestEligibleBounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for n := 1; n <= 40; n++ {
		b.tasks(rec(n, inst(int64(n%4))))
	}
	total := func(per, all int, skip func(task.ID) bool) (n int) {
		for _, cs := range b.Eligible(per, all, skip) {
			require.LessOrEqual(t, len(cs), per)
			n += len(cs)
		}
		return n
	}
	require.Equal(t, 40, total(100, 0, never))
	require.Equal(t, 12, total(3, 0, never))
	require.Equal(t, 7, total(3, 7, never))
	require.Equal(t, 39, total(100, 0, func(x task.ID) bool { return x == id(4) }))
	require.Equal(t, []task.ID{id(8), id(12)}, func() (out []task.ID) {
		for _, c := range b.Eligible(2, 0, func(x task.ID) bool { return x == id(4) })[0] {
			out = append(out, c.ID)
		}
		return out
	}(), "what is skipped takes no place")
}

func TestDelayedTasksBecomeDue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(rec(1, due(time.Minute)), rec(2), rec(3, due(30*time.Second)), rec(4, due(-time.Second)), rec(5, inst(8), due(45*time.Second)))
	require.Equal(t, []task.ID{id(2), id(4)}, b.eligible(7))
	require.Empty(t, b.eligible(8))
	require.True(t, b.NextDue().Equal(noon.Add(30*time.Second)))
	require.Equal(t, time.Duration(0), b.OldestQueued())
	b.clock.add(30 * time.Second)
	require.Equal(t, []task.ID{id(2), id(3), id(4)}, b.eligible(7))
	require.True(t, b.Eligible(9, 0, never)[7][1].Since.Equal(noon.Add(30*time.Second)), "eligible since it became due")
	require.True(t, b.NextDue().Equal(noon.Add(45*time.Second)))
	require.Equal(t, 30*time.Second, b.OldestQueued())
	b.tasks(rec(1, due(2*time.Minute))) // put off again while it waits
	b.purge(keyOf(rec(5, inst(8))))
	require.True(t, b.NextDue().Equal(noon.Add(2*time.Minute)))
	b.clock.add(time.Hour)
	require.Equal(t, []task.ID{id(1), id(2), id(3), id(4)}, b.eligible(7))
	require.True(t, b.NextDue().IsZero())
	b.tasks(rec(1, state(task.Running)), rec(2, state(task.Failed)), rec(3, state(task.Cancelled)), rec(4, state(task.Superseded)))
	require.Empty(t, b.Eligible(9, 0, never))
	require.Zero(t, b.OldestQueued())
}

// Q27: a pause that cannot be read counts; one installation's does not stop
// the others.
func TestQ27Paused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(rec(1), rec(2, inst(8)))
	for _, v := range []string{`{"v":1}`, `garbage`, ``, `{"v":99}`} {
		b.put("control.pause", []byte(v))
		require.Empty(t, b.Eligible(9, 0, never), v)
		require.True(t, b.Paused(7) && b.Paused(8))
		b.purge("control.pause")
		require.Len(t, b.Eligible(9, 0, never), 2)
		require.False(t, b.Paused(7))
	}
	b.put("control.pause.7", []byte(`{}`))
	require.Empty(t, b.eligible(7))
	require.Len(t, b.eligible(8), 1)
	require.True(t, b.Paused(7))
	require.False(t, b.Paused(8))
	b.put("control.probe.boot", []byte(`{}`))
	require.Len(t, b.eligible(8), 1, "another control key stops nothing")
	b.purge("control.pause.7")
	require.Len(t, b.eligible(7), 1)
}

// A running task of a rule's group holds back the queued one of its group, and
// no other: another branch's, another rule's, one of no group, a review.
func TestPredecessorOfARuleHoldsBackOnlyItsGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ruled := func(name, group string) func(*task.Record) {
		return func(r *task.Record) {
			r.Kind = task.Kind{Name: task.Custom, Custom: task.CustomKind{Name: name, Event: "push"}}
			r.Rule, r.Number = &task.Rule{Name: name, Group: group}, 0
		}
	}
	b.tasks(
		rec(1, ruled("deploy", "@main"), held("b")), rec(2, ruled("deploy", "@main")), // waits
		rec(3, ruled("deploy", "@next")), rec(4, ruled("lint", "@main")), rec(5, ruled("deploy", "")), rec(6, ruled("deploy", "#5")),
		rec(7, review(5, "fam")), rec(8, ruled("deploy", "@main"), func(r *task.Record) { r.RepoID = 12 }),
	)
	require.Equal(t, []task.ID{id(3), id(4), id(5), id(6), id(7), id(8)}, b.eligible(7))
	require.Equal(t, []task.ID{id(7)}, b.QueuedReviews(7, 11, 5), "a rule's task is no review")
	b.tasks(rec(1, ruled("deploy", "@main"), state(task.Completed)))
	require.Contains(t, b.eligible(7), id(2))
}

// A running review holds back the queued one of its own key, and no other.
func TestPredecessorHoldsBackOnlyItsKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(
		rec(1, review(5, "fam"), held("b")), rec(2, review(5, "fam")), // waits
		rec(3, review(5, "other")), rec(4, review(6, "fam")), rec(5, review(5, "fam"), inst(8)),
		rec(6, review(5, "fam"), func(r *task.Record) { r.RepoID = 12 }),
		rec(7, func(r *task.Record) { r.Kind = task.Kind{Name: task.AddressReviewComment, PRNumber: 5}; r.Number = 5 }),
	)
	require.Equal(t, []task.ID{id(3), id(4), id(6), id(7)}, b.eligible(7))
	require.Equal(t, []task.ID{id(5)}, b.eligible(8))
	s, ok := b.Standing(id(1))
	require.True(t, ok)
	require.Equal(t, Standing{State: task.Running, Revision: 1, Seq: 1, InstallationID: 7, Holder: task.Holder{N: 1, Boot: "b", Nonce: "n"}, Overtaken: true}, s)
	s, _ = b.Standing(id(4))
	require.False(t, s.Overtaken)
	require.ElementsMatch(t, []task.ID{id(2), id(3)}, b.QueuedReviews(7, 11, 5))
	require.Equal(t, []task.ID{id(6)}, b.QueuedReviews(7, 12, 5))
	require.Empty(t, b.QueuedReviews(9, 11, 5))
	b.tasks(rec(1, review(5, "fam"), state(task.Completed)))
	require.Contains(t, b.eligible(7), id(2))
	b.tasks(rec(2, review(5, "fam"), held("b")))
	s, _ = b.Standing(id(2))
	require.False(t, s.Overtaken, "nobody waits behind it")
	_, ok = b.Standing(id(99))
	require.False(t, ok)
}
