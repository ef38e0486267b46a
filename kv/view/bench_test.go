package view

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// terminal is a record as most are: a review that completed after one attempt.
func terminal(n int) task.Record {
	return rec(n, review(n%5000, "fam"), func(r *task.Record) {
		r.State, r.ResultStatus, r.Attempts = task.Completed, task.ResultSuccess, 1
		r.Repo = fmt.Sprintf("acme/repo-%d", n%500)
		r.RepoID, r.InstallationID = int64(n%500), int64(n%100)
		r.Title = fmt.Sprintf("Review PR #%d: make the %d-th thing better", n%5000, n)
		r.Summary = "looked at it"
		r.CheckRunURL = fmt.Sprintf("https://github.com/acme/repo-%d/runs/%d", n%500, n)
		r.AttemptLog = []task.Attempt{{N: 1, Worker: "w", Boot: "b", Nonce: "n", StartedAt: task.At(noon), EndedAt: task.At(noon)}}
		r.UpdatedAt = task.At(noon.Add(time.Duration(n) * time.Millisecond))
	})
}

func filled(b *testing.B, n int) *bench {
	v := newBench(b)
	for i := range n {
		v.tasks(terminal(i))
	}
	return v
}

// BenchmarkMemory reports the bytes that the index keeps for a task.
func BenchmarkMemory(b *testing.B) {
	for _, c := range []struct {
		name string
		make func(n int) task.Record
	}{
		{"completed with check run", terminal},
		{"queued", func(n int) task.Record { return rec(n, review(n%5000, "fam"), inst(int64(n%100))) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			const n = 100_000
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				v := newBench(b)
				for i := range n {
					v.tasks(c.make(i))
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/task")
				runtime.KeepAlive(v)
			}
		})
	}
}

// BenchmarkApply is what one change of a record costs the watch.
func BenchmarkApply(b *testing.B) {
	v := filled(b, 100_000)
	value := mustJSON(terminal(7))
	key := keyOf(terminal(7))
	b.ReportAllocs()
	for b.Loop() {
		v.put(key, value)
	}
}

func BenchmarkList(b *testing.B) {
	v := filled(b, 100_000)
	v.tasks(rec(1_000_000, inst(5), state(task.Failed)))
	five := int64(5)
	for _, c := range []struct {
		name string
		q    Query
		want int
	}{
		{"all", Query{Limit: 100}, 100},
		{"installation", Query{Limit: 100, Installation: &five}, 100},
		{"repo", Query{Limit: 100, Repo: "acme/repo-5"}, 100},
		{"repos of one installation", Query{Limit: 100, Installation: &five, Repos: []string{"acme/repo-5", "acme/repo-105", "acme/repo-205"}}, 100},
		{"status of all", Query{Limit: 100, Status: "done"}, 100},
		{"rare status of one installation", Query{Limit: 100, Installation: &five, Status: "failed"}, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				p, err := v.List(c.q)
				if err != nil || len(p.Items) != c.want {
					b.Fatal(err, len(p.Items))
				}
			}
		})
	}
}

func BenchmarkEligible(b *testing.B) {
	for _, c := range []struct {
		name                 string
		queued, inst, p, all int
	}{
		{"10⁴ in one installation, 4 slots", 10_000, 1, 4, 4},
		{"10³ installations, 4 slots", 1000, 1000, 4, 4},
		{"10³ installations, one of each", 1000, 1000, 1, 0},
		{"10⁴ in 10³ installations, 16 of each", 10_000, 1000, 16, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := newBench(b)
			for n := range c.queued {
				v.tasks(rec(n, inst(int64(n%c.inst))))
			}
			require.NotEmpty(b, v.Eligible(c.p, c.all, never))
			b.ReportAllocs()
			for b.Loop() {
				v.Eligible(c.p, c.all, never)
			}
		})
	}
}

func BenchmarkQueuedReviews(b *testing.B) {
	v := newBench(b)
	for n := range 10_000 {
		v.tasks(rec(n, review(n, "fam")))
	}
	for b.Loop() {
		if len(v.QueuedReviews(7, 11, 77)) != 1 {
			b.Fatal("review is not found")
		}
	}
}
