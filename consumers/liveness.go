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

// live beats until ctx ends and, at each beat, looks after what others and
// I myself have left behind.
func (w *Worker) live(ctx context.Context) {
	tick := time.NewTicker(w.o.BeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.canary()
		w.beat(ctx)
		if w.silent() {
			w.log.Error("no beat was acknowledged, cancelling my runs", "class", "beat", "since", w.Progress().LastBeat)
			w.cancelAll(errLostBeat)
			continue
		}
		if err := w.recover(ctx, false); err != nil {
			w.log.Warn("orphans wait for the next beat", "class", "recover", "err", err)
		}
	}
}

// beat writes my sign of life. It is bounded by the time to the next one.
func (w *Worker) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.o.BeatEvery)
	defer cancel()
	rev, err := w.o.Store.Beat(ctx, w.o.Boot, w.o.Name)
	if err != nil {
		w.met.beats.WithLabelValues("failed").Inc()
		w.log.Warn("beat failed", "class", "beat", "err", err)
		return
	}
	w.met.beats.WithLabelValues("ok").Inc()
	w.mu.Lock()
	w.beatRev, w.beatAt = rev, w.o.Now()
	w.mu.Unlock()
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
	return w.o.Now().Sub(w.beatAt) >= lostAfter*w.o.BeatEvery
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
	w.met.interrupted.Inc()
	w.log.Warn("attempt was interrupted", "task_id", o.ID, "attempt", o.Holder.N, "boot", o.Holder.Boot, "state", r.State)
	w.audit("interrupted", o.ID, r.Repo, fmt.Sprintf("attempt %d of boot %s, now %s", o.Holder.N, o.Holder.Boot, r.State))
	return nil
}

// checkRuns cancels my runs that are mine no longer, by what the watch shows,
// and, if so configured, running reviews that a newer one waits for.
func (w *Worker) checkRuns() {
	w.mu.Lock()
	runs := make([]*run, 0, len(w.running))
	for _, r := range w.running {
		if r.cancel != nil {
			runs = append(runs, r)
		}
	}
	w.mu.Unlock()
	for _, r := range runs {
		s, ok := w.o.View.Standing(r.id)
		switch {
		case !ok || s.Revision < r.rev:
		case s.State != task.Running || s.Holder.N != r.holder.N || s.Holder.Nonce != r.holder.Nonce:
			r.cancel(errTaken)
		case s.Overtaken && w.o.OnSupersede == SupersedeCancel:
			r.cancel(errOvertaken)
		}
	}
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
