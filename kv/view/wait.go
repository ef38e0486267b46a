package view

import "github.com/belay-run/belay/kv/task"

// Wait says why a queued task has not begun, "" for one that does not wait.
type Wait string

// The reasons, of which the first that holds is given.
const (
	// WaitDue: it is not to begin before a time.
	WaitDue Wait = "not_before"
	// WaitPaused: claims are paused, or a limit of GitHub stops them here.
	WaitPaused Wait = "paused"
	// WaitPredecessor: another task of its group runs.
	WaitPredecessor Wait = "predecessor"
	// WaitCap: its installation has as many running as it may.
	WaitCap Wait = "at_cap"
	// WaitWorker: no worker process gives a sign of life.
	WaitWorker Wait = "no_worker"
	// WaitTurn: others are before it.
	WaitTurn Wait = "turn"
)

// Waits lists every Wait.
var Waits = []Wait{WaitDue, WaitPaused, WaitPredecessor, WaitCap, WaitWorker, WaitTurn}

// Waits says why a task waits, by all that is known here.
func (v *View) Waits(id task.ID) Wait {
	now := v.now()
	v.mu.RLock()
	defer v.mu.RUnlock()
	e := v.byID(id)
	switch {
	case e == nil || e.state() != task.Queued:
		return ""
	case e.notBefore > now.UnixMicro():
		return WaitDue
	case v.isPaused(e.inst):
		return WaitPaused
	case v.hasSibling(e, task.Running):
		return WaitPredecessor
	case v.room(e.inst) == 0:
		return WaitCap
	case !v.anyWorker():
		return WaitWorker
	}
	return WaitTurn
}

func (v *View) anyWorker() bool {
	for _, w := range v.workers {
		if !w.dead() {
			return true
		}
	}
	return false
}
