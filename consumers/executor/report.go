package executor

import (
	"time"

	"github.com/belay-run/belay/kv/task"
)

// Class says what the worker does with a finished run.
type Class string

// The classes.
const (
	// Done: the run has an outcome; Report.Result is written as it is.
	Done Class = "done"
	// Retryable: no outcome; the attempt ends with Report.Outcome and the
	// task is queued again, or failed when its budget is spent.
	Retryable Class = "retryable"
	// Canceled: the context ended the run. Whether the attempt is released,
	// superseded or cancelled is the worker's to know.
	Canceled Class = "canceled"
)

// Report is how one run ended. All its text is redacted.
type Report struct {
	Class Class
	// Outcome is the attempt's: completed or failed if Done; failed, timeout
	// or infra if Retryable; cancelled if Canceled.
	Outcome task.Outcome
	// Result is what to finish the task with; set if Done.
	Result task.Result
	// Contract is the command's result.json; nil unless Done by a command.
	Contract *Result
	// Detail is one line for people; Tail the end of the output.
	Detail string
	Tail   string
	// Err is why there is no outcome; errors.Is finds the package's errors.
	Err error
	// Cleanup is what stayed behind: a workspace that could not be removed,
	// processes that could not be killed. It changes no outcome.
	Cleanup error
	// Usage is what the command and its descendants used up.
	Usage Usage
}

// Usage is the resource use of one run; zero where it is not known.
type Usage struct {
	Wall   time.Duration
	User   time.Duration
	System time.Duration
	// MaxRSS is the largest resident size of any one process, in bytes.
	MaxRSS int64
	// Output is what the command wrote, in bytes, before any cut.
	Output int64
}
