package view

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func (b *bench) beat(boot task.BootID) { b.put("worker."+string(boot), []byte(`{"v":1,"name":"w"}`)) }

func (b *bench) orphans(alone bool, mine ...task.ID) (out []task.ID) {
	for _, o := range b.Orphans(alone, func(x task.ID) bool {
		for _, m := range mine {
			if m == x {
				return true
			}
		}
		return false
	}) {
		out = append(out, o.ID)
	}
	return out
}

// Q02, DT-81: a boot is dead when six of my own beats came without one of its.
func TestQ02MissedBeatsAreCountedInMyOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.SetSelf("me")
	b.beat("me")
	b.beat("other")
	b.tasks(rec(1, held("other")))
	for range 20 { // 5 missed, then one beat: alive
		for range MissedBeats - 1 {
			b.beat("me")
			require.Empty(t, b.orphans(false))
		}
		b.beat("other")
	}
	b.beat("third") // others' beats count for nothing
	for range 10 {
		b.beat("third")
	}
	require.Empty(t, b.orphans(false))
	require.Equal(t, 3, b.LiveWorkers())
	for range MissedBeats {
		b.beat("me")
	}
	require.Equal(t, []task.ID{id(1)}, b.orphans(false))
	require.Equal(t, Orphan{ID: id(1), InstallationID: 7, Revision: 3, Holder: task.Holder{N: 1, Boot: "other", Nonce: "n"}}, b.Orphans(false, never)[0])
	require.Equal(t, 1, b.LiveWorkers())
	b.beat("other") // it was only frozen
	require.Empty(t, b.orphans(false))
	require.Equal(t, 2, b.LiveWorkers())
}

func TestCleanStopIsDeadAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.SetSelf("me")
	b.beat("me")
	b.beat("other")
	b.tasks(rec(1, held("other")), rec(2, held("me")))
	b.purge("worker.other")
	require.Equal(t, []task.ID{id(1)}, b.orphans(false, id(2)))
	require.Equal(t, 1, b.LiveWorkers())
	b.tasks(rec(1))
	b.beat("me")
	require.NotContains(t, b.workers, task.BootID("other"), "a dead boot that holds nothing is forgotten")
}

// A boot of which only a running task is known, its key expired before the
// view began: counted from the moment the task is seen.
func TestUnknownBootIsCountedFromItsTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.SetSelf("me")
	b.tasks(rec(1, held("ghost")))
	for range MissedBeats - 1 {
		b.beat("me")
	}
	require.Empty(t, b.orphans(false))
	require.Equal(t, 2, b.LiveWorkers())
	b.beat("me")
	require.Equal(t, []task.ID{id(1)}, b.orphans(false))
	b.beat("me")
	require.Equal(t, []task.ID{id(1)}, b.orphans(false), "remembered while it holds something")
	b.tasks(rec(1, state(task.Failed)))
	b.beat("me")
	require.Len(t, b.workers, 1)
}

// DESIGN §7 rules 5 and 6.
func TestOrphansOfMyOwnBootAndAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.SetSelf("me")
	b.beat("me")
	b.beat("other")
	b.tasks(rec(1, held("me")), rec(2, held("me")), rec(3, held("other")), rec(4), rec(5, state(task.Completed)))
	require.Equal(t, []task.ID{id(1)}, b.orphans(false, id(2)), "mine that I do not run")
	require.ElementsMatch(t, []task.ID{id(1), id(3)}, b.orphans(true, id(2)), "alone, every other boot is dead")
	require.Empty(t, b.orphans(false, id(1), id(2)))
	require.Equal(t, 2, b.LiveWorkers())
}

func TestOwnBeatIsTheCanary(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.SetSelf("me")
	rev, at := b.OwnBeat()
	require.Zero(t, rev)
	require.True(t, at.IsZero())
	require.Equal(t, 1, b.LiveWorkers(), "myself, before my first beat")
	b.beat("other")
	b.beat("me")
	rev, at = b.OwnBeat()
	require.EqualValues(t, 2, rev)
	require.True(t, at.Equal(noon))
	b.apply(update{key: "worker.me", rev: 1}) // an old one comes again
	require.Equal(t, 0, b.workers["other"].missed-1)
	rev, _ = b.OwnBeat()
	require.EqualValues(t, 2, rev)
}
