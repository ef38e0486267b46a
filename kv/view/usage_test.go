package view

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

// ran is a record that was created days after noon's and ran for the times.
func ran(n, days int, s task.State, times ...time.Duration) task.Record {
	r := rec(n, state(s))
	r.CreatedAt = task.At(noon.AddDate(0, 0, days))
	for i, d := range times {
		r.AttemptLog = append(r.AttemptLog, task.Attempt{N: i + 1, Boot: "b", StartedAt: task.At(noon), EndedAt: task.At(noon.Add(d))})
	}
	r.Attempts = len(times)
	return r
}

// usagePages follows the cursors to the end.
func usagePages(t require.TestingT, v *View, q UsageQuery) (out []Usage) {
	for {
		p, err := v.Usage(q)
		require.NoError(t, err)
		out = append(out, p.Rows...)
		if q.Cursor = p.Next; q.Cursor == "" {
			return out
		}
		require.Len(t, p.Rows, q.Limit, "a page with a cursor is full")
	}
}

func TestDT100UsageCountsEachTaskOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := ran(1, 0, task.Failed, time.Minute, 90*time.Second, 1500*time.Millisecond)
	running := ran(3, 0, task.Running, time.Second)
	running.AttemptLog = append(running.AttemptLog, task.Attempt{N: 2, Boot: "b", StartedAt: task.At(noon)})
	b.tasks(first, ran(2, 0, task.Completed, time.Second), running)
	want := Usage{InstallationID: 7, Repo: "acme/api", FamiliarID: "fam", Tasks: 3, Completed: 1, Failed: 1, Runtime: 153500 * time.Millisecond}
	require.Equal(t, []Usage{want}, usagePages(t, b.View, UsageQuery{Limit: 1}), "three attempts are one task")
	first.State = task.Queued // a person retries it: no second task
	b.tasks(first)
	want.Failed = 0
	require.Equal(t, []Usage{want}, usagePages(t, b.View, UsageQuery{Limit: 1}))
	first.State = task.Completed
	b.tasks(first, rec(4, func(r *task.Record) { r.Kind = task.Kind{Name: task.CommandReply} }))
	want.Completed = 2
	require.Equal(t, []Usage{want}, usagePages(t, b.View, UsageQuery{Limit: 1}), "what lists hide is not counted")
	gone, err := first.Entomb(noon)
	require.NoError(t, err)
	b.tasks(gone)
	want.Tasks, want.Completed, want.Runtime = 2, 1, 2*time.Second
	require.Equal(t, []Usage{want}, usagePages(t, b.View, UsageQuery{Limit: 1}), "a tombstone counts no more")
	b.purge(keyOf(running))
	b.purge(keyOf(rec(2)))
	require.Empty(t, usagePages(t, b.View, UsageQuery{Limit: 1}))
	require.Empty(t, b.usage.rows, "nothing is kept of rows that are gone")
}

// DT-100, DT-99: against a model that counts everything, in any scope, window
// and page size.
func TestDT100UsageAgainstAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(nil)
		model := map[task.ID]task.Record{}
		for range rapid.IntRange(0, 60).Draw(t, "writes") {
			n := rapid.IntRange(1, 20).Draw(t, "task")
			r := ran(n, n%5, rapid.SampledFrom(task.States).Draw(t, "state"), time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms"))*time.Millisecond)
			r.InstallationID, r.Repo, r.FamiliarID = int64(1+n%3), []string{"acme/api", "acme/web", "Acme/Web"}[n/3%3], []string{"a", "b"}[n%2]
			if rapid.IntRange(0, 5).Draw(t, "purge") == 0 {
				b.purge(keyOf(r))
				delete(model, r.ID)
				continue
			}
			b.put(keyOf(r), mustJSON(r))
			model[r.ID] = r
		}
		q := UsageQuery{Limit: rapid.IntRange(1, 4).Draw(t, "limit")}
		if rapid.Bool().Draw(t, "by installation") {
			i := rapid.Int64Range(0, 4).Draw(t, "installation")
			q.Installation = &i
		}
		q.Repos = rapid.SampledFrom([][]string{nil, nil, {}, {"ACME/web"}, {"acme/api", "acme/web"}}).Draw(t, "repos")
		q.Repo = rapid.SampledFrom([]string{"", "", "acme/API", "acme/web"}).Draw(t, "repo")
		since, until := rapid.IntRange(-1, 5).Draw(t, "since"), rapid.IntRange(-1, 5).Draw(t, "until")
		if since >= 0 {
			q.Since = noon.AddDate(0, 0, since).Truncate(24 * time.Hour)
		}
		if until >= 0 {
			q.Until = noon.AddDate(0, 0, until).Truncate(24 * time.Hour)
		}
		rows := map[[3]string]*Usage{}
		for _, r := range model {
			day := int(r.CreatedAt.Sub(noon) / (24 * time.Hour))
			repos := task.NewRepoFilter(q.Repos, q.Repo)
			if q.Installation != nil && *q.Installation != r.InstallationID || !repos.Has(r.Repo) || since >= 0 && day < since || until >= 0 && day > until {
				continue
			}
			k := [3]string{formatInt(r.InstallationID), r.Repo, r.FamiliarID}
			if rows[k] == nil {
				rows[k] = &Usage{InstallationID: r.InstallationID, Repo: r.Repo, FamiliarID: r.FamiliarID}
			}
			u := rows[k]
			u.Tasks++
			u.Runtime += r.AttemptLog[0].EndedAt.Sub(noon)
			switch r.State {
			case task.Completed:
				u.Completed++
			case task.Failed:
				u.Failed++
			}
		}
		var want []Usage
		for _, u := range rows {
			want = append(want, *u)
		}
		slices.SortFunc(want, func(a, b Usage) int {
			return cmp.Or(cmp.Compare(a.InstallationID, b.InstallationID), strings.Compare(a.Repo, b.Repo), strings.Compare(a.FamiliarID, b.FamiliarID))
		})
		require.Equal(t, want, usagePages(t, b.View, q))
	})
}

func TestUsageRefusesForeignCursors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(rec(1))
	for _, bad := range []string{"?", "AAAA", "MQ==", "MQBhAGIAYw"} {
		_, err := b.Usage(UsageQuery{Limit: 1, Cursor: bad})
		require.ErrorIs(t, err, ErrCursor, bad)
	}
}

func TestDayOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int32{
		"1970-01-01T00:00:00Z": 0, "1970-01-01T23:59:59Z": 0, "1970-01-02T00:00:00Z": 1, "1969-12-31T23:59:59Z": -1, "1969-12-31T00:00:00Z": -1,
		"2026-03-01T00:30:00+02:00": 20512,
	} {
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		require.Equal(t, want, dayOf(at), text)
	}
}
