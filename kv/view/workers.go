package view

import (
	"time"

	"github.com/belay-run/belay/kv/task"
)

// MissedBeats is how many of my own beats must come through the watch since
// another boot's last one before it counts as dead (DESIGN §7 rule 4).
const MissedBeats = 6

// worker is what the watch showed of one boot. No clocks are compared: its
// silence is counted in beats of this process that came the same way.
type worker struct {
	rev    uint64
	missed int
	gone   bool // purged: a clean stop
	seenAt time.Time
}

// SetSelf tells the view which boot's beats are its own.
func (v *View) SetSelf(boot task.BootID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.self = boot
}

func (v *View) applyWorker(boot task.BootID, u update) {
	w := v.workers[boot]
	if w == nil {
		w = &worker{}
		v.workers[boot] = w
	}
	if u.rev <= w.rev {
		return
	}
	w.rev, w.missed, w.gone, w.seenAt = u.rev, 0, u.deleted, v.now()
	if boot != v.self || u.deleted {
		return
	}
	for b, o := range v.workers {
		if b != boot {
			o.missed++
		}
	}
	v.forgetDead()
}

// sawHolder starts to count for a boot of which only a running task is known.
func (v *View) sawHolder(e *entry) {
	if e.result != nil && e.result.holder.Boot != "" {
		v.sawBoot(e.result.holder.Boot)
	}
}

func (v *View) sawBoot(boot task.BootID) {
	if v.workers[boot] == nil {
		v.workers[boot] = &worker{seenAt: v.now()}
	}
}

// forgetDead drops boots that are dead and hold nothing.
func (v *View) forgetDead() {
	holds := map[task.BootID]bool{}
	for _, e := range v.running {
		if e.result != nil {
			holds[e.result.holder.Boot] = true
		}
	}
	for _, l := range v.loads {
		for _, s := range l.entries {
			holds[s.Boot] = true
		}
	}
	for b, w := range v.workers {
		if b != v.self && !holds[b] && w.dead() {
			delete(v.workers, b)
		}
	}
}

func (w *worker) dead() bool { return w.gone || w.missed >= MissedBeats }

// OwnBeat returns the newest revision of my own beat that came through the
// watch, and when.
func (v *View) OwnBeat() (rev uint64, at time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	w := v.workers[v.self]
	if w == nil {
		return 0, time.Time{}
	}
	return w.rev, w.seenAt
}

// LiveWorkers counts the boots that beat, myself included.
func (v *View) LiveWorkers() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n := 0
	for b, w := range v.workers {
		if b == v.self || !w.dead() {
			n++
		}
	}
	return max(n, 1)
}

// Orphan is a running task that nobody holds any more.
type Orphan struct {
	ID             task.ID
	InstallationID int64
	Revision       uint64
	Holder         task.Holder
}

// Orphans returns the running tasks of dead boots, those of my own boot that
// mine does not list, and, if alone, those of every other boot.
func (v *View) Orphans(alone bool, mine func(task.ID) bool) []Orphan {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []Orphan
	for _, e := range v.running {
		if e.result == nil {
			continue
		}
		h := e.result.holder
		id := task.ID(e.id.String())
		if h.Boot == v.self {
			if mine(id) {
				continue
			}
		} else if w := v.workers[h.Boot]; !alone && (w == nil || !w.dead()) {
			continue
		}
		out = append(out, Orphan{ID: id, InstallationID: e.inst, Revision: e.rev, Holder: h})
	}
	return out
}
