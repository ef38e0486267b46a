package view

import (
	"time"

	"github.com/belay-run/belay/kv/task"
)

// A queued task stands in its installation's queue once it is due, before
// that among the delayed of all installations.

func (v *View) enqueue(e *entry) {
	now := v.now()
	if e.notBefore > now.UnixMicro() {
		e.delayed = true
		v.delayed.Set(e)
		return
	}
	v.due(e, now)
}

func (v *View) due(e *entry, now time.Time) {
	e.delayed = false
	e.since = now.UnixNano()
	q := v.queues[e.inst]
	if q == nil {
		q = newTree(bySeq)
		v.queues[e.inst] = q
	}
	q.Set(e)
}

func (v *View) dequeue(e *entry) {
	if e.delayed {
		v.delayed.Delete(e)
		return
	}
	q := v.queues[e.inst]
	q.Delete(e)
	if q.Len() == 0 {
		delete(v.queues, e.inst)
	}
}

// promote moves what has become due since the last call.
func (v *View) promote(now time.Time) {
	for {
		e, ok := v.delayed.Min()
		if !ok || e.notBefore > now.UnixMicro() {
			return
		}
		v.delayed.Delete(e)
		v.due(e, now)
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
// and no review whose predecessor runs, up to the installation's cap.
func (v *View) Eligible(perInstallation, total int, skip func(task.ID) bool) map[int64][]Candidate {
	now := v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.promote(now)
	out := map[int64][]Candidate{}
	n := 0
	for inst, q := range v.queues {
		if total > 0 && n >= total {
			break
		}
		limit := min(perInstallation, v.room(inst))
		if limit == 0 || v.isPaused(inst) {
			continue
		}
		if total > 0 {
			limit = min(limit, total-n)
		}
		if cands := v.candidates(inst, q, limit, skip); len(cands) > 0 {
			out[inst] = cands
			n += len(cands)
		}
	}
	return out
}

// Waiting returns the installations with due tasks that are neither paused nor
// at their cap, in no order.
func (v *View) Waiting() []int64 {
	now := v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.promote(now)
	out := make([]int64, 0, len(v.queues))
	for inst := range v.queues {
		if !v.isPaused(inst) && v.room(inst) > 0 {
			out = append(out, inst)
		}
	}
	return out
}

// EligibleOf returns the oldest candidates of one installation, at most limit
// of them; see Eligible.
func (v *View) EligibleOf(installation int64, limit int, skip func(task.ID) bool) []Candidate {
	v.mu.RLock()
	defer v.mu.RUnlock()
	q := v.queues[installation]
	if q == nil || v.isPaused(installation) || v.room(installation) == 0 {
		return nil
	}
	return v.candidates(installation, q, limit, skip)
}

// candidates are the oldest of a queue that may start.
func (v *View) candidates(inst int64, q *tree, limit int, skip func(task.ID) bool) []Candidate {
	var cands []Candidate
	q.Scan(func(e *entry) bool {
		if len(cands) >= limit {
			return false
		}
		id := task.ID(e.id.String())
		if !v.hasSibling(e, task.Running) && !skip(id) {
			cands = append(cands, Candidate{ID: id, InstallationID: inst, Seq: e.seq, Since: time.Unix(0, e.since)})
		}
		return true
	})
	return cands
}

// NextDue returns when the next delayed task becomes due, zero if none is.
func (v *View) NextDue() time.Time {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e, ok := v.delayed.Min()
	if !ok {
		return time.Time{}
	}
	return time.UnixMicro(e.notBefore)
}

// OldestQueued returns how long the oldest due task has waited here, 0 if none.
func (v *View) OldestQueued() time.Duration {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var first int64
	for _, q := range v.queues {
		if e, ok := q.Min(); ok && (first == 0 || e.since < first) {
			first = e.since
		}
	}
	if first == 0 {
		return 0
	}
	return v.now().Sub(time.Unix(0, first))
}
