package executor

import (
	"io"
	"time"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// Familiar is what of a bot identity a run needs.
type Familiar struct {
	ID          string
	DisplayName string
	Model       string
	Skills      []string
	// Command is the argv from configuration; in all but its first element
	// {brief}, {result} and {workspace} are replaced by paths. Empty: the
	// built-in echo runner.
	Command []string
	// Env is added to the command's environment. Values of names that speak
	// of a key, token, secret or password are redacted from output.
	Env map[string]string
	// Timeout, if set, goes before the job's.
	Timeout time.Duration
}

// Job is one attempt of one task.
type Job struct {
	Task     task.Record
	Attempt  int // from 1
	Familiar Familiar
	// ReviewFiles are the changed files of the pull request under review.
	ReviewFiles []string
	// AuditInstruction is the operator's text for reviews.
	AuditInstruction string
	// Reply is the summary of a task that runs inside the worker: the text
	// of a command_reply, the count of cancel_reviews.
	Reply string
	// GitToken reaches the command in its environment only.
	GitToken redact.Secret
	// Tokens are further live values: redacted everywhere, refused in a brief.
	Tokens []redact.Secret
	// Timeout bounds the command; zero is DefaultTimeout.
	Timeout time.Duration
	// Traceparent is the W3C trace context that the command may continue; ""
	// for none.
	Traceparent string
	// Broker, if set, serves fresh tokens for as long as the command runs.
	Broker Broker

	socket string // where it does
}

// Broker serves tokens on a unix socket at path, which only uid may open (0
// is belay's own user), until it is closed. Each token that it hands out it
// tells learn of before.
type Broker func(path string, uid int, learn func(redact.Secret)) (io.Closer, error)

// DefaultTimeout bounds a run for which neither familiar nor job says more.
const DefaultTimeout = 10 * time.Minute

// Limit returns how long the command may run.
func (j *Job) Limit() time.Duration {
	switch {
	case j.Familiar.Timeout > 0:
		return j.Familiar.Timeout
	case j.Timeout > 0:
		return j.Timeout
	}
	return DefaultTimeout
}

// Builtin reports whether the task runs without a command.
func (j *Job) Builtin() bool {
	k := j.Task.Kind.Name
	return k == task.CommandReply || k == task.CancelReviews || len(j.Familiar.Command) == 0
}
