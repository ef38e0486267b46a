package consumers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// errWaits means that another review of the key runs: this one waits for it.
var errWaits = errors.New("another review of the pull request is running")

// grip is what an attempt's surfaces ask of it.
func (w *Worker) grip(r *run) Grip {
	return Grip{
		Pin:   func(ctx context.Context, head string) error { return w.pin(ctx, r, head) },
		Holds: func(ctx context.Context) (bool, error) { return w.holdsComment(ctx, r) },
	}
}

// pin notes in the record that the task shows something from now on, and lets
// a commanded review, which has passed its gate, take its key (DT-93).
func (w *Worker) pin(ctx context.Context, r *run, head string) error {
	open := func(t task.Record) (task.Record, error) {
		if t.Holds(r.holder) && t.Surfaces == task.SurfacesOpen && t.HeadSHA != "" {
			return t, errUntouched // by a write of mine whose answer was lost
		}
		return t.OpenSurfaces(r.holder, head, w.o.Now())
	}
	if r.record.Surfaces != task.SurfacesOpen || r.record.HeadSHA == "" {
		n, err := open(r.record)
		if err != nil {
			return err
		}
		rev, err := w.o.Store.Update(ctx, n, r.rev)
		if errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrConflict) {
			n, rev, err = w.o.Store.Change(ctx, r.inst, r.id, open, nil)
		}
		if errors.Is(err, errUntouched) {
			err = nil
		}
		if err != nil {
			return err
		}
		w.mu.Lock()
		r.record, r.rev = n, rev
		w.mu.Unlock()
	} else if err := w.stillMine(ctx, r); err != nil {
		return err
	}
	w.o.Hooks.call(func(h *Hooks) func(task.ID) { return h.Pinned }, r.id)
	if r.record.Commander == "" {
		return nil
	}
	return w.takeKey(ctx, r.record)
}

// stillMine asks the leader whether the attempt still holds its task: a process
// that was frozen may not know yet that another has it, and may show nothing.
func (w *Worker) stillMine(ctx context.Context, r *run) error {
	t, _, err := w.o.Store.Get(ctx, r.inst, r.id)
	if err == nil && !t.Holds(r.holder) {
		err = task.ErrFence
	}
	return err
}

// takeKey moves the pointer of a review's key to it, at the head that it runs
// for, and supersedes the queued reviews that are older. A running one is
// waited for.
func (w *Worker) takeKey(ctx context.Context, t task.Record) error {
	k, ok := t.Key()
	if !ok {
		return nil
	}
	for {
		p, rev, err := w.o.Store.Pointer(ctx, k)
		if err != nil {
			return err
		}
		if p != nil && p.Task != t.ID {
			prev, _, err := w.o.Store.Get(ctx, t.InstallationID, p.Task)
			if err == nil && prev.State == task.Running {
				return errWaits
			}
		}
		next := task.Take(p, t.ID, t.HeadSHA, t.DeliverySeq)
		if p != nil && p.Task == next.Task && p.Head == next.Head {
			break
		}
		err = w.o.Store.SetPointer(ctx, k, next, rev)
		if err == nil {
			break
		}
		if ctx.Err() != nil || !errors.Is(err, kv.ErrConflict) && !errors.Is(err, kv.ErrUnknown) {
			return fmt.Errorf("take the key of a review: %w", err)
		}
	}
	for _, id := range w.o.View.QueuedReviews(t.InstallationID, t.RepoID, t.Kind.PRNumber) {
		if err := w.supersedeOlder(ctx, t, id, task.ReasonSuperseded); err != nil {
			return err
		}
	}
	return nil
}

// holdsComment reports whether the status comment of the thread is r's to
// write: a review's while its key's pointer names it, another task's while
// none of the thread that shows something began after it.
func (w *Worker) holdsComment(ctx context.Context, r *run) (bool, error) {
	if err := w.stillMine(ctx, r); err != nil {
		return false, err
	}
	if k, ok := r.record.Key(); ok && r.record.Kind.Name == task.ReviewPullRequest {
		p, _, err := w.o.Store.Pointer(ctx, k)
		return p == nil || p.Task == r.id, err
	}
	mine := began(r.record)
	for it := range w.changedSince(r.inst, r.record.Repo, mine) {
		if it.ID == r.id || it.Number != r.record.Number || it.FamiliarID != r.record.FamiliarID {
			continue
		}
		t, _, err := w.o.Store.Get(ctx, r.inst, it.ID)
		if errors.Is(err, kv.ErrUnknown) {
			return false, err
		}
		if err == nil && t.Surfaces != "" && mine.Before(began(t)) {
			return false, nil
		}
	}
	return true, nil
}

// changedSince goes through a repository's tasks that changed since a time,
// the last one first.
func (w *Worker) changedSince(installation int64, repo string, at time.Time) iter.Seq[view.Item] {
	return func(yield func(view.Item) bool) {
		q := view.Query{Installation: &installation, Repo: repo, Limit: maxThread}
		for {
			page, err := w.o.View.List(q)
			if err != nil {
				return // no cursor of its own is refused
			}
			for _, it := range page.Items {
				if it.UpdatedAt.Before(at) || !yield(it) {
					return
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return
			}
		}
	}
}

// began is when a task's last attempt did.
func began(t task.Record) time.Time {
	if n := len(t.AttemptLog); n > 0 {
		return t.AttemptLog[n-1].StartedAt.Time
	}
	return time.Time{}
}

// overtakenBy settles a review whose head moved while it was waiting or
// running: if another live review holds the key, or one had the new head, this
// one is superseded by it; else it is queued again at the live head, for the
// event of that may never come (DESIGN §7).
func (w *Worker) overtakenBy(ctx context.Context, r *run, s *githubapp.StaleError) ending {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	e := ending{stale: s}
	e.Outcome, e.Detail = task.OutcomeSuperseded, s.Error()
	k, _ := r.record.Key()
	for {
		p, rev, err := w.o.Store.Pointer(ctx, k)
		if err == nil && p != nil && p.Task != r.id {
			var live bool
			if live, err = w.o.Admitter.live(ctx, r.inst, p); err == nil && (live || p.Head == s.Live) {
				e.by = p.Task
				return e
			}
		}
		if err == nil && s.Closed {
			return e
		}
		if err == nil {
			err = w.o.Store.SetPointer(ctx, k, task.Take(p, r.id, s.Live, r.record.DeliverySeq), rev)
		}
		switch {
		case err == nil:
			e.again = true
			return e
		case ctx.Err() != nil || !errors.Is(err, kv.ErrConflict) && !errors.Is(err, kv.ErrUnknown):
			return w.hindered(ctx, r, err)
		}
	}
}

// keyTimeout bounds the settling of a key.
const keyTimeout = 5 * time.Second
