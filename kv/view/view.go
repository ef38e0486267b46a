package view

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/google/uuid"

	"github.com/belay-run/belay/kv/task"
)

// View is the read model. All methods are safe for concurrent use.
type View struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.RWMutex
	tasks   map[uuid.UUID]*entry
	lists   map[scope]*tree
	places  map[scope][]int64 // the installations that have lists of a kind and name
	queues  map[int64]*tree   // due, by installation
	delayed *tree
	running map[uuid.UUID]*entry
	groups  map[group][]*entry // of the queued and running tasks
	counts  map[task.State]int
	usage   *usages
	workers map[task.BootID]*worker
	loads   map[int64]*load // what runs, by installation
	limit   func(installation int64) int
	paused  map[string]uint32 // by generation
	poison  map[string]uint32 // by generation

	tombs       map[uuid.UUID]tomb
	tombTTL     time.Duration
	uninstalled map[string]uint32 // by generation
	replies     *replies
	self        task.BootID
	parked      func(installation int64) bool
	handed      map[uuid.UUID]handed
	handedSize  int

	rev       uint64    // the last one seen
	gen       uint32    // of full replays
	created   time.Time // of the stream
	heard     time.Time // the watch, last
	synced    bool
	replaying bool // in full, not caught up yet

	changed chan struct{}
	reopen  chan struct{}
}

// New makes an empty view. now is the local clock.
func New(log *slog.Logger, now func() time.Time) *View {
	v := &View{log: log, now: now, changed: make(chan struct{}, 1), reopen: make(chan struct{}, 1)}
	v.reset()
	return v
}

func (v *View) reset() {
	v.tasks = map[uuid.UUID]*entry{}
	v.lists = map[scope]*tree{}
	v.places = map[scope][]int64{}
	v.queues = map[int64]*tree{}
	v.delayed = newTree(byDue)
	v.running = map[uuid.UUID]*entry{}
	v.groups = map[group][]*entry{}
	v.counts = map[task.State]int{}
	v.usage = newUsages()
	v.workers = map[task.BootID]*worker{}
	v.loads = map[int64]*load{}
	v.paused = map[string]uint32{}
	v.poison = map[string]uint32{}
	v.tombs = map[uuid.UUID]tomb{}
	v.uninstalled = map[string]uint32{}
	v.replies = newReplies()
	v.handed = map[uuid.UUID]handed{}
}

// Changed signals, at most once until it is received, that something changed.
func (v *View) Changed() <-chan struct{} { return v.changed }

