package view

import (
	"math"
	"strconv"

	"github.com/google/uuid"

	"github.com/belay-run/belay/kv/task"
)

// seat is one attempt of a task that counts against its installation's cap;
// n is 0 while this process is claiming it.
type seat struct {
	id uuid.UUID
	n  int32
}

// Why a seat counts, and that it does not any more: seatOver is what this
// process knows of its own attempt before the watch shows it.
const (
	seatEntry byte = 1 << iota
	seatRunning
	seatClaim
	seatOver
)

// load is what runs of one installation, over all processes: what holds a
// place in the bucket, what runs by its record, and what is claimed here.
type load struct {
	seats map[seat]byte
	over  int

	entries []task.Slot
	rev     uint64 // of the entries
	gen     uint32
	closed  bool // the entries cannot be read: nothing may start
}

func (v *View) loadOf(inst int64) *load {
	l := v.loads[inst]
	if l == nil {
		l = &load{seats: map[seat]byte{}}
		v.loads[inst] = l
	}
	return l
}

func (l *load) set(s seat, why byte) {
	if why == seatOver && l.seats[s]&seatOver == 0 {
		if l.seats[s] == 0 {
			return // it counts no more as it is
		}
		l.over++
	}
	l.seats[s] |= why
}

func (l *load) clear(s seat, why byte) {
	was, ok := l.seats[s]
	switch left := was &^ why; {
	case !ok:
	case left&^seatOver != 0:
		l.seats[s] = left
	default:
		if was&seatOver != 0 {
			l.over--
		}
		delete(l.seats, s)
	}
}

// count is how many seats are taken.
func (l *load) count() int { return len(l.seats) - l.over }

// seatOf is where a running record sits.
func (e *entry) seatOf() seat {
	if e.result == nil || e.result.holder.N == 0 {
		return seat{e.id, e.attempts}
	}
	return seat{e.id, int32(e.result.holder.N)}
}

func (v *View) sit(e *entry) { v.loadOf(e.inst).set(e.seatOf(), seatRunning) }

func (v *View) rise(e *entry) {
	v.loadOf(e.inst).clear(e.seatOf(), seatRunning)
	v.dropLoad(e.inst)
}

// dropLoad forgets an installation of which nothing runs and no cap is known.
func (v *View) dropLoad(inst int64) {
	if l := v.loads[inst]; l != nil && len(l.seats) == 0 && l.rev == 0 {
		delete(v.loads, inst)
	}
}

func (v *View) applySlots(rest string, u update) {
	inst, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return
	}
	l := v.loadOf(inst)
	if u.rev < l.rev {
		return
	}
	var s task.Slots
	if !u.deleted {
		if err := task.Decode(u.value, &s, &s.V); err != nil {
			v.poisoned(u, err)
			l.rev, l.gen, l.closed = u.rev, v.gen, true
			return
		}
	}
	delete(v.poison, u.key)
	v.setSlots(l, s, u.rev)
}

func (v *View) setSlots(l *load, s task.Slots, rev uint64) {
	l.rev, l.gen, l.closed = rev, v.gen, false
	for _, e := range l.entries {
		if st, ok := seatAt(e); ok {
			l.clear(st, seatEntry)
		}
	}
	l.entries = s.Entries
	for _, e := range l.entries {
		if st, ok := seatAt(e); ok {
			l.set(st, seatEntry)
		}
		v.sawBoot(e.Boot)
	}
}

func seatAt(s task.Slot) (seat, bool) {
	id, err := uuid.Parse(string(s.Task))
	return seat{id, int32(s.Attempt)}, err == nil
}

// forgetSlots drops the places that a full replay did not show.
func (v *View) forgetSlots() {
	for inst, l := range v.loads {
		if l.gen != v.gen && (l.rev > 0 || len(l.entries) > 0 || l.closed) {
			v.setSlots(l, task.Slots{}, 0)
			v.dropLoad(inst)
		}
	}
}

