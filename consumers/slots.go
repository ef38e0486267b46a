package consumers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// errCapped means that as many tasks of the installation run as may.
var errCapped = errors.New("the installation is at its cap")

// slots takes the places that attempts need under the cap of their
// installation, and gives them back, by compare-and-set over all processes.
//
// Each installation has a desk. What comes while it writes waits for the next
// write, and goes into it together: givings back first, then takings. So a
// process at its full speed pays a write for many tasks, and one that ends a
// task and begins the next of the same installation pays one for both.
type slots struct {
	store *kv.TaskStore
	view  *view.View
	limit func(installation int64) int
	log   *slog.Logger
	met   *metrics
	life  context.Context

	mu    sync.Mutex
	desks map[int64]*slotDesk
	idle  *sync.Cond // a desk has nothing to do any more
	busy  int
}

// slotDesk is where the places of one installation are asked for.
type slotDesk struct {
	inst  int64
	takes []*taking
	drops []task.Slot
	open  bool // somebody is at it

	// What the bucket holds by the last read or write; of whoever is at it.
	value task.Slots
	rev   uint64
	known bool
}

type taking struct {
	slot   task.Slot
	answer chan error
}

func newSlots(life context.Context, o *Options, met *metrics) *slots {
	s := &slots{store: o.Store, view: o.View, limit: o.Limit, log: o.Logger, met: met, life: life, desks: map[int64]*slotDesk{}}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// capped reports whether attempts of an installation need a place.
func (s *slots) capped(installation int64) bool { return s.limit != nil && s.limit(installation) > 0 }

// take gets a place for an attempt; errCapped if all are taken. After another
// error nobody knows, and the place is given back.
func (s *slots) take(installation int64, slot task.Slot) error {
	t := &taking{slot: slot, answer: make(chan error, 1)}
	s.ask(installation, func(d *slotDesk) { d.takes = append(d.takes, t) })
	return <-t.answer // a desk answers, or its store's deadlines do
}

// drop gives a place back, soon; one that is not held is no error.
func (s *slots) drop(installation int64, slot task.Slot) {
	s.ask(installation, func(d *slotDesk) { d.drops = append(d.drops, slot) })
}

func (s *slots) ask(installation int64, put func(*slotDesk)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.desks[installation]
	if d == nil {
		d = &slotDesk{inst: installation}
		s.desks[installation] = d
	}
	put(d)
	if !d.open {
		d.open = true
		s.busy++
		go s.serve(d)
	}
}

// settle waits until nothing is asked for any more, but not for longer than
// the time given: what is left, another process finds.
func (s *slots) settle(limit time.Duration) {
	late := false
	timer := time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.idle.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy > 0 && !late {
		s.idle.Wait()
	}
}

// serve is at a desk until nobody asks for anything.
func (s *slots) serve(d *slotDesk) {
	for {
		s.mu.Lock()
		takes, drops := d.takes, d.drops
		d.takes, d.drops = nil, nil
		if len(takes) == 0 && len(drops) == 0 {
			d.open = false
			s.busy--
			s.idle.Broadcast()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.round(d, takes, drops)
	}
}

// round decides what was asked for together. Of a write without an answer
// nobody knows: what it was to take is given back by the next one.
func (s *slots) round(d *slotDesk, takes []*taking, drops []task.Slot) {
	want := make([]task.Slot, len(takes))
	for i, t := range takes {
		want[i] = t.slot
	}
	got, err := s.write(d, want, drops)
	for i, t := range takes {
		switch {
		case err != nil:
			t.answer <- err
		case got[i]:
			t.answer <- nil
		default:
			t.answer <- errCapped
		}
	}
	if err == nil {
		return
	}
	d.known = false
	s.met.slots.WithLabelValues("failed").Inc()
	s.log.Warn("places under the cap of an installation could not be written", "class", "slots", "installation", d.inst, "err", err)
	if errors.Is(err, kv.ErrNewer) || errors.Is(err, kv.ErrCorrupt) {
		return // they are left alone
	}
	select {
	case <-s.life.Done():
		return // the next life, or another process, gives them back
	case <-time.After(storeWait):
	}
	s.mu.Lock()
	d.drops = append(append(d.drops, drops...), want...)
	s.mu.Unlock()
}

// write makes the change by compare-and-set, anew from a fresh read when
// another write came between. What was read before answers nobody: either the
// write shows that it still holds, or it is read again.
func (s *slots) write(d *slotDesk, want, drops []task.Slot) ([]bool, error) {
	for fresh := false; ; {
		if !d.known {
			var err error
			if d.value, d.rev, err = s.store.Slots(s.life, d.inst); err != nil {
				return nil, err
			}
			d.known, fresh = true, true
		}
		next, got, changed := d.value.Next(drops, want, s.view.RunningOf(d.inst), s.limitOf(d.inst))
		if refused := count(got) < len(want); !fresh && (refused || !changed) {
			d.known = false
			continue
		}
		if changed {
			rev, err := s.store.SetSlots(s.life, d.inst, next, d.rev)
			if errors.Is(err, kv.ErrConflict) {
				s.met.slots.WithLabelValues("conflict").Inc()
				d.known = false
				continue
			}
			if err != nil {
				return nil, err
			}
			s.met.slots.WithLabelValues("written").Inc()
			d.value, d.rev = next, rev
		}
		s.view.SawSlots(d.inst, d.value, d.rev, tasksOf(want))
		return got, nil
	}
}

// limitOf is the cap in force; none, where it was lifted meanwhile.
func (s *slots) limitOf(installation int64) int {
	if n := s.limit(installation); n > 0 {
		return n
	}
	return int(^uint(0) >> 1)
}

func count(of []bool) int {
	n := 0
	for _, b := range of {
		if b {
			n++
		}
	}
	return n
}

func tasksOf(of []task.Slot) []task.ID {
	out := make([]task.ID, len(of))
	for i, s := range of {
		out[i] = s.Task
	}
	return out
}

// slot is the place of a run.
func (r *run) slot() task.Slot {
	return task.Slot{Task: r.id, Attempt: r.holder.N, Boot: r.holder.Boot}
}

// seat takes the place that a run needs, if its installation has a cap.
func (w *Worker) seat(r *run) error {
	if !w.slots.capped(r.inst) {
		return nil
	}
	r.seatedAt = w.o.Now()
	if err := w.slots.take(r.inst, r.slot()); err != nil {
		return err
	}
	r.seated = true
	return nil
}

// unseat gives a run's place back.
func (w *Worker) unseat(r *run) {
	if r.seated {
		w.o.View.Over(r.inst, r.slot())
		w.slots.drop(r.inst, r.slot())
	}
}

// trustBeats is for how many beats a place is taken for granted that was not
// looked at again: fewer than a process may miss before others give it back.
const trustBeats = 2

// errUnseated ends an attempt whose process stood still between its place and
// its claim, for so long that others gave the place away.
var errUnseated = errors.New("released: the place under the installation's cap was lost before the run began")

// stillSeated looks, before a run begins, whether its place was given away
// while this process stood still.
func (w *Worker) stillSeated(r *run) bool {
	if !r.seated || w.o.Now().Sub(r.seatedAt) < trustBeats*w.o.BeatEvery {
		return true
	}
	held, _, err := w.o.Store.Slots(w.work, r.inst)
	for _, s := range held.Entries {
		if err == nil && s == r.slot() {
			return true
		}
	}
	return w.slots.take(r.inst, r.slot()) == nil
}

// healSlots gives back the places that nobody will (rule 17): of attempts of
// dead processes that do not run, and of my own that I do not know of. alone
// says that every other boot is dead.
func (w *Worker) healSlots(ctx context.Context, alone bool) {
	now, left := w.o.Now(), map[view.HeldSlot]time.Time{}
	for _, h := range w.o.View.StaleSlots(alone, w.seats()) {
		since, known := w.leaked[h]
		if !known {
			since = now
		}
		left[h] = since
		if h.Boot == w.o.Boot && now.Sub(since) < view.MissedBeats*w.o.BeatEvery {
			continue // it may be of a write that is not decided yet
		}
		r, _, err := w.o.Store.Get(ctx, h.InstallationID, h.Task)
		if errors.Is(err, kv.ErrUnknown) {
			continue
		}
		if a := r.Open(); err == nil && r.State == task.Running && a.N == h.Attempt && a.Boot == h.Boot {
			continue // it runs, the view is behind
		}
		w.log.Warn("place under the cap of an installation was left behind", "task_id", h.Task, "attempt", h.Attempt, "boot", h.Boot, "installation", h.InstallationID)
		w.met.healed.Inc()
		w.slots.drop(h.InstallationID, h.Slot)
	}
	w.leaked = left
}

// seats returns a snapshot of the places that this process needs.
func (w *Worker) seats() func(task.Slot) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	running, claiming := map[task.Slot]bool{}, map[task.ID]bool{}
	for _, r := range w.running {
		running[r.slot()] = true
	}
	for id := range w.claiming {
		claiming[id] = true
	}
	return func(s task.Slot) bool { return running[s] || claiming[s.Task] }
}
