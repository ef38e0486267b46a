package consumers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// ending is how an attempt ended: the run's report, or why there was no run,
// and what GitHub shows of it.
type ending struct {
	executor.Report
	// until ends a limit of GitHub that the attempt is parked by.
	until time.Time
	// stale is set for a review whose head moved; by holds its key then, or
	// else (again) the review goes on at the head that it moved to.
	stale *githubapp.StaleError
	by    task.ID
	again bool
	// shown: the surfaces say all there is to say, nothing has to close them.
	shown bool
	url   string // of the check run, "" where there is none
}

// publishTimeout bounds the showing of a result.
const publishTimeout = 2 * time.Minute

// perform runs a claimed task to its end: gate, surfaces, run, surfaces.
func (w *Worker) perform(ctx context.Context, r *run) (e ending) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("runner panicked", "task_id", r.id, "panic", fmt.Sprint(p))
			e = ending{Report: executor.Report{Class: executor.Retryable, Outcome: task.OutcomeInfra, Detail: "runner panicked"}}
		}
	}()
	if e, ok := w.gate(ctx, r); !ok {
		return e
	}
	f, ok := w.o.Familiar(r.record.FamiliarID)
	if !ok {
		reason := fmt.Sprintf("familiar %q is not configured: add it under [[familiars]], then retry the task", r.record.FamiliarID)
		return failed(errNoFamiliar, reason)
	}
	job := executor.Job{Task: r.record, Attempt: r.holder.N, Familiar: f, Timeout: w.o.Timeout}
	switch r.record.Kind.Name {
	case task.CommandReply, task.CancelReviews:
		return w.answer(ctx, r, job)
	case task.ReviewPullRequest:
		job.AuditInstruction = w.o.Review().AuditInstruction
	}
	if w.o.Surfaces == nil {
		return ending{Report: w.runCommand(ctx, job)}
	}
	bctx, done := span(ctx, w.o.Tracer, "github begin")
	st, err := w.o.Surfaces.Begin(bctx, r.record, w.grip(r))
	if errors.Is(err, ErrNoApp) {
		done(nil)
		return ending{Report: w.runCommand(ctx, job)}
	}
	if err == nil {
		job.Task = r.record // with the head that it is about
		err = st.Equip(bctx, &job)
	}
	done(err)
	if err != nil {
		return w.hindered(ctx, r, err)
	}
	rep := w.runCommand(ctx, job)
	if rep.Class != executor.Done {
		return ending{Report: rep, url: st.CheckRunURL()}
	}
	return w.publish(ctx, r, st, rep)
}

// failed ends a task that cannot run as things are configured, visibly; it
// can be retried once they are.
func failed(err error, reason string) ending {
	return ending{Report: executor.Report{
		Class: executor.Done, Outcome: task.OutcomeFailed, Err: err,
		Result: task.Result{State: task.Failed, Reason: reason, Detail: reason},
	}}
}

// hindered is the end of an attempt that GitHub or the store kept from
// running, or from showing its result.
func (w *Worker) hindered(ctx context.Context, r *run, err error) ending {
	rep := executor.Report{Class: executor.Retryable, Outcome: task.OutcomeInfra, Detail: err.Error(), Err: err}
	var limit *githubapp.RateLimitError
	var stale *githubapp.StaleError
	switch {
	case errors.As(err, &limit):
		rep.Outcome, rep.Detail = task.OutcomeParked, limit.Reason()
		return ending{Report: rep, until: limit.Until}
	case ctx.Err() != nil, refused(err):
		rep.Class, rep.Outcome = executor.Canceled, task.OutcomeCancelled
	case errors.As(err, &stale) && !passing(err):
		return w.overtakenBy(ctx, r, stale)
	case errors.Is(err, errWaits), errors.Is(err, kv.ErrUnknown), errors.Is(err, kv.ErrConflict), errors.Is(err, kv.ErrFull):
		rep.Outcome = task.OutcomeReleased // it was no fault of the task's
	}
	return ending{Report: rep}
}

// passing reports an error that another try may be spared.
func passing(err error) bool {
	return errors.Is(err, githubapp.ErrTransient) || errors.Is(err, githubapp.ErrUnknown) || errors.Is(err, githubapp.ErrRateLimited) ||
		errors.Is(err, kv.ErrUnknown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// publish shows a result before the record has it. If GitHub is away for
// longer than its own tries, the task ends all the same and its surfaces are
// closed by the outbox; what GitHub refuses for good is said in the detail.
func (w *Worker) publish(run context.Context, r *run, st Stage, rep executor.Report) (e ending) {
	sctx := trace.ContextWithSpan(w.work, trace.SpanFromContext(run))
	sctx, done := span(sctx, w.o.Tracer, "github publish")
	defer func() { done(e.Err) }()
	ctx, cancel := context.WithTimeout(sctx, publishTimeout)
	defer cancel()
	// A run that is released may still be shown, one that is another's not.
	stop := context.AfterFunc(r.ctx, func() {
		if cause := context.Cause(r.ctx); errors.Is(cause, errTaken) || errors.Is(cause, errLostBeat) {
			cancel()
		}
	})
	defer stop()
	if err := w.stillMine(ctx, r); err != nil {
		if refused(err) {
			return w.hindered(ctx, r, err)
		}
		return ending{Report: rep, url: st.CheckRunURL()} // shown by the outbox, once the store is back
	}
	pub, err := st.Publish(ctx, rep)
	rep.Result.PRNumber, rep.Result.PRURL = pub.PRNumber, pub.PRURL
	e = ending{Report: rep, shown: err == nil, url: pub.CheckRunURL}
	switch {
	case errors.Is(err, githubapp.ErrRateLimited), pub.Stale && passing(err):
		return w.hindered(ctx, r, err)
	case pub.Stale:
		return w.overtakenBy(ctx, r, &githubapp.StaleError{Head: r.record.HeadSHA, Live: pub.Live, Closed: pub.Closed})
	case passing(err):
		if unshown, jerr := json.Marshal(outcomeOf(rep)); jerr == nil {
			e.Result.Unshown = unshown
		}
		w.log.Warn("result could not be shown, the outbox will close what is open", "class", "publish", "task_id", r.id, "err", err)
	case err != nil:
		e.shown = true
		e.Detail = task.Cut(fmt.Sprintf("%s; GitHub does not show all of it: %v", rep.Detail, err), maxDetail)
		e.Result.Detail = e.Detail
	}
	return e
}

// maxDetail bounds the detail of an attempt, in bytes.
const maxDetail = 1 << 10
