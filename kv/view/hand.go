package view

import (
	"github.com/google/uuid"

	"github.com/belay-run/belay/kv/task"
)

// handed is a queued record that this process wrote, and the revision it got.
type handed struct {
	record task.Record
	rev    uint64
	size   int
}

const (
	// maxHanded bounds what is kept of such records, in bytes.
	maxHanded = 32 << 20
	// handedSize is about what a record takes without its long texts.
	handedSize = 1 << 10
)

// Hand gives the view a queued record that was just written at a revision, so
// that whoever claims the task here need not read it again. It is kept until
// it is taken or the watch shows a newer revision, within a bound: what is not
// kept is read.
func (v *View) Hand(r task.Record, rev uint64) {
	id, err := uuid.Parse(string(r.ID))
	if err != nil || r.State != task.Queued {
		return
	}
	k := &r.Kind
	h := handed{r, rev, handedSize + len(k.IssueBody) + len(k.CommentBody) + len(k.DiffHunk) + len(k.Body)}
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.tasks[id]
	_, dead := v.tombs[id]
	if dead || e != nil && e.rev > rev || v.handedSize+h.size > maxHanded {
		return
	}
	v.dropHanded(id)
	v.handed[id] = h
	v.handedSize += h.size
}

// Handed takes the record that was handed over for a task, with its revision.
// It may be overtaken: only a compare-and-set at that revision tells.
func (v *View) Handed(id task.ID) (r task.Record, rev uint64, ok bool) {
	u, err := uuid.Parse(string(id))
	if err != nil {
		return task.Record{}, 0, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	h, ok := v.handed[u]
	v.dropHanded(u)
	return h.record, h.rev, ok
}

func (v *View) dropHanded(id uuid.UUID) {
	if h, ok := v.handed[id]; ok {
		v.handedSize -= h.size
		delete(v.handed, id)
	}
}

// overtakeHanded drops the record that was handed over for a task of which a
// newer revision was seen.
func (v *View) overtakeHanded(id uuid.UUID, rev uint64) {
	if h, ok := v.handed[id]; ok && h.rev < rev {
		v.dropHanded(id)
	}
}

// forgetHanded drops what a full replay did not show.
func (v *View) forgetHanded() {
	for id := range v.handed {
		if v.tasks[id] == nil {
			v.dropHanded(id)
		}
	}
}
