package view

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// X14: tasks come, run, end, and are forgotten, without end; what the read
// model keeps of those that are gone is nothing. Each repository, title and
// URL is a new one.
func TestX14HeapIsFlatOverTasksThatComeAndGo(t *testing.T) {
	v := newBench(t)
	v.SetTombTTL(time.Hour)
	const each, rounds = 5_000, 6
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // weak and finalized things go with the second
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var first uint64
	for round := range rounds {
		for i := range each {
			n := round*each + i
			r := rec(n, func(r *task.Record) {
				r.InstallationID, r.RepoID = int64(n), int64(n)
				r.Repo, r.Title = fmt.Sprintf("acme-%d/repo-%d", n, n), fmt.Sprintf("title number %d", n)
				r.CreatedAt, r.UpdatedAt = task.At(v.clock.now()), task.At(v.clock.now())
			})
			v.tasks(r)
			held("b")(&r)
			v.tasks(r)
			r.State, r.CheckRunURL = task.Completed, fmt.Sprintf("https://github.com/acme-%d/runs/%d", n, n)
			v.tasks(r)
			tomb, err := r.Entomb(v.clock.now())
			require.NoError(t, err)
			v.tasks(tomb)
		}
		require.Equal(t, each, v.Tombs())
		v.clock.add(2 * time.Hour)
		require.Equal(t, each, v.DropExpiredTombs())
		if now := heap(); round == 0 {
			first = now
		} else {
			require.Less(t, now, first+first/4+256<<10, "after %d tasks; %d after the first %d", (round+1)*each, first, each)
		}
	}
	runtime.KeepAlive(v)
}
