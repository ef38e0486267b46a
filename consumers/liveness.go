package consumers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// lostAfter is how many beats may go unacknowledged before my own runs are
// cancelled: earlier than any other process may take them.
const lostAfter = 4

// live beats until ctx ends. It does nothing that may wait for longer than a
// beat: what dead processes left behind is the healer's.
func (w *Worker) live(ctx context.Context) {
	tick := time.NewTicker(w.o.BeatEvery)
	defer tick.Stop()
	lost := time.NewTimer(w.untilLost())
	defer lost.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.canary()
			w.beat(ctx)
		case <-lost.C:
		}
		if !w.silent() {
			lost.Reset(w.untilLost())
			w.checkRuns()
			w.callHealer()
			continue
		}
		w.log.Error("no beat was acknowledged, cancelling my runs", "class", "beat", "since", w.Progress().LastBeat)
		w.cancelAll(errLostBeat)
	}
}

// heal looks after what others and I myself have left behind, whenever it is
// called.
func (w *Worker) heal(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.orphans:
		}
		if err := w.recover(ctx, false); err != nil {
			w.log.Warn("orphans wait for the next beat", "class", "recover", "err", err)
		}
		w.healSlots(ctx, false)
	}
}

func (w *Worker) callHealer() {
	select {
	case w.orphans <- struct{}{}:
	default:
	}
}

// beat writes my sign of life. It is bounded by the time to the next one and
// by when my runs must be cancelled.
func (w *Worker) beat(ctx context.Context) {
	limit := w.o.BeatEvery
	if left := w.untilLost(); left > 0 {
		limit = min(limit, left)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := w.o.Now() // others may have seen it long before its answer came
	rev, err := w.o.Store.Beat(ctx, w.o.Boot, w.o.Name)
	if err != nil {
		w.met.beats.WithLabelValues("failed").Inc()
		w.log.Warn("beat failed", "class", "beat", "err", err)
		return
	}
	w.met.beats.WithLabelValues("ok").Inc()
	w.mu.Lock()
	mute := w.silentLocked()
	if rev > w.beatRev {
		w.beatRev, w.beatAt = rev, sent
	}
	w.mu.Unlock()
	if mute {
		w.signal() // claims begin again
	}
}

// Beat writes a sign of life now; call it when the connection is back.
func (w *Worker) Beat() {
	ctx, cancel := context.WithTimeout(context.Background(), w.o.BeatEvery)
	defer cancel()
	w.beat(ctx)
}

// silent reports that nobody acknowledged a beat for too long.
func (w *Worker) silent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.silentLocked()
}

func (w *Worker) silentLocked() bool {
	return w.o.Now().Sub(w.beatAt) >= lostAfter*w.o.BeatEvery
}

// untilLost is the time left until I am silent.
func (w *Worker) untilLost() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return lostAfter*w.o.BeatEvery - w.o.Now().Sub(w.beatAt)
}

// canary re-opens the watch if my former beat has not come back through it.
func (w *Worker) canary() {
	w.mu.Lock()
	sent := w.beatRev
	w.mu.Unlock()
	if seen, _ := w.o.View.OwnBeat(); seen < sent {
		w.met.reopened.Inc()
		w.log.Warn("watch is behind my own beat, opening it again", "class", "canary", "sent", sent, "seen", seen)
		w.o.View.Reopen()
	}
}

// recover gives back the running tasks that nobody holds. With first, every
// other boot is known to be dead.
func (w *Worker) recover(ctx context.Context, first bool) error {
	var errs []error
	for _, o := range w.o.View.Orphans(first, w.busy()) {
		if err := w.giveBack(ctx, o); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// giveBack closes an orphan's attempt as interrupted: the task is queued
// again at once, or failed when its budget is spent.
func (w *Worker) giveBack(ctx context.Context, o view.Orphan) error {
	now := w.o.Now()
	end := task.Ending{Outcome: task.OutcomeInterrupted, Detail: fmt.Sprintf("the process of boot %s ended", o.Holder.Boot)}
	r, _, err := w.o.Store.Change(ctx, o.InstallationID, o.ID, func(t task.Record) (task.Record, error) {
		if w.holds(t.ID) { // claimed here since the view was read
			return t, errUntouched
		}
		return t.EndAttempt(o.Holder, end, w.o.MaxRetries, now)
	}, nil)
	switch {
	case errors.Is(err, errUntouched), errors.Is(err, task.ErrFence), errors.Is(err, task.ErrState),
		errors.Is(err, kv.ErrNotFound), errors.Is(err, kv.ErrNewer), errors.Is(err, kv.ErrCorrupt):
		return nil
	case err != nil:
		return fmt.Errorf("give back task %s: %w", o.ID, err)
	}
	if slot := (task.Slot{Task: o.ID, Attempt: o.Holder.N, Boot: o.Holder.Boot}); w.o.View.HasSlot(o.InstallationID, slot) {
		w.slots.drop(o.InstallationID, slot)
	}
	w.met.interrupted.Inc()
	w.log.Warn("attempt was interrupted", "task_id", o.ID, "attempt", o.Holder.N, "boot", o.Holder.Boot, "state", r.State)
	w.audit("interrupted", o.ID, r.Repo, fmt.Sprintf("attempt %d of boot %s, now %s", o.Holder.N, o.Holder.Boot, r.State))
	return nil
}

const (
	// never is when to look again if nothing is waited for.
	never = time.Hour
	// askEvery is how often the pointer is asked whether a queued review that
	// waits for a running one is the newer of the two.
	askEvery = 200 * time.Millisecond
)

// checkRuns cancels my runs that are mine no longer, by what the watch shows,
// and, if so configured, running reviews that a newer one waits for. It
// returns when to look again though nothing changes.
func (w *Worker) checkRuns() time.Duration {
	w.mu.Lock()
	runs := make(map[*run]uint64, len(w.running))
	for _, r := range w.running {
		if r.rev > 0 {
			runs[r] = r.rev
		}
	}
	w.mu.Unlock()
	next := never
	for r, rev := range runs {
		s, ok := w.o.View.Standing(r.id)
		if ok {
			r.shown.Store(true)
		}
		switch {
		case !ok && !r.shown.Load(): // claimed before the view came to know it
		case !ok: // purged, or unreadable: nothing can be written to it any more
			r.cancel(errTaken)
		case s.Revision < rev:
		case s.State != task.Running || s.Holder.N != r.holder.N || s.Holder.Nonce != r.holder.Nonce:
			r.cancel(errTaken)
		case s.Overtaken && w.o.Review().OnSupersede == SupersedeCancel:
			next = askEvery
			if w.newerWaits(r) {
				r.cancel(errOvertaken)
			}
		}
	}
	return next
}

// newerWaits reports whether the queued review behind a running one is newer:
// commanded and retried ones wait too, but overtake nothing.
func (w *Worker) newerWaits(r *run) bool {
	w.mu.Lock()
	soon, rec := w.o.Now().Sub(r.asked) < askEvery, r.record
	if !soon {
		r.asked = w.o.Now()
	}
	w.mu.Unlock()
	if soon {
		return false
	}
	s, ok := w.o.View.Standing(w.winner(rec))
	return ok && s.State == task.Queued
}

func (w *Worker) audit(kind string, id task.ID, repo, detail string) {
	if w.o.Audit != nil {
		w.o.Audit.Record(kind, id, repo, detail)
	}
}

// since is a helper of gauges: seconds from at to now, 0 for never.
func since(now, at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return now.Sub(at).Seconds()
}
