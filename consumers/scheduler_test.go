package consumers

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

func testScheduler(boot string) *scheduler {
	return &scheduler{boot: task.BootID(boot), rand: rand.New(rand.NewPCG(1, 2))}
}

func cand(inst int64, id string, since time.Time) view.Candidate {
	return view.Candidate{ID: task.ID(id), InstallationID: inst, Since: since}
}

// from makes queues of lists.
func from(by map[int64][]view.Candidate) queues {
	q := queues{oldest: func(inst int64) []view.Candidate { return by[inst] }}
	for inst := range by {
		q.waiting = append(q.waiting, inst)
	}
	return q
}

func TestDT63AloneTakesTheOldestAtOnce(t *testing.T) {
	t.Parallel()
	s := testScheduler("a")
	now := time.Unix(100, 0)
	by := map[int64][]view.Candidate{7: {cand(7, "old", now), cand(7, "new", now)}}
	got, ok := s.pick(now, from(by), crowd{workers: 1}, false, "")
	require.True(t, ok)
	require.Equal(t, task.ID("old"), got.ID)
}

func TestQ22InstallationsTakeTurns(t *testing.T) {
	t.Parallel()
	s := testScheduler("a")
	now := time.Unix(100, 0)
	by := map[int64][]view.Candidate{}
	for i := range 1000 {
		by[1] = append(by[1], cand(1, fmt.Sprint("a", i), now))
	}
	by[2] = []view.Candidate{cand(2, "b0", now), cand(2, "b1", now)}
	by[9] = []view.Candidate{cand(9, "c0", now)}
	var order []int64
	for range 5 {
		c, ok := s.pick(now, from(by), crowd{workers: 1}, false, "")
		require.True(t, ok)
		order = append(order, c.InstallationID)
		by[c.InstallationID] = by[c.InstallationID][1:]
	}
	require.Equal(t, []int64{1, 2, 9, 1, 2}, order)
}

func TestCrowdLeavesNewTasksToTheTokensHolder(t *testing.T) {
	t.Parallel()
	s := testScheduler("a")
	now := time.Unix(100, 0)
	by := map[int64][]view.Candidate{7: {cand(7, "x", now), cand(7, "y", now)}}
	c := crowd{workers: 2}

	_, ok := s.pick(now, from(by), c, false, "")
	require.False(t, ok, "a new task without a token")
	got, ok := s.pick(now, from(by), c, true, "y")
	require.True(t, ok)
	require.Equal(t, task.ID("y"), got.ID, "the token's own task")
	got, ok = s.pick(now, from(by), c, true, "gone")
	require.True(t, ok)
	require.Equal(t, task.ID("x"), got.ID, "the oldest when the token's task is not to be had")
	_, ok = s.pick(now.Add(2*grace), from(by), c, false, "")
	require.True(t, ok, "a ripe task needs no token")
}

func TestCrowdSpreadsOverTheOldest(t *testing.T) {
	t.Parallel()
	s := testScheduler("a")
	since := time.Unix(100, 0)
	now := since.Add(time.Minute)
	var cands []view.Candidate
	for i := range 50 {
		cands = append(cands, cand(7, fmt.Sprint(i), since))
	}
	c := crowd{workers: 2}
	seen := map[task.ID]bool{}
	for range 400 {
		got, ok := s.pick(now, from(map[int64][]view.Candidate{7: cands}), c, true, "49")
		require.True(t, ok)
		seen[got.ID] = true
	}
	require.Len(t, seen, c.k(), "among the K oldest, all of them, none younger")
	require.NotContains(t, seen, task.ID("49"))
}

func TestRipeningDiffersBetweenBoots(t *testing.T) {
	t.Parallel()
	c := crowd{workers: 3}
	differ := 0
	for i := range 100 {
		id := task.ID(fmt.Sprint("task", i))
		a, b := testScheduler("a").wait(c, id), testScheduler("b").wait(c, id)
		require.GreaterOrEqual(t, a, grace)
		require.Less(t, a, 2*grace)
		if a != b {
			differ++
		}
	}
	require.Greater(t, differ, 90)
}

func TestNothingEligible(t *testing.T) {
	t.Parallel()
	s := testScheduler("a")
	for _, by := range []map[int64][]view.Candidate{nil, {7: nil}} {
		_, ok := s.pick(time.Unix(1, 0), from(by), crowd{workers: 1}, true, "x")
		require.False(t, ok)
	}
}
