package consumers

import (
	"context"
	"errors"
	"fmt"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/task"
)

// reasonDeclined is the reason of a task whose commander may not command.
const reasonDeclined = "declined"

// gate asks whether a task's commander may command, before anything of the
// task shows. ok means that it may go on; what nobody commanded always may.
func (w *Worker) gate(ctx context.Context, r *run) (e ending, ok bool) {
	login := r.record.Commander
	if login == "" {
		return ending{}, true
	}
	may, err := false, ErrNoApp
	if w.o.Surfaces != nil {
		may, err = w.o.Surfaces.CanWrite(ctx, r.record)
	}
	switch {
	case errors.Is(err, ErrNoApp):
		return failed(err, fmt.Sprintf("nobody can say whether %s may command: %v; configure [github], then retry the task", login, err)), false
	case err != nil:
		return w.hindered(ctx, r, err), false
	case may:
		return ending{}, true
	}
	text := githubapp.DeclinedText(login)
	w.audit("declined", r.id, r.record.Repo, login+" has no write access")
	return w.say(ctx, r, executor.Report{
		Class: executor.Done, Outcome: task.OutcomeCompleted, Detail: text,
		Result: task.Result{State: task.Completed, Reason: reasonDeclined, Summary: text, Detail: text},
	}, text), false
}

// say answers a command, then ends as rep says; an answer that GitHub refuses
// for good does not keep the task from ending.
func (w *Worker) say(ctx context.Context, r *run, rep executor.Report, text string) ending {
	if w.o.Surfaces == nil {
		return ending{Report: rep}
	}
	err := w.o.Surfaces.Reply(ctx, r.record, text)
	switch {
	case err == nil, errors.Is(err, ErrNoApp):
	case !passing(err):
		rep.Detail = task.Cut(fmt.Sprintf("%s; not answered: %v", rep.Detail, err), maxDetail)
		rep.Result.Detail = rep.Detail
	default:
		return w.hindered(ctx, r, err)
	}
	return ending{Report: rep}
}

// answer runs the kinds that have no command: it finds the text, lets the
// built-in runner log it, and says it.
func (w *Worker) answer(ctx context.Context, r *run, job executor.Job) ending {
	var err error
	job.Reply = r.record.Kind.Body
	switch {
	case r.record.Kind.Name == task.CancelReviews:
		job.Reply, err = w.cancelReviews(ctx, r.record)
	case job.Reply == replyStatus:
		job.Reply = w.status(r.record)
	}
	if err != nil {
		return w.hindered(ctx, r, err)
	}
	rep := w.o.Runner.Run(ctx, job)
	if rep.Class != executor.Done {
		return ending{Report: rep}
	}
	return w.say(ctx, r, rep, job.Reply)
}

// replyStatus is the body of a command_reply that asks for the thread's tasks.
const replyStatus = "status"

// maxThread is how many tasks of a thread are looked at.
const maxThread = 100

// status tells what tasks the thread has, the last changed first.
func (w *Worker) status(r task.Record) string {
	var all []task.Record
	for _, it := range w.o.View.Thread(r.InstallationID, r.Repo, r.Kind.IssueNumber, maxThread) {
		all = append(all, task.Record{ID: it.ID, Title: it.Title, State: it.State, ResultStatus: it.ResultStatus})
	}
	return githubapp.StatusText(all)
}

// cancelReviews supersedes the reviews of the pull request that were queued
// before the command, of its familiar, and says how many (DT-94). One that an
// earlier attempt of the task superseded counts too.
func (w *Worker) cancelReviews(ctx context.Context, r task.Record) (string, error) {
	n := 0
	for _, id := range w.o.View.QueuedReviews(r.InstallationID, r.RepoID, r.Kind.PRNumber) {
		if err := w.supersedeOlder(ctx, r, id, reasonCancelled); err != nil {
			return "", err
		}
	}
	for _, it := range w.o.View.Thread(r.InstallationID, r.Repo, r.Kind.PRNumber, maxThread) {
		if it.Kind != task.ReviewPullRequest || it.FamiliarID != r.FamiliarID {
			continue
		}
		t, _, err := w.o.Store.Get(ctx, r.InstallationID, it.ID)
		if err == nil && t.State == task.Superseded && t.SupersededBy == r.ID {
			n++
		}
	}
	return githubapp.CancelledText(n), nil
}

// reasonCancelled is the reason of a review that the command cancel superseded.
const reasonCancelled = "cancelled"

// supersedeOlder supersedes a review in favour of r, if it is queued, older
// and of r's familiar and pull request.
func (w *Worker) supersedeOlder(ctx context.Context, r task.Record, id task.ID, reason string) error {
	return w.o.Admitter.supersedeQueued(ctx, r.InstallationID, id, r.ID, reason, func(t task.Record) bool {
		return t.Kind.Name == task.ReviewPullRequest && t.FamiliarID == r.FamiliarID &&
			t.RepoID == r.RepoID && t.Kind.PRNumber == r.Kind.PRNumber && t.DeliverySeq < r.DeliverySeq
	})
}