// SetLimits says how many tasks of an installation may run at once, 0 for no
// limit. It is asked under the view's lock, anew each time.
func (v *View) SetLimits(limit func(installation int64) int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.limit = limit
}

// room is how many more tasks of an installation may start by all that is
// known here. Only the compare-and-set of its slots decides.
func (v *View) room(inst int64) int {
	if v.limit == nil {
		return math.MaxInt
	}
	limit, l := v.limit(inst), v.loads[inst]
	switch {
	case limit <= 0:
		return math.MaxInt
	case l == nil:
		return limit
	case l.closed:
		return 0
	}
	return max(0, limit-l.count())
}

// SawSlots tells the view what the leader has under slots.<installation>;
// claims are the tasks that were given a place of it for this process.
func (v *View) SawSlots(installation int64, s task.Slots, rev uint64, claims []task.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.loadOf(installation)
	if rev >= l.rev {
		v.setSlots(l, s, rev)
	}
	for _, id := range claims {
		v.unclaim(installation, id)
	}
}

// Claim counts a task that this process is about to claim, until Unclaim or
// until SawSlots shows its place.
func (v *View) Claim(installation int64, id task.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if u, err := uuid.Parse(string(id)); err == nil {
		v.loadOf(installation).set(seat{u, 0}, seatClaim)
	}
}

// Unclaim ends Claim; it may be called again.
func (v *View) Unclaim(installation int64, id task.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unclaim(installation, id)
}

func (v *View) unclaim(inst int64, id task.ID) {
	l := v.loads[inst]
	if u, err := uuid.Parse(string(id)); err == nil && l != nil {
		l.clear(seat{u, 0}, seatClaim)
		v.dropLoad(inst)
	}
}

// Over tells the view that an attempt of this process has ended, before the
// watch does.
func (v *View) Over(installation int64, s task.Slot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if st, ok := seatAt(s); ok && v.loads[installation] != nil {
		v.loads[installation].set(st, seatOver)
	}
}

// RunningOf returns the attempts of an installation that run by their records.
func (v *View) RunningOf(installation int64) []task.Slot {
	v.mu.RLock()
	defer v.mu.RUnlock()
	l := v.loads[installation]
	if l == nil {
		return nil
	}
	var out []task.Slot
	for s, why := range l.seats {
		if why&seatRunning != 0 && why&seatOver == 0 {
			out = append(out, task.Slot{Task: task.ID(s.id.String()), Attempt: int(s.n)})
		}
	}
	return out
}

// HeldSlot is a place under the cap of an installation.
type HeldSlot struct {
	InstallationID int64
	task.Slot
}

// StaleSlots returns the places of attempts that do not run by their records
// and that nobody will give back: of dead boots, of my own that mine does not
// list, and, if alone, of every other boot.
func (v *View) StaleSlots(alone bool, mine func(task.Slot) bool) []HeldSlot {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []HeldSlot
	for inst, l := range v.loads {
		for _, s := range l.entries {
			w := v.workers[s.Boot]
			switch {
			case v.runs(s):
			case s.Boot == v.self && mine(s):
			case s.Boot != v.self && !alone && (w == nil || !w.dead()):
			default:
				out = append(out, HeldSlot{inst, s})
			}
		}
	}
	return out
}

// runs reports whether a slot's attempt runs by its record.
func (v *View) runs(s task.Slot) bool {
	e := v.byID(s.Task)
	return e != nil && e.state() == task.Running && e.result != nil && e.result.holder.N == s.Attempt && e.result.holder.Boot == s.Boot
}

// HasSlot reports whether an attempt holds a place.
func (v *View) HasSlot(installation int64, s task.Slot) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	l, st := v.loads[installation], seat{}
	if l == nil {
		return false
	}
	st, ok := seatAt(s)
	return ok && l.seats[st]&seatEntry != 0
}

// AtLimit returns how many installations may start no further task because
// of their cap.
func (v *View) AtLimit() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n := 0
	for inst := range v.loads {
		if v.room(inst) == 0 {
			n++
		}
	}
	return n
}
