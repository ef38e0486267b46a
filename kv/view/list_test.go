package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

// pages follows the cursors to the end.
func pages(t require.TestingT, v *View, q Query) (out []Item) {
	for {
		p, err := v.List(q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(p.Items), q.Limit)
		out = append(out, p.Items...)
		if q.Cursor = p.Next; q.Cursor == "" {
			return out
		}
		require.Len(t, p.Items, q.Limit, "a page with a cursor is full")
	}
}

// DT-97, DT-99: the list against a model that sorts and filters everything.
func TestDT97ListAgainstAModel(t *testing.T) {
	t.Parallel()
	repos := []string{"acme/api", "acme/web", "Acme/API"}
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(nil)
		model := map[task.ID]task.Record{}
		for range rapid.IntRange(0, 60).Draw(t, "writes") {
			n := rapid.IntRange(1, 20).Draw(t, "task")
			if rapid.IntRange(0, 9).Draw(t, "purge") == 0 {
				if r, ok := model[id(n)]; ok {
					b.purge(keyOf(r))
					delete(model, r.ID)
				}
				continue
			}
			r := rec(n, inst(int64(1+n%3)))
			r.Repo = repos[n%2+n%3%2]
			r.State = rapid.SampledFrom(task.States).Draw(t, "state")
			r.UpdatedAt = task.At(noon.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "at")) * time.Second))
			switch rapid.IntRange(0, 4).Draw(t, "shape") {
			case 0:
				r.Kind = task.Kind{Name: task.CommandReply}
			case 1:
				r.ResultStatus = task.ResultNeedsInput
			case 2:
				r.PRNumber = 4
			}
			b.put(keyOf(r), mustJSON(r))
			model[r.ID] = r
		}
		q := drawQuery(t, repos)
		var want []string
		counts := map[task.State]int{}
		for _, r := range model {
			counts[r.State]++
			if r.Kind.Name != task.CommandReply && matches(q, r) {
				want = append(want, line(r.ID, r.UpdatedAt))
			}
		}
		for _, s := range task.States {
			require.Equal(t, counts[s], b.Counts()[s], s)
		}
		slices.SortFunc(want, func(x, y string) int { // updated descending, then id
			if c := strings.Compare(y[:27], x[:27]); c != 0 {
				return c
			}
			return strings.Compare(x, y)
		})
		var got []string
		for _, it := range pages(t, b.View, q) {
			got = append(got, line(it.ID, it.UpdatedAt))
		}
		require.Equal(t, want, got)
	})
}

func line(id task.ID, at task.Time) string { return at.String() + " " + string(id) }

func drawQuery(t *rapid.T, repos []string) Query {
	q := Query{Limit: rapid.IntRange(1, 7).Draw(t, "limit")}
	if rapid.Bool().Draw(t, "by installation") {
		i := rapid.Int64Range(1, 4).Draw(t, "installation")
		q.Installation = &i
	}
	switch rapid.IntRange(0, 3).Draw(t, "scope") {
	case 0:
		q.Repos = []string{}
	case 1:
		q.Repos = repos[:rapid.IntRange(1, 3).Draw(t, "repos")]
	}
	if rapid.Bool().Draw(t, "by repo") {
		q.Repo = rapid.SampledFrom(append(repos, "none/such")).Draw(t, "repo")
	}
	if rapid.Bool().Draw(t, "by status") {
		q.Status = rapid.SampledFrom(append(Statuses, "nonsense")).Draw(t, "status")
	}
	return q
}

func matches(q Query, r task.Record) bool {
	same := func(name string) bool { return strings.EqualFold(name, r.Repo) }
	return (q.Installation == nil || *q.Installation == r.InstallationID) &&
		(q.Repos == nil || slices.ContainsFunc(q.Repos, same)) && (q.Repo == "" || same(q.Repo)) &&
		(q.Status == "" || q.Status == Status(r.State, r.ResultStatus, r.PRNumber))
}

// DT-98.
func TestDT98Status(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range task.States {
		for _, res := range []task.ResultStatus{"", task.ResultSuccess, task.ResultPartial, task.ResultFailure, task.ResultNeedsInput} {
			for _, pr := range []int{0, 3} {
				want := string(s)
				if s == task.Completed {
					want = "done"
					if res == task.ResultNeedsInput || pr != 0 {
						want = "review"
					}
				}
				require.Equal(t, want, Status(s, res, pr))
				seen[want] = true
			}
		}
	}
	require.Len(t, seen, len(Statuses))
	for _, s := range Statuses {
		require.True(t, seen[s], s)
	}
}

func TestListItem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(rec(1, state(task.Completed), func(r *task.Record) {
		r.Attempts, r.Branch, r.PRNumber, r.PRURL, r.CheckRunURL, r.ResultStatus = 2, "b", 9, "u", "c", task.ResultPartial
		r.Title = strings.Repeat("ä", 200)
	}))
	got, ok := b.Find(id(1))
	require.True(t, ok)
	require.Equal(t, Item{
		ID: id(1), InstallationID: 7, Repo: "acme/api", Number: 1, Title: task.Cut(strings.Repeat("ä", 200), maxTitle),
		Branch: "b", PRNumber: 9, PRURL: "u", CheckRunURL: "c", State: task.Completed, ResultStatus: task.ResultPartial,
		FamiliarID: "fam", Kind: task.FixIssue, Attempts: 2, UpdatedAt: task.At(noon),
	}, got)
	for _, no := range []task.ID{id(2), "", "garbage"} {
		_, ok := b.Find(no)
		require.False(t, ok)
	}
}

