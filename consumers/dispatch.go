package consumers

import (
	"context"
	"time"
)

// maxProbe bounds the tokens that one idle probe acknowledges.
const maxProbe = 5000

// lookEvery is how often the runs are looked at while the view changes: each
// change may be about one of them, and most are not.
const lookEvery = 5 * time.Millisecond

// dispatch starts claimers while there is work and a free slot.
func (w *Worker) dispatch(ctx context.Context) {
	probe := time.NewTicker(w.o.ProbeEvery)
	defer probe.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var looked, look time.Time // at the runs: the last time and the next
	for ctx.Err() == nil {
		now := w.o.Now()
		if !now.Before(look) {
			looked, look = now, now.Add(w.checkRuns())
		}
		timer.Reset(min(look.Sub(now), w.spawn(ctx)))
		select {
		case <-ctx.Done():
		case <-w.o.View.Changed():
			if soon := looked.Add(lookEvery); soon.Before(look) {
				look = soon
			}
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
	if w.silentLocked() {
		free = 0
	}
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
		if n := min(free, want-before); fresh && n > 0 {
			w.startClaimers(ctx, n)
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

func (w *Worker) startClaimers(ctx context.Context, n int) {
	for _, wait := range w.tokens.expect(w.reserve(n)) {
		w.pulling.Add(1)
		w.crew.run(func() {
			defer w.pulling.Done()
			w.claimOne(ctx, wait)
		})
	}
}

// reserve takes up to n slots for claimers and returns how many were free. A
// slot is held through the claim and the run (DT-67). A process that cannot
// beat takes nothing: the others would take it for dead and give the task back.
func (w *Worker) reserve(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silentLocked() {
		return 0
	}
	n = max(0, min(n, w.o.Concurrency-w.used))
	w.used += n
	w.claimers += n
	return n
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
	if w.reserve(1) == 0 {
		return
	}
	w.pulling.Go(func() {
		for n := 0; w.claimOne(ctx, w.tokens.expect(1)[0]) && n < maxProbe && ctx.Err() == nil; n++ {
			if w.reserve(1) == 0 {
				return
			}
		}
	})
}
