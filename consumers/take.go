package consumers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// claim makes one task mine by CAS; nil if it is not to be had.
func (w *Worker) claim(ctx context.Context, cand view.Candidate) *run {
	defer w.claimingOver(cand)
	w.o.Hooks.call(func(h *Hooks) func(task.ID) { return h.Picked }, cand.ID)
	r, err := w.claimHanded(ctx, cand)
	if errors.Is(err, kv.ErrConflict) {
		rec, rev, gerr := w.o.Store.Get(ctx, cand.InstallationID, cand.ID)
		if gerr != nil {
			w.claimFailed(ctx, cand, gerr)
			return nil
		}
		r, err = w.claimAt(ctx, rec, rev)
	}
	switch {
	case errors.Is(err, errCapped):
		w.met.capped.Inc()
	case err != nil:
		w.met.lost.Inc()
		w.settleView(ctx)
	}
	return r
}

// claimHanded claims a task that was admitted here, which need not be read
// again. Whether its record still stands, the compare-and-set says:
// kv.ErrConflict if not, or if there is none, and it is to be read after all.
func (w *Worker) claimHanded(ctx context.Context, cand view.Candidate) (*run, error) {
	rec, rev, ok := w.o.View.Handed(cand.ID)
	if !ok {
		return nil, kv.ErrConflict
	}
	return w.claimAt(ctx, rec, rev)
}

// claimAt claims a task whose record was such at a revision; the error says
// that it is not, or no longer, to be had.
func (w *Worker) claimAt(ctx context.Context, rec task.Record, rev uint64) (*run, error) {
	if !rec.Due(w.o.Now()) {
		return nil, errUntouched
	}
	if w.overtaken(ctx, rec, rev) {
		return nil, nil
	}
	nonce := newNonce()
	claimed, err := rec.Claim(w.o.Name, w.o.Boot, nonce, w.o.Now())
	if err != nil {
		return nil, nil
	}
	r := &run{
		id: rec.ID, inst: rec.InstallationID, record: claimed,
		holder: task.Holder{N: claimed.Attempts, Boot: w.o.Boot, Nonce: nonce},
	}
	_, shown := w.o.View.Standing(rec.ID)
	r.shown.Store(shown)
	if err := w.seat(r); err != nil {
		return nil, err
	}
	w.o.Hooks.call(func(h *Hooks) func(task.ID) { return h.Seated }, r.id)
	return w.take(ctx, r, rev)
}

// take writes the claim. The running table knows it before the record does,
// so that a beat in between never takes my own claim for an orphan.
func (w *Worker) take(ctx context.Context, r *run, rev uint64) (*run, error) {
	// The run outlives the pull context: draining lets it finish.
	r.ctx, r.cancel = context.WithCancelCause(w.work)
	w.mu.Lock()
	mute := w.silentLocked()
	if !mute {
		w.running[r.id] = r
	}
	w.mu.Unlock()
	if mute {
		r.cancel(errLostBeat)
		w.unseat(r)
		return nil, nil
	}
	w.o.Hooks.call(func(h *Hooks) func(task.ID) { return h.BeforeClaim }, r.id)
	nrev, err := w.o.Store.Update(ctx, r.record, rev)
	if errors.Is(err, kv.ErrUnknown) {
		nrev, err = w.reread(r)
	}
	if err != nil {
		w.mu.Lock()
		delete(w.running, r.id)
		w.mu.Unlock()
		r.cancel(err)
		if !errors.Is(err, kv.ErrUnknown) {
			w.unseat(r)
		}
		return nil, err
	}
	w.mu.Lock()
	r.rev = nrev
	w.mu.Unlock()
	w.met.claims.Inc()
	w.met.waited(r.record, w.o.Now())
	w.working.Add(1)
	w.crew.run(func() { w.execute(r) })
	return r, nil
}

// reread settles a claim whose answer was lost: mine only by its nonce.
func (w *Worker) reread(r *run) (uint64, error) {
	ctx, cancel := context.WithTimeout(w.work, rereadTimeout)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		rec, rev, err := w.o.Store.Get(ctx, r.inst, r.id)
		if err == nil && rec.Holds(r.holder) {
			return rev, nil
		}
		if err == nil {
			return 0, kv.ErrConflict
		}
		if !errors.Is(err, kv.ErrUnknown) || ctx.Err() != nil {
			// Whatever happened, rule 5 finds it: the table forgets the claim.
			return 0, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// rereadTimeout bounds how long a claimer looks for its own claim.
const rereadTimeout = 10 * time.Second

// overtaken is rule 13's check of the pointer: a review that lost its key
// while it was queued is superseded, not run.
func (w *Worker) overtaken(ctx context.Context, rec task.Record, rev uint64) bool {
	k, ok := rec.Key()
	if !ok || rec.Commander != "" {
		return false
	}
	p, _, err := w.o.Store.Pointer(ctx, k)
	if err != nil || p == nil {
		return false
	}
	if p.Task == rec.ID {
		return p.Prev != "" && w.waitsFor(ctx, rec, p.Prev)
	}
	s, err := rec.Supersede(task.Holder{}, p.Task, task.ReasonSuperseded, w.o.Now())
	if err != nil {
		return false
	}
	s.BeatenBy = &p.Order
	if _, err := w.o.Store.Update(ctx, s, rev); err != nil {
		w.settleView(ctx)
	}
	return true
}

// waitsFor settles a review's predecessor before the review may start: a
// queued one is superseded, here if admission has not come to it, so that it
// cannot start beside its winner; a running one is waited for.
func (w *Worker) waitsFor(ctx context.Context, rec task.Record, prev task.ID) bool {
	if s, ok := w.o.View.Standing(prev); ok && s.State.Terminal() {
		return false
	}
	p, _, err := w.o.Store.Get(ctx, rec.InstallationID, prev)
	if err == nil && p.State == task.Queued {
		err = w.o.Admitter.supersedeQueued(ctx, rec.InstallationID, prev, rec.ID, task.ReasonSuperseded, func(task.Record) bool { return true })
		if err == nil {
			p, _, err = w.o.Store.Get(ctx, rec.InstallationID, prev)
		}
	}
	switch {
	case errors.Is(err, kv.ErrNotFound), errors.Is(err, kv.ErrNewer), errors.Is(err, kv.ErrCorrupt):
		return false
	case err == nil && p.State.Terminal():
		return false
	}
	w.settleView(ctx)
	return true
}

// claimFailed handles a record that cannot be read for a claim.
func (w *Worker) claimFailed(ctx context.Context, cand view.Candidate, err error) {
	w.log.Warn("record cannot be read, not claimed", "class", "claim", "task_id", cand.ID, "err", err)
	if !errors.Is(err, kv.ErrUnknown) {
		w.settleView(ctx)
		return
	}
	select { // the store does not answer: do not ask it in a tight loop
	case <-ctx.Done():
	case <-time.After(storeWait):
	}
}

// storeWait is the pause after a read that was not answered.
const storeWait = 250 * time.Millisecond

// settleView gives the view a moment to catch up with what the leader said,
// so that a stale candidate is not picked in a tight loop.
func (w *Worker) settleView(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// NewBoot makes the id of this life of the process.
func NewBoot() task.BootID { return task.BootID(newNonce()) }
