package view

import (
	"time"

	"github.com/belay-run/belay/kv/task"
)

// queue holds one installation's queued tasks: those that are due by age,
// the others by when they become due.
type queue struct {
	due     *tree
	delayed *tree
}

func (v *View) enqueue(e *entry) {
	q := v.queues[e.inst]
	if q == nil {
		q = &queue{due: newTree(bySeq), delayed: newTree(byDue)}
		v.queues[e.inst] = q
	}
	now := v.now()
	if e.notBefore > now.UnixMicro() {
		e.delayed = true
		q.delayed.Set(e)
		return
	}
	e.since = now.UnixNano()
	q.due.Set(e)
}

func (v *View) dequeue(e *entry) {
	q := v.queues[e.inst]
	if e.delayed {
		q.delayed.Delete(e)
	} else {
		q.due.Delete(e)
	}
	if q.due.Len() == 0 && q.delayed.Len() == 0 {
		delete(v.queues, e.inst)
	}
}

// promote moves what has become due since the last call.
func (v *View) promote(now time.Time) {
	for _, q := range v.queues {
		for {
			e, ok := q.delayed.Min()
			if !ok || e.notBefore > now.UnixMicro() {
				break
			}
			q.delayed.Delete(e)
			e.delayed = false
			e.since = now.UnixNano()
			q.due.Set(e)
		}
	}
}

// Candidate is a queued task that may start by all that the view knows.
type Candidate struct {
	ID             task.ID
	InstallationID int64
	Seq            uint64
	// Since is when it became eligible by the local clock.
	Since time.Time
}

// Eligible returns, for each installation with eligible work, its oldest
// candidates, at most perInstallation of them and no more than total in all
// (0: no bound). Queued tasks count that are due, not paused, not skipped,
// and no review whose predecessor runs.
func (v *View) Eligible(perInstallation, total int, skip func(task.ID) bool) map[int64][]Candidate {
	now := v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.promote(now)
	out := map[int64][]Candidate{}
	n := 0
	for inst, q := range v.queues {
		if v.isPaused(inst) {
			continue
		}
		q.due.Scan(func(e *entry) bool {
			if total > 0 && n >= total || len(out[inst]) >= perInstallation {
				return false
			}
			id := task.ID(e.id.String())
			if v.hasSibling(e, task.Running) || skip(id) {
				return true
			}
			out[inst] = append(out[inst], Candidate{ID: id, InstallationID: inst, Seq: e.seq, Since: time.Unix(0, e.since)})
			n++
			return true
		})
	}
	return out
}

// NextDue returns when the next delayed task becomes due, zero if none is.
func (v *View) NextDue() time.Time {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var first int64
	for _, q := range v.queues {
		if e, ok := q.delayed.Min(); ok && (first == 0 || e.notBefore < first) {
			first = e.notBefore
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return time.UnixMicro(first)
}

// OldestQueued returns how long the oldest due task has waited here, 0 if none.
func (v *View) OldestQueued() time.Duration {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var first int64
	for _, q := range v.queues {
		if e, ok := q.due.Min(); ok && (first == 0 || e.since < first) {
			first = e.since
		}
	}
	if first == 0 {
		return 0
	}
	return v.now().Sub(time.Unix(0, first))
}
