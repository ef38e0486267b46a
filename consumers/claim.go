package consumers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	rand2 "math/rand/v2"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// maxProbe bounds the tokens that one idle probe acknowledges.
const maxProbe = 5000

// dispatch starts claimers while there is work and a free slot.
func (w *Worker) dispatch(ctx context.Context) {
	probe := time.NewTicker(w.o.ProbeEvery)
	defer probe.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		w.checkRuns()
		timer.Reset(w.spawn(ctx))
		select {
		case <-ctx.Done():
		case <-w.o.View.Changed():
		case <-w.free:
		case <-timer.C:
		case <-probe.C:
			w.probe(ctx)
		}
	}
}

// spawn starts the claimers that rule 9 allows and returns when to look again
// though nothing changes.
func (w *Worker) spawn(ctx context.Context) time.Duration {
	c := crowd{workers: w.workers()}
	w.mu.Lock()
	free := w.o.Concurrency - w.used
	before, empty := w.claimers, w.emptyPull
	w.mu.Unlock()
	if free > 0 {
		want := 0
		fresh := false
		now := w.o.Now()
		for _, cands := range w.o.View.Eligible(free+before, free+before, w.busy()) {
			want += len(cands)
			for _, cand := range cands {
				ripe := c.workers <= 1 || now.Sub(cand.Since) >= 2*w.sched.wait(c, cand.ID)
				fresh = fresh || ripe || cand.Since.After(empty)
			}
		}
		for n := min(free, want-before); fresh && n > 0; n-- {
			w.startClaimer(ctx)
		}
	}
	next := w.o.ProbeEvery
	if c.workers > 1 {
		next = grace // ripening is not announced by a change
	}
	if due := w.o.View.NextDue(); !due.IsZero() {
		next = min(next, max(due.Sub(w.o.Now()), time.Millisecond))
	}
	return next
}

// workers is how many processes claim from the same queue.
func (w *Worker) workers() int {
	if w.o.Alone {
		return 1
	}
	return w.o.View.LiveWorkers()
}

func (w *Worker) startClaimer(ctx context.Context) {
	if w.reserve() {
		w.pulling.Go(func() { w.claimOne(ctx) })
	}
}

// reserve takes a slot for a claimer, false if none is free. The slot is held
// through the claim and the run (DT-67).
func (w *Worker) reserve() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.used >= w.o.Concurrency {
		return false
	}
	w.used++
	w.claimers++
	return true
}

// giveUp returns the slot of a claimer that started nothing or of a run that
// ended.
func (w *Worker) giveUp() {
	w.mu.Lock()
	w.used--
	w.mu.Unlock()
	w.signal()
}

// probe is rule 18: with a free slot, one claim is tried though nothing is
// known to be eligible, and again while tokens are acknowledged.
func (w *Worker) probe(ctx context.Context) {
	if !w.reserve() {
		return
	}
	w.pulling.Go(func() {
		for n := 0; w.claimOne(ctx) && n < maxProbe && ctx.Err() == nil; n++ {
			if !w.reserve() {
				return
			}
		}
	})
}

// claimOne pulls a token, picks a task, claims it and settles the token. It
// reports whether the token was acknowledged as of no use.
func (w *Worker) claimOne(ctx context.Context) (stale bool) {
	picked := false
	tok, err := w.tokens.pull(ctx)
	w.pulled(tok, err)
	own, stale := w.inspect(ctx, tok)
	var started *run
	for started == nil && ctx.Err() == nil {
		cand, ok := w.pick(tok != nil, own, &picked)
		if !ok {
			break
		}
		started = w.claim(ctx, cand)
	}
	w.unpick(&picked)
	if started == nil {
		w.giveUp()
		return w.settle(tok, own, stale)
	}
	tok.ack()
	return stale
}

// settle gives back a token with which nothing was started (rule 14): its
// task is still to be done, or the token is of no use.
func (w *Worker) settle(tok *token, own task.ID, stale bool) bool {
	if tok == nil || stale {
		return stale
	}
	if s, ok := w.o.View.Standing(own); ok && s.State != task.Queued {
		tok.ack()
		return true
	}
	tok.nak(time.Second + time.Duration(rand2.Int64N(int64(time.Second))))
	return false
}

// unpick ends a claimer's time before its pick, once.
func (w *Worker) unpick(picked *bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unpickLocked(picked)
}

func (w *Worker) unpickLocked(picked *bool) {
	if !*picked {
		*picked = true
		w.claimers--
	}
}

// pulled notes the answer to a pull.
func (w *Worker) pulled(tok *token, err error) {
	w.mu.Lock()
	if err == nil {
		w.lastPull = w.o.Now()
		if tok == nil {
			w.emptyPull = w.o.Now()
		}
	}
	w.mu.Unlock()
	w.met.pulled(tok != nil, err)
	if err != nil && !errors.Is(err, context.Canceled) {
		w.log.Warn("pull failed, going on without a token", "class", "pull", "err", err)
	}
}