// A reader that pages while tasks come and move misses none that stays put and
// sees none twice.
func TestListCursorIsStableWhileInserting(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for n := 1; n <= 30; n++ {
		b.tasks(rec(n, func(r *task.Record) { r.UpdatedAt = task.At(noon.Add(time.Duration(n/3) * time.Second)) }))
	}
	want := pages(t, b.View, Query{Limit: 100})
	var got []Item
	q := Query{Limit: 4}
	for i := 0; ; i++ {
		p, err := b.List(q)
		require.NoError(t, err)
		got = append(got, p.Items...)
		if q.Cursor = p.Next; q.Cursor == "" {
			break
		}
		b.tasks(rec(100+i, func(r *task.Record) { r.UpdatedAt = task.At(noon.Add(time.Hour)) })) // newer than all
		last := p.Items[len(p.Items)-1]                                                          // the cursor's own task moves away
		for n := 1; n <= 30; n++ {
			if id(n) == last.ID {
				b.tasks(rec(n, func(r *task.Record) { r.UpdatedAt = task.At(noon.Add(time.Hour)) }))
			}
		}
	}
	require.Equal(t, want, got)
}

func TestListRefusesForeignCursors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tasks(rec(1))
	for _, bad := range []string{"?", "AAAA", strings.Repeat("A", 31), strings.Repeat("A", 33), "MQ=="} {
		_, err := b.List(Query{Limit: 1, Cursor: bad})
		require.ErrorIs(t, err, ErrCursor, bad)
	}
	p, err := b.List(Query{}) // no limit is the least one
	require.NoError(t, err)
	require.Len(t, p.Items, 1)
	p, err = New(quiet, time.Now).List(Query{Limit: 1})
	require.NoError(t, err)
	require.Empty(t, p)
}

func TestThread(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := func(n int) func(*task.Record) {
		return func(r *task.Record) { r.Number, r.UpdatedAt = 5, task.At(noon.Add(time.Duration(n)*time.Second)) }
	}
	b.tasks(rec(1, at(1)), rec(2, at(2)), rec(3, at(3)), rec(4), rec(5, at(5), inst(8)),
		rec(6, at(6), func(r *task.Record) { r.Repo = "acme/web" }),
		rec(7, at(7), func(r *task.Record) { r.Kind = task.Kind{Name: task.CommandReply} }))
	ids := func(items []Item) (out []string) {
		for _, it := range items {
			out = append(out, it.Title)
		}
		return out
	}
	require.Equal(t, []string{"title 3", "title 2", "title 1"}, ids(b.Thread(7, "acme/api", 5, 10)))
	require.Equal(t, []string{"title 3", "title 2"}, ids(b.Thread(7, "acme/api", 5, 2)))
	require.Equal(t, []string{"title 5"}, ids(b.Thread(8, "acme/api", 5, 10)))
	require.Empty(t, b.Thread(7, "none/such", 5, 10))
	require.Empty(t, b.Thread(7, "acme/api", 99, 10))
}

// DT-99: what a page costs, and so how long it takes, depends on nothing that
// is out of its scope.
func TestDT99APageWalksOverNobodyElses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for n := range 50 {
		b.tasks(rec(n, inst(8)), rec(100+n, inst(8), func(r *task.Record) { r.Repo = "acme/web" }))
	}
	b.tasks(rec(1000), rec(1001, state(task.Completed), func(r *task.Record) { r.Repo = "acme/web" }))
	seven := int64(7)
	for name, c := range map[string]struct {
		q    Query
		want int
	}{
		"installation":          {Query{Installation: &seven}, 2},
		"repo of both":          {Query{Installation: &seven, Repo: "acme/API"}, 1},
		"scope of repos":        {Query{Installation: &seven, Repos: []string{"acme/api", "acme/web"}}, 2},
		"repo out of scope":     {Query{Installation: &seven, Repos: []string{"acme/cli"}, Repo: "acme/api"}, 0},
		"unknown installation":  {Query{Installation: new(int64)}, 0},
		"status that is rare":   {Query{Installation: &seven, Status: "done"}, 1},
		"status of both":        {Query{Installation: &seven, Status: "queued"}, 1},
		"repo of another alone": {Query{Installation: &seven, Repo: "none/such"}, 0},
	} {
		n := 0
		for _, t := range b.narrowest(&c.q, task.NewRepoFilter(c.q.Repos, c.q.Repo)) {
			n += t.Len()
		}
		require.Equal(t, c.want, n, name)
	}
	require.Len(t, pages(t, b.View, Query{Repo: "acme/api", Limit: 7}), 51, "a repository of two installations, as the service sees it")
	for _, r := range []task.Record{rec(1000), rec(1001)} {
		b.purge(keyOf(r))
	}
	require.Len(t, b.places, 3, "two repositories, one status")
	for n := range 50 {
		b.purge(keyOf(rec(n, inst(8))))
		b.purge(keyOf(rec(100+n, inst(8))))
	}
	require.Empty(t, b.places, "nothing is kept of lists that are gone")
	require.Empty(t, b.lists)
}
