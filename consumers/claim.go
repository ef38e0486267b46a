package consumers

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// claimOne waits for its token, picks a task, claims it and settles the token.
// It reports whether the token was acknowledged as of no use.
func (w *Worker) claimOne(ctx context.Context, wait *waiter) (stale bool) {
	picked := false
	tok, err := w.tokens.wait(ctx, wait)
	w.pulled(tok, err)
	own, unseen, stale := w.inspect(ctx, tok)
	started := w.pickAndClaim(ctx, tok != nil, own, &picked)
	if started == nil && unseen != nil && w.markClaiming(*unseen) {
		started = w.claim(ctx, *unseen)
	}
	w.unpick(&picked)
	if started == nil {
		w.giveUp()
		return w.settle(ctx, tok, own, stale)
	}
	tok.ack()
	return stale
}

// maxPicks bounds the picks of one claimer, so that candidates that only a
// stale view knows cannot hold its slot for ever.
const maxPicks = 20

func (w *Worker) pickAndClaim(ctx context.Context, token bool, own task.ID, picked *bool) *run {
	for n := 0; n < maxPicks && ctx.Err() == nil; n++ {
		cand, ok := w.pick(token, own, picked)
		if !ok {
			return nil
		}
		if r := w.claim(ctx, cand); r != nil {
			return r
		}
	}
	return nil
}

// markClaiming marks a task as being claimed here, false if it is already.
func (w *Worker) markClaiming(c view.Candidate) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busyLocked(c.ID) {
		return false
	}
	w.claimingLocked(c)
	return true
}

func (w *Worker) busyLocked(id task.ID) bool {
	_, running := w.running[id]
	return running || w.claiming[id]
}

func (w *Worker) claimingLocked(c view.Candidate) {
	w.claiming[c.ID] = true
	w.o.View.Claim(c.InstallationID, c.ID)
}

// claimingOver ends a claim, won or lost.
func (w *Worker) claimingOver(c view.Candidate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.claiming, c.ID)
	w.o.View.Unclaim(c.InstallationID, c.ID)
}

// settle gives back a token with which nothing was started (rule 14): its
// task is still to be done, or the token is of no use. A process that stops
// gives it back at once.
func (w *Worker) settle(ctx context.Context, tok *token, own task.ID, stale bool) bool {
	if tok == nil || stale {
		return stale
	}
	if ctx.Err() != nil {
		tok.nak(0)
		return false
	}
	if s, ok := w.o.View.Standing(own); ok && s.State != task.Queued {
		tok.ack()
		return true
	}
	tok.nak(time.Second + time.Duration(rand.Int64N(int64(time.Second))))
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
// stays a token. It returns the token's task, and that also as a candidate
// when the view does not come to know it (it is behind, or blind).
func (w *Worker) inspect(ctx context.Context, tok *token) (own task.ID, unseen *view.Candidate, stale bool) {
	if tok == nil {
		return "", nil, false
	}
	if tok.err != nil {
		w.log.Error("message cannot be decoded and is acknowledged", "class", "poison", "seq", tok.seq, "err", tok.err)
		w.met.poison.Inc()
		w.audit("poison", "", "", tok.err.Error())
		tok.ack()
		return "", nil, true
	}
	own = tok.delivery.Task.ID
	s, known := w.o.View.Standing(own)
	if !known {
		if s, known = w.look(ctx, tok); known && s.State == task.Queued && !w.seenSoon(ctx, own) {
			w.met.unseen.Inc()
			unseen = &view.Candidate{ID: own, InstallationID: s.InstallationID, Seq: s.Seq, Since: w.o.Now()}
		}
	}
	if known && (s.State != task.Queued || s.Seq != tok.seq) {
		tok.ack()
		w.met.stale.Inc()
		return own, nil, true
	}
	if unseen != nil && w.o.View.Paused(unseen.InstallationID) {
		unseen = nil
	}
	return own, unseen, false
}

// seenSoon gives the view the time that a write usually takes to reach it, so
// that its order, pauses and waiting reviews count for every task it can show.
func (w *Worker) seenSoon(ctx context.Context, id task.ID) bool {
	for range 40 {
		if _, known := w.o.View.Standing(id); known {
			return true
		}
		w.settleView(ctx)
	}
	return false
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
	q := queues{waiting: w.o.View.Waiting(), oldest: func(inst int64) []view.Candidate {
		return w.o.View.EligibleOf(inst, c.k(), w.busyLocked)
	}}
	cand, ok := w.sched.pick(w.o.Now(), q, c, token, own)
	if ok {
		w.claimingLocked(cand)
		w.unpickLocked(picked)
	}
	return cand, ok
}