// inspect is rule 11: a token that is of no use is acknowledged now, and
// stays a token. It returns the token's task.
func (w *Worker) inspect(ctx context.Context, tok *token) (own task.ID, stale bool) {
	if tok == nil {
		return "", false
	}
	if tok.err != nil {
		w.log.Error("message cannot be decoded and is acknowledged", "class", "poison", "seq", tok.seq, "err", tok.err)
		w.met.poison.Inc()
		w.audit("poison", "", "", tok.err.Error())
		tok.ack()
		return "", true
	}
	own = tok.delivery.Task.ID
	s, known := w.o.View.Standing(own)
	if !known {
		s, known = w.look(ctx, tok)
	}
	if known && (s.State != task.Queued || s.Seq != tok.seq) {
		tok.ack()
		w.met.stale.Inc()
		return own, true
	}
	return own, false
}

// look asks the leader about a task that the view does not know, and admits
// it if there is no record.
func (w *Worker) look(ctx context.Context, tok *token) (view.Standing, bool) {
	inst, id := tok.delivery.InstallationID, tok.delivery.Task.ID
	r, _, err := w.o.Store.Get(ctx, inst, id)
	if errors.Is(err, kv.ErrNotFound) {
		if err := w.o.Admitter.Admit(ctx, tok.delivery, tok.seq); err != nil {
			w.log.Warn("admit failed, the message stays", "class", "admit", "task_id", id, "err", err)
			return view.Standing{}, false
		}
		r, _, err = w.o.Store.Get(ctx, inst, id)
	}
	if err != nil {
		return view.Standing{}, false
	}
	return view.Standing{State: r.State, Seq: r.DeliverySeq, InstallationID: inst}, true
}

// pick chooses a task and marks it as being claimed here, in one step.
func (w *Worker) pick(token bool, own task.ID, picked *bool) (view.Candidate, bool) {
	c := crowd{workers: w.workers()}
	w.mu.Lock()
	defer w.mu.Unlock()
	skip := func(id task.ID) bool { _, r := w.running[id]; return r || w.claiming[id] }
	by := w.o.View.Eligible(c.k(), 0, skip)
	cand, ok := w.sched.pick(w.o.Now(), by, c, token, own)
	if ok {
		w.claiming[cand.ID] = true
		w.unpickLocked(picked)
	}
	return cand, ok
}

// claim makes one task mine by CAS; nil if it is not to be had.
func (w *Worker) claim(ctx context.Context, cand view.Candidate) *run {
	defer func() {
		w.mu.Lock()
		delete(w.claiming, cand.ID)
		w.mu.Unlock()
	}()
	w.o.Hooks.call(func(h *Hooks) func(task.ID) { return h.Picked }, cand.ID)
	rec, rev, err := w.o.Store.Get(ctx, cand.InstallationID, cand.ID)
	if err != nil {
		w.claimFailed(ctx, cand, err)
		return nil
	}
	if !rec.Due(w.o.Now()) {
		w.met.lost.Inc()
		w.settleView(ctx)
		return nil
	}
	if w.overtaken(ctx, rec, rev) {
		return nil
	}
	nonce := newNonce()
	claimed, err := rec.Claim(w.o.Name, w.o.Boot, nonce, w.o.Now())
	if err != nil {
		return nil
	}
	r := &run{
		id: rec.ID, inst: rec.InstallationID, record: claimed,
		holder: task.Holder{N: claimed.Attempts, Boot: w.o.Boot, Nonce: nonce},
	}
	return w.take(ctx, r, rev)
}

// take writes the claim. The running table knows it before the record does,
// so that a beat in between never takes my own claim for an orphan.
func (w *Worker) take(ctx context.Context, r *run, rev uint64) *run {
	w.mu.Lock()
	w.running[r.id] = r
	w.mu.Unlock()
	w.o.Hooks.call(func(h *Hooks) func(task.ID) { return h.BeforeClaim }, r.id)
	nrev, err := w.o.Store.Update(ctx, r.record, rev)
	if errors.Is(err, kv.ErrUnknown) {
		nrev, err = w.reread(r)
	}
	if err != nil {
		w.mu.Lock()
		delete(w.running, r.id)
		w.mu.Unlock()
		w.met.lost.Inc()
		w.settleView(ctx)
		return nil
	}
	r.rev = nrev
	w.met.claims.Inc()
	w.met.waited(r.record, w.o.Now())
	w.working.Add(1)
	go w.execute(r)
	return r
}

// reread settles a claim whose answer was lost: mine only by its nonce.
func (w *Worker) reread(r *run) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
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
	}
}

// overtaken is rule 13's check of the pointer: a review that lost its key
// while it was queued is superseded, not run.
func (w *Worker) overtaken(ctx context.Context, rec task.Record, rev uint64) bool {
	k, ok := rec.Key()
	if !ok || rec.Commander != "" {
		return false
	}
	p, _, err := w.o.Store.Pointer(ctx, k)
	if err != nil || p == nil || p.Task == rec.ID {
		return false
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

// claimFailed handles a record that cannot be read for a claim.
func (w *Worker) claimFailed(ctx context.Context, cand view.Candidate, err error) {
	w.log.Warn("record cannot be read, not claimed", "class", "claim", "task_id", cand.ID, "err", err)
	w.settleView(ctx)
}

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
