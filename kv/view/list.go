package view

import (
	"encoding/base64"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"

	"github.com/belay-run/belay/kv/task"
)

// List returns a page, from the narrowest ordered list that the query has.
func (v *View) List(q Query) (Page, error) {
	pivot, err := parseCursor(q.Cursor)
	if err != nil {
		return Page{}, err
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.narrowest(&q)
	if t == nil {
		return Page{}, nil
	}
	q.Limit = max(q.Limit, 1)
	var page Page
	var last *entry
	take := func(e *entry) bool {
		if pivot != nil && e.updated == pivot.updated && e.id == pivot.id || !q.match(e) {
			return true
		}
		if len(page.Items) == q.Limit {
			page.Next = cursor(last)
			return false
		}
		page.Items = append(page.Items, e.item())
		last = e
		return true
	}
	if pivot == nil {
		t.Scan(take)
	} else {
		t.Ascend(pivot, take)
	}
	return page, nil
}

// narrowest returns the shortest ordered list that holds all that the query
// may match, nil if one that it names is empty.
func (v *View) narrowest(q *Query) *tree {
	scopes := []scope{{kind: 'a'}}
	if q.Repo != "" {
		scopes = append(scopes, scope{kind: 'r', name: intern(q.Repo)})
	}
	if len(q.Repos) == 1 {
		scopes = append(scopes, scope{kind: 'r', name: intern(q.Repos[0])})
	}
	if q.Installation != nil {
		scopes = append(scopes, scope{kind: 'i', num: *q.Installation})
	}
	if q.Status != "" {
		scopes = append(scopes, scope{kind: 's', name: intern(q.Status)})
	}
	var best *tree
	for _, s := range scopes {
		t := v.lists[s]
		if t == nil {
			return nil
		}
		if best == nil || t.Len() < best.Len() {
			best = t
		}
	}
	return best
}

func (q *Query) match(e *entry) bool {
	return (q.Installation == nil || *q.Installation == e.inst) &&
		(q.Repo == "" || q.Repo == e.repo.Value()) &&
		(q.Repos == nil || slices.Contains(q.Repos, e.repo.Value())) &&
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
	t := v.lists[scope{kind: 'r', name: intern(repo)}]
	if t == nil {
		return nil
	}
	var out []Item
	t.Scan(func(e *entry) bool {
		if e.inst == installation && int(e.number) == number && e.kind() != task.CommandReply {
			out = append(out, e.item())
		}
		return len(out) < limit
	})
	return out
}
