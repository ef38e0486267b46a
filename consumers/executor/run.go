package executor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/belay-run/belay/kv/redact"
)

// stopReason says why belay ended a command itself.
type stopReason string

const (
	notStopped stopReason = ""
	timedOut   stopReason = "timeout"
	canceled   stopReason = "cancel"
)

// ErrBusy means that this executor runs the very attempt already.
var ErrBusy = errors.New("the attempt is running already")

// Run runs one attempt to its end and reports it. A command that does not
// end by itself is ended at its timeout and when ctx is done; Run returns
// within KillGrace after that, and within a few WaitDelay more if processes
// refuse to die.
func (e *Executor) Run(ctx context.Context, job Job) Report {
	began := e.cfg.Now()
	live := redact.New(job.GitToken.Reveal())
	for _, t := range job.Tokens {
		live.Add(t.Reveal())
	}
	r := e.run(ctx, &job, live)
	r.Usage.Wall = e.cfg.Now().Sub(began)
	r = r.redacted(live)
	log := e.cfg.Logger.With("task_id", string(job.Task.ID), "attempt", job.Attempt)
	if r.Cleanup != nil {
		log.Error("run left something behind", "error", live.String(r.Cleanup.Error()))
	}
	log.Info("run ended", "class", string(r.Class), "outcome", string(r.Outcome), "detail", r.Detail,
		"wall", r.Usage.Wall, "output_bytes", r.Usage.Output)
	return r
}

func (e *Executor) run(ctx context.Context, job *Job, live *redact.Redactor) (r Report) {
	if err := checkID(job.Task.ID); err != nil {
		return notRun(err)
	}
	if job.Attempt < 1 {
		return notRun(fmt.Errorf("attempt %d: attempts count from 1", job.Attempt))
	}
	if !e.enter(job.Task.ID, job.Attempt) {
		return notRun(ErrBusy)
	}
	defer e.leave(job.Task.ID, job.Attempt)
	if ctx.Err() != nil {
		return wasCanceled(ctx)
	}
	out, err := e.openOutput(job.Task.ID, job.Attempt, live)
	if err != nil {
		return notRun(err)
	}
	defer func() {
		r.Cleanup = errors.Join(r.Cleanup, out.close())
		r.Tail, r.Usage.Output = out.end(), out.total
		r.Result.Tail = r.Tail
	}()
	if job.Builtin() {
		return echo(job, out)
	}
	return e.runCommand(ctx, job, live, out)
}

// runCommand makes the workspace, runs the command in it and reads what it
// left there.
func (e *Executor) runCommand(ctx context.Context, job *Job, live *redact.Redactor, out *output) (r Report) {
	ws, err := e.makeWorkspace(job.Task.ID, job.Attempt)
	defer func() {
		r.Cleanup = errors.Join(r.Cleanup, e.removeWorkspace(job.Task.ID, job.Attempt))
	}()
	if err != nil {
		return notRun(err)
	}
	brief, err := encodeBrief(job, ws.root, live)
	if err != nil {
		return notRun(err)
	}
	if err := e.handOver(ws, brief); err != nil {
		return notRun(err)
	}
	learn(live, job.Familiar.Env)
	end, err := e.openBroker(job, ws, live)
	if err != nil {
		return notRun(err)
	}
	defer func() { r.Cleanup = errors.Join(r.Cleanup, end()) }()
	mark := rand.Text()
	env := e.environment(job, ws, mark)
	path, err := FindCommand(job.Familiar.Command[0], env["PATH"])
	if err != nil {
		return notRun(err)
	}
	x, why, err := e.command(ctx, order{
		Path: path, Argv: argv(job.Familiar.Command, ws), Env: list(env), Dir: ws.root, Cred: e.runAs.cred,
		Grace: e.cfg.KillGrace, Delay: e.cfg.WaitDelay, Silence: e.cfg.Silence, Mark: "BELAY_RUN=" + mark,
	}, job.Limit(), out)
	if err != nil {
		return notRun(err)
	}
	r = e.decide(ctx, job, x, why, ws, live)
	r.Usage.User, r.Usage.System, r.Usage.MaxRSS = x.User, x.System, x.MaxRSS
	if x.Left > 0 {
		r.Cleanup = errors.Join(r.Cleanup, fmt.Errorf("%d processes of the command could not be killed", x.Left))
	}
	return r
}

// command runs an order and copies its output until both have ended.
func (e *Executor) command(ctx context.Context, o order, timeout time.Duration, out io.Writer) (ending, stopReason, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return ending{}, notStopped, fmt.Errorf("make output pipe: %w", err)
	}
	p, err := start(o, write)
	write.Close()
	if err != nil {
		read.Close()
		return ending{}, notStopped, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(out, read) // ends when the last writer does, or at the deadline below
	}()
	x, why, err := e.attend(ctx, p, timeout)
	p.release()
	_ = read.SetReadDeadline(time.Now().Add(e.cfg.WaitDelay))
	<-copied
	read.Close()
	return x, why, err
}

// attend waits for the command's end, and ends it at its time.
func (e *Executor) attend(ctx context.Context, p *process, timeout time.Duration) (ending, stopReason, error) {
	why := notStopped
	cancel := ctx.Done()
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	patience := time.NewTimer(0)
	<-patience.C
	defer patience.Stop()
	stop := func(r stopReason) {
		why, cancel = r, nil
		limit.Stop()
		p.stop()
		patience.Reset(e.cfg.KillGrace + 2*e.cfg.WaitDelay)
	}
	for {
		select {
		case n, ok := <-p.notices:
			switch {
			case !ok:
				return ending{Code: -1, Lost: "no word from the supervisor"}, why, nil
			case n.Error != "":
				return ending{}, why, errors.New(n.Error)
			case n.Ending != nil:
				return *n.Ending, why, nil
			}
		case <-cancel:
			stop(canceled)
		case <-limit.C:
			stop(timedOut)
		case <-patience.C:
			p.kill()
		}
	}
}