// Wake makes Changed signal.
func (v *View) Wake() {
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// update is one change of a key, as the watch brings it.
type update struct {
	key     string
	value   []byte
	rev     uint64
	deleted bool
}

// apply takes one change over; older ones than what is known are ignored.
func (v *View) apply(u update) {
	kind, rest, _ := strings.Cut(u.key, ".")
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rev = max(v.rev, u.rev)
	v.heard = v.now()
	switch kind {
	case "task":
		v.applyTask(rest, u)
		v.applyIntents(rest, u)
	case "outbox":
		v.applyOutbox(rest, u)
	case "worker":
		v.applyWorker(task.BootID(rest), u)
	case "slots":
		v.applySlots(rest, u)
	case "control":
		v.applyControl(rest, u)
	case "installation":
		v.applyInstallation(rest, u)
	}
}

func (v *View) applyTask(rest string, u update) {
	inst, tail, _ := strings.Cut(rest, ".")
	id, err := uuid.Parse(tail)
	if err != nil || id.String() != tail {
		v.poisoned(u, fmt.Errorf("%w: key names no task", task.ErrCorrupt))
		return
	}
	v.overtakeHanded(id, u.rev)
	old := v.tasks[id]
	if old != nil && old.rev > u.rev {
		return
	}
	if u.deleted {
		v.remove(old)
		delete(v.poison, u.key)
		delete(v.tombs, id)
		return
	}
	if old != nil && old.rev == u.rev {
		old.gen = v.gen
		return
	}
	s, err := decode(u.value, inst, tail)
	if err != nil {
		v.remove(old)
		v.poisoned(u, err)
		return
	}
	delete(v.poison, u.key)
	v.remove(old)
	if s.Tombstone {
		v.entomb(id, &s)
		return
	}
	delete(v.tombs, id)
	e := s.entry(id, u.rev)
	e.gen = v.gen
	v.insert(e)
}

// poisoned keeps a record that cannot be read out of everything but the
// count of such records; it fails alone and is left as it is.
func (v *View) poisoned(u update, err error) {
	if u.deleted {
		delete(v.poison, u.key)
		return
	}
	if _, known := v.poison[u.key]; !known {
		v.log.Error("record cannot be read and is left alone", "key", u.key, "revision", u.rev, "err", err)
	}
	v.poison[u.key] = v.gen
}

func (v *View) insert(e *entry) {
	v.tasks[e.id] = e
	v.counts[e.state()]++
	v.usage.count(e, 1)
	var in [4]scope
	for _, s := range e.scopes(in[:0]) {
		t := v.lists[s]
		if t == nil {
			t = newTree(byList)
			v.lists[s] = t
			v.place(s)
		}
		t.Set(e)
	}
	switch e.state() {
	case task.Queued:
		v.enqueue(e)
		v.join(e)
	case task.Running:
		v.running[e.id] = e
		v.join(e)
		v.sit(e)
		v.sawHolder(e)
	}
}

func (v *View) remove(e *entry) {
	if e == nil {
		return
	}
	delete(v.tasks, e.id)
	v.counts[e.state()]--
	v.usage.count(e, -1)
	var in [4]scope
	for _, s := range e.scopes(in[:0]) {
		t := v.lists[s]
		t.Delete(e)
		if t.Len() == 0 {
			delete(v.lists, s)
			v.displace(s)
		}
	}
	switch e.state() {
	case task.Queued:
		v.dequeue(e)
		v.leave(e)
	case task.Running:
		delete(v.running, e.id)
		v.leave(e)
		v.rise(e)
	}
}

func (v *View) applyControl(rest string, u update) {
	what, of, _ := strings.Cut(rest, ".")
	if what != "pause" {
		return
	}
	// Whatever the value says, even garbage: a pause that cannot be read counts.
	if u.deleted {
		delete(v.paused, of)
	} else {
		v.paused[of] = v.gen
	}
}

// Find returns the task with an id.
func (v *View) Find(id task.ID) (Item, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e := v.byID(id)
	if e == nil {
		return Item{}, false
	}
	return e.item(), true
}

func (v *View) byID(id task.ID) *entry {
	u, err := uuid.Parse(string(id))
	if err != nil {
		return nil
	}
	return v.tasks[u]
}

// Standing is what a worker needs to know of a task at a glance.
type Standing struct {
	State          task.State
	Revision       uint64
	Seq            uint64
	InstallationID int64
	Holder         task.Holder
	// Overtaken is true for a running review with a queued one under its key.
	Overtaken bool
}

// Standing returns where a task stands, false if the view does not know it.
func (v *View) Standing(id task.ID) (Standing, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e := v.byID(id)
	if e == nil {
		return v.standingOfTomb(id)
	}
	s := Standing{State: e.state(), Revision: e.rev, Seq: e.seq, InstallationID: e.inst}
	if e.result != nil {
		s.Holder = e.result.holder
	}
	s.Overtaken = e.state() == task.Running && e.kind() == task.ReviewPullRequest && v.hasSibling(e, task.Queued)
	return s, true
}

// Counts returns the number of tasks in each state, hidden ones included.
func (v *View) Counts() map[task.State]int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := make(map[task.State]int, len(task.States))
	for _, s := range task.States {
		out[s] = v.counts[s]
	}
	return out
}

// Poisoned returns how many records cannot be read.
func (v *View) Poisoned() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.poison)
}

// SetParked adds what stops claims of an installation in this process alone,
// such as a limit of GitHub. It is asked under the view's lock.
func (v *View) SetParked(parked func(installation int64) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.parked = parked
}

// Paused reports whether claims of an installation are stopped.
func (v *View) Paused(installation int64) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.isPaused(installation)
}

func (v *View) isPaused(installation int64) bool {
	if v.parked != nil && v.parked(installation) {
		return true
	}
	if len(v.paused) == 0 {
		return false
	}
	_, all := v.paused[""]
	_, one := v.paused[formatInt(installation)]
	return all || one
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

func parseInt(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

func intern(s string) unique.Handle[string] { return unique.Make(s) }
