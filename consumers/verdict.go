package consumers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// Causes for which a run's context is cancelled.
var (
	errReleased   = errors.New("released: the worker stops")
	errLostBeat   = errors.New("released: the worker could not renew its beat")
	errTaken      = errors.New("the attempt no longer holds the task")
	errOvertaken  = errors.New("a newer review of the pull request is queued")
	errNoFamiliar = errors.New("familiar is not configured")
)

// backoff is 2 s, 4 s, … 5 min with a fifth of jitter.
func backoff(spent int) time.Duration {
	d := 5 * time.Minute
	if spent < 8 {
		d = min(d, 2*time.Second<<max(0, spent-1))
	}
	return d + time.Duration(rand.Int64N(int64(d)/5+1))
}

// verdict returns the change of the record that an ending asks for.
func (w *Worker) verdict(r *run, e ending, cause error) func(task.Record) (task.Record, error) {
	change := w.change(r, e, cause)
	return func(t task.Record) (task.Record, error) {
		if e.url != "" {
			t.CheckRunURL = e.url
		}
		return change(t)
	}
}

func (w *Worker) change(r *run, rep ending, cause error) func(task.Record) (task.Record, error) {
	now := w.o.Now()
	if rep.stale != nil {
		return w.staleVerdict(r, rep, now)
	}
	detail := rep.Detail
	if rep.Cleanup != nil {
		detail = fmt.Sprintf("%s (left behind: %v)", detail, rep.Cleanup)
	}
	switch rep.Class {
	case executor.Done:
		res := rep.Result
		if res.Detail == "" {
			res.Detail = detail
		}
		if res.Tail == "" {
			res.Tail = rep.Tail
		}
		return func(t task.Record) (task.Record, error) { return closed(t, rep.shown).Finish(r.holder, res, now) }
	case executor.Canceled:
		if errors.Is(cause, errOvertaken) {
			return func(t task.Record) (task.Record, error) {
				return t.Supersede(r.holder, w.winner(t), task.ReasonSuperseded, now)
			}
		}
		e := task.Ending{Outcome: task.OutcomeReleased, Detail: cause.Error(), Tail: rep.Tail}
		return func(t task.Record) (task.Record, error) { return t.EndAttempt(r.holder, e, w.o.MaxRetries, now) }
	}
	e := task.Ending{Outcome: rep.Outcome, Detail: detail, Tail: rep.Tail}
	return func(t task.Record) (task.Record, error) {
		if e.NotBefore = rep.until; e.NotBefore.IsZero() {
			e.NotBefore = now.Add(w.o.Backoff(t.Spent() + 1))
		}
		return t.EndAttempt(r.holder, e, w.o.MaxRetries, now)
	}
}

// staleVerdict ends a review whose head moved; what it showed says so already.
func (w *Worker) staleVerdict(r *run, e ending, now time.Time) func(task.Record) (task.Record, error) {
	if !e.again {
		return func(t task.Record) (task.Record, error) {
			return closed(t, true).Supersede(r.holder, e.by, task.ReasonStale, now)
		}
	}
	end := task.Ending{Outcome: e.Outcome, Detail: e.Detail, Tail: e.Tail, NotBefore: now.Add(w.o.Backoff(1))}
	return func(t task.Record) (task.Record, error) {
		n, err := closed(t, true).EndAttempt(r.holder, end, w.o.MaxRetries, now)
		n.HeadSHA, n.CheckRunURL = e.stale.Live, ""
		return n, err
	}
}

// closed is a record whose surfaces say all there is to say.
func closed(t task.Record, shown bool) task.Record {
	if shown && t.Surfaces == task.SurfacesOpen {
		t.Surfaces = task.SurfacesClosed
	}
	return t
}

// winner names the task that holds a review's key, "" if it cannot be read.
func (w *Worker) winner(t task.Record) task.ID {
	k, ok := t.Key()
	if !ok {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	p, _, err := w.o.Store.Pointer(ctx, k)
	if err != nil || p == nil || p.Task == t.ID {
		return ""
	}
	return p.Task
}

// end writes a change until it is decided: done, refused, or the process is
// told to give up. The first try needs no read: the revision is the claim's.
func (w *Worker) end(ctx context.Context, r *run, f func(task.Record) (task.Record, error)) (task.Record, error) {
	w.o.Hooks.call(func(h *Hooks) func(task.ID) { return h.BeforeEnd }, r.id)
	n, err := f(r.record)
	if err != nil {
		return task.Record{}, err
	}
	_, err = w.o.Store.Update(ctx, n, r.rev)
	for wait := 50 * time.Millisecond; err != nil; wait = min(2*wait, 2*time.Second) {
		if errors.Is(err, kv.ErrTooLarge) || ctx.Err() != nil {
			return task.Record{}, err
		}
		// A lost answer of our own write reads as ended by our nonce.
		n, _, err = w.o.Store.Change(ctx, r.inst, r.id, f, func(t task.Record) bool { return endedBy(t, r.holder) })
		if err == nil || refused(err) {
			if err != nil && endedBy(n, r.holder) {
				return n, nil
			}
			break
		}
		w.log.Warn("result waits for the store", "class", "end", "task_id", r.id, "attempt", r.holder.N, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return n, err
}

// refused reports that a result can never be written: the record is held by
// another, ended, gone or not to be read.
func refused(err error) bool {
	for _, kind := range []error{task.ErrFence, task.ErrState, kv.ErrNotFound, kv.ErrNewer, kv.ErrCorrupt} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// endedBy reports whether the holder's own attempt is closed with an outcome
// that only the holder writes.
func endedBy(t task.Record, h task.Holder) bool {
	for _, a := range t.AttemptLog {
		if a.N == h.N && a.Nonce == h.Nonce {
			return !a.EndedAt.IsZero() && a.Outcome != task.OutcomeInterrupted && a.Outcome != task.OutcomeCancelled
		}
	}
	return false
}
