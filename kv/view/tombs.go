package view

import (
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/belay-run/belay/kv/task"
)

// tomb is what the view keeps of a tombstone: enough to find its record. Its
// expiry sends no event, so the view drops it by itself.
type tomb struct {
	inst    int64
	gen     uint32
	expires int64 // unix seconds, by the entombing record's own time
}

// SetTombTTL tells how long tombstones last; before Run.
func (v *View) SetTombTTL(ttl time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tombTTL = ttl
}

func (v *View) entomb(id uuid.UUID, s *shape) {
	v.tombs[id] = tomb{inst: s.InstallationID, gen: v.gen, expires: s.UpdatedAt.Add(v.tombTTL).Unix()}
}

// DropExpiredTombs forgets tombstones that the server has dropped by now.
func (v *View) DropExpiredTombs() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, n := v.now().Unix(), 0
	for id, t := range v.tombs {
		if v.tombTTL > 0 && t.expires < now {
			delete(v.tombs, id)
			n++
		}
	}
	return n
}

// Entombed returns the installation of a task of which only a tombstone is
// left, false if there is none.
func (v *View) Entombed(id task.ID) (installation int64, ok bool) {
	u, err := uuid.Parse(string(id))
	if err != nil {
		return 0, false
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	t, ok := v.tombs[u]
	return t.inst, ok
}

// InstallationOf returns the installation of a task, one of which only a
// tombstone is left included.
func (v *View) InstallationOf(id task.ID) (installation int64, ok bool) {
	if i, ok := v.Find(id); ok {
		return i.InstallationID, true
	}
	return v.Entombed(id)
}

// standingOfTomb says of a tombstone that nobody holds or waits for it.
func (v *View) standingOfTomb(id task.ID) (Standing, bool) {
	u, err := uuid.Parse(string(id))
	if err != nil {
		return Standing{}, false
	}
	t, ok := v.tombs[u]
	return Standing{State: task.Cancelled, Revision: math.MaxUint64, InstallationID: t.inst}, ok
}

// Tombs counts the tombstones.
func (v *View) Tombs() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.tombs)
}

// Aged is a terminal task whose retention may be over.
type Aged struct {
	ID             task.ID
	InstallationID int64
	Revision       uint64
}

// Aged returns up to limit terminal tasks that have not changed since before,
// the oldest first.
func (v *View) Aged(before time.Time, limit int) []Aged {
	v.mu.RLock()
	defer v.mu.RUnlock()
	horizon := before.UnixMicro()
	var out []Aged
	for _, s := range []scope{{kind: 'a'}, {kind: 'h'}} {
		t := v.lists[s]
		if t == nil {
			continue
		}
		t.Reverse(func(e *entry) bool {
			if e.updated >= horizon || len(out) == limit {
				return false
			}
			if e.state().Terminal() {
				out = append(out, Aged{ID: task.ID(e.id.String()), InstallationID: e.inst, Revision: e.rev})
			}
			return true
		})
	}
	return out
}

// OldestLive returns the sequence of the oldest delivery whose task is not
// terminal, false if there is none.
func (v *View) OldestLive() (uint64, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var first uint64
	low := func(e *entry) {
		if first == 0 || e.seq < first {
			first = e.seq
		}
	}
	for _, q := range v.queues {
		if e, ok := q.Min(); ok {
			low(e)
		}
	}
	v.delayed.Scan(func(e *entry) bool { low(e); return true })
	for _, e := range v.running {
		low(e)
	}
	return first, first > 0
}

// applyInstallation notes installations that were deleted.
func (v *View) applyInstallation(rest string, u update) {
	var s struct {
		V         int       `json:"v"`
		DeletedAt task.Time `json:"deleted_at"`
	}
	if u.deleted {
		delete(v.uninstalled, rest)
		return
	}
	if err := task.Decode(u.value, &s, &s.V); err != nil {
		v.poisoned(u, err)
		return
	}
	if s.DeletedAt.IsZero() {
		delete(v.uninstalled, rest)
		return
	}
	v.uninstalled[rest] = v.gen
}

// Pauses counts the pause switches that are on.
func (v *View) Pauses() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.paused)
}

// Uninstalled reports whether an installation was deleted.
func (v *View) Uninstalled(installation int64) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, ok := v.uninstalled[formatInt(installation)]
	return ok
}
