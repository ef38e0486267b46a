package view

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/belay-run/belay/kv/task"
)

// List returns a page, from the narrowest ordered list that the query has.
func (v *View) List(q Query) (Page, error) {
	pivot, err := parseCursor(q.Cursor)
	if err != nil {
		return Page{}, err
	}
	repos := task.NewRepoFilter(q.Repos, q.Repo)
	q.Limit = max(q.Limit, 1)
	v.mu.RLock()
	defer v.mu.RUnlock()
	var page Page
	var last *entry
	merge(v.narrowest(&q, repos), pivot, func(e *entry) bool {
		if pivot != nil && e.updated == pivot.updated && e.id == pivot.id || !q.match(e, repos) {
			return true
		}
		if len(page.Items) == q.Limit {
			page.Next = cursor(last)
			return false
		}
		page.Items = append(page.Items, e.item())
		last = e
		return true
	})
	return page, nil
}

// narrowest returns the ordered lists that together are the shortest to hold
// all that the query may match; none if nothing can. Repositories and statuses
// have a list in each installation, so that a page of one walks over nobody
// else's tasks.
func (v *View) narrowest(q *Query, repos task.RepoFilter) []*tree {
	choices := [][]scope{{{kind: 'a'}}}
	if q.Installation != nil {
		choices = append(choices, []scope{{kind: 'i', num: *q.Installation}})
	}
	if q.Status != "" {
		choices = append(choices, v.spread('s', q.Installation, q.Status))
	}
	if repos != nil {
		choices = append(choices, v.spread('r', q.Installation, repos...))
	}
	var best []*tree
	shortest := -1
	for _, scopes := range choices {
		var lists []*tree
		n := 0
		for _, s := range scopes {
			if t := v.lists[s]; t != nil {
				lists, n = append(lists, t), n+t.Len()
			}
		}
		if shortest < 0 || n < shortest {
			best, shortest = lists, n
		}
	}
	return best
}

// spread are the lists of names in one installation, or in all that have them.
func (v *View) spread(kind byte, installation *int64, names ...string) []scope {
	var out []scope
	for _, name := range names {
		s := scope{kind: kind, name: intern(name)}
		in := v.places[s]
		if installation != nil {
			in = []int64{*installation}
		}
		for _, s.num = range in {
			out = append(out, s)
		}
	}
	return out
}

func (q *Query) match(e *entry, repos task.RepoFilter) bool {
	return (q.Installation == nil || *q.Installation == e.inst) &&
		repos.Has(e.repo.Value()) &&
		(q.Status == "" || q.Status == e.status())
}

func cursor(e *entry) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(e.updated))
	return base64.RawURLEncoding.EncodeToString(append(b, e.id[:]...))
}

func parseCursor(s string) (*entry, error) {
	if s == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 8+len(uuid.UUID{}) {
		return nil, ErrCursor
	}
	return &entry{updated: int64(binary.BigEndian.Uint64(b)), id: uuid.UUID(b[8:])}, nil
}

// Thread returns the tasks about one issue or pull request, newest first, at
// most limit of them.
func (v *View) Thread(installation int64, repo string, number, limit int) []Item {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.lists[scope{kind: 'r', num: installation, name: intern(task.FoldRepo(repo))}]
	if t == nil {
		return nil
	}
	var out []Item
	t.Scan(func(e *entry) bool {
		if int(e.number) == number && e.kind() != task.CommandReply {
			out = append(out, e.item())
		}
		return len(out) < limit
	})
	return out
}
