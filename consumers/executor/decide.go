package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// The exit codes of the contract.
const (
	exitSuccess    = 0 // success or partial
	exitFailure    = 1 // failure: the command gave up
	exitInfra      = 2 // nothing was decided; try again
	exitNeedsInput = 3 // needs_input
)

// Limits of what goes into a task's record, in bytes.
const (
	maxDetail  = 1 << 10
	maxSummary = 16 << 10
)

// decide is the table of the package comment.
func (e *Executor) decide(ctx context.Context, job *Job, x ending, why stopReason, ws *workspace, live *redact.Redactor) Report {
	switch {
	case why == canceled:
		return wasCanceled(ctx)
	case why == timedOut:
		return retry(task.OutcomeTimeout, fmt.Errorf("timed out after %s", job.Limit()))
	case x.Lost != "":
		return notRun(errors.New(x.Lost))
	case x.Signal != "":
		return retry(task.OutcomeFailed, fmt.Errorf("killed by %s", x.Signal))
	case x.Code == exitInfra:
		return retry(task.OutcomeInfra, fmt.Errorf("exit code %d: infrastructure error", x.Code))
	case x.Code != exitSuccess && x.Code != exitFailure && x.Code != exitNeedsInput:
		return retry(task.OutcomeFailed, fmt.Errorf("exit code %d", x.Code))
	}
	b, err := e.readResult(ws.result)
	if err != nil {
		return retry(task.OutcomeFailed, fmt.Errorf("exit code %d, but %w", x.Code, err))
	}
	res, err := parseResult(b, live)
	if err != nil {
		return retry(task.OutcomeFailed, fmt.Errorf("exit code %d, but %w", x.Code, err))
	}
	detail := fmt.Sprintf("exit code %d, result %s", x.Code, res.Status)
	if want := codeOf(res.Status); want != x.Code {
		detail += fmt.Sprintf(" (which goes with exit code %d; the result counts)", want)
	}
	return done(res, detail)
}

// codeOf returns the exit code that goes with a status.
func codeOf(s task.ResultStatus) int {
	switch s {
	case task.ResultFailure:
		return exitFailure
	case task.ResultNeedsInput:
		return exitNeedsInput
	}
	return exitSuccess
}

// done reports a result: failure fails the task, all else completes it.
func done(res *Result, detail string) Report {
	r := Report{
		Class: Done, Outcome: task.OutcomeCompleted, Detail: detail, Contract: res,
		Result: task.Result{
			State: task.Completed, Status: res.Status, Branch: res.Branch, Detail: detail,
			Summary: res.Summary, Reason: string(res.ExitReason),
		},
	}
	if res.Status == task.ResultFailure {
		r.Outcome, r.Result.State = task.OutcomeFailed, task.Failed
	}
	return r
}

// echo is the built-in runner: it completes a task with a summary of it, or
// with the reply that the worker made.
func echo(job *Job, out *output) Report {
	k := job.Task.Kind
	summary := job.Reply
	if summary == "" {
		summary = fmt.Sprintf("%s in %s", k.Name, job.Task.Repo)
		if n := k.Number(); n != 0 {
			summary += fmt.Sprintf(" #%d", n)
		}
		if t := strings.TrimSpace(k.Title()); t != "" {
			summary += ": " + t
		}
	}
	_, _ = fmt.Fprintln(out, summary)
	r := done(&Result{Status: task.ResultSuccess, Summary: summary}, "built-in runner")
	r.Contract = nil
	return r
}

// notRun reports that belay itself could not run the command.
func notRun(err error) Report { return retry(task.OutcomeInfra, err) }

func retry(o task.Outcome, err error) Report {
	return Report{Class: Retryable, Outcome: o, Detail: err.Error(), Err: err}
}

func wasCanceled(ctx context.Context) Report {
	err := context.Cause(ctx)
	return Report{Class: Canceled, Outcome: task.OutcomeCancelled, Detail: fmt.Sprintf("stopped: %v", err), Err: err}
}

// redacted returns the report without secrets in what is stored of it; the
// contract's result is redacted where it is read.
func (r Report) redacted(live *redact.Redactor) Report {
	r.Detail = task.Cut(live.String(strings.ToValidUTF8(r.Detail, "\uFFFD")), maxDetail)
	if r.Class == Done {
		r.Result.Detail = r.Detail
		r.Result.Summary = task.Cut(live.String(r.Result.Summary), maxSummary)
		r.Result.Reason = live.String(r.Result.Reason)
	}
	return r
}
