package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// Runner runs one attempt of a task.
type Runner interface {
	Run(ctx context.Context, job executor.Job) executor.Report
}

// Auditor records what people must be able to find later.
type Auditor interface {
	Record(kind string, id task.ID, repo, detail string)
}

// Supersede says what happens to a running review when a newer one is queued.
type Supersede string

// The values of [review] on_supersede.
const (
	// SupersedeFinish lets the running review end; the newer one waits.
	SupersedeFinish Supersede = "finish"
	// SupersedeCancel ends the running review in favour of the newer one.
	SupersedeCancel Supersede = "cancel"
)

// ReviewPolicy says how reviews go.
type ReviewPolicy struct {
	OnSupersede Supersede
	// AuditInstruction is the operator's text for reviews, for the brief.
	AuditInstruction string
}

// Options are what a Worker is made of. Store, Log, View, JS, Runner,
// Admitter, Restore, Familiar, Logger, Now and Registerer are needed.
type Options struct {
	Store    *kv.TaskStore
	View     *view.View
	JS       jetstream.JetStream
	Runner   Runner
	Admitter *Admitter
	Audit    Auditor
	// Surfaces show tasks on GitHub; nil where no App is configured.
	Surfaces Surfaces
	// Restore makes a durable again that somebody deleted.
	Restore func(ctx context.Context, stream, consumer string) error
	// Familiar returns how a familiar runs, false if none has the id.
	Familiar   func(id string) (executor.Familiar, bool)
	Logger     *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer

	// Name labels the worker; Boot identifies this life of the process.
	Name string
	Boot task.BootID
	// Alone is true when a lock proves that no other process uses the store.
	Alone bool

	Concurrency  int
	MaxRetries   int
	Timeout      time.Duration
	DrainTimeout time.Duration
	// Review says how reviews go, as configured now; nil: they finish, with no
	// instruction.
	Review func() ReviewPolicy
	// Backoff is the wait before try n+1 when n tries are spent; nil is the
	// default: 2 s doubled each time, at most 5 min, with jitter.
	Backoff func(spent int) time.Duration
	// Limit is how many tasks of an installation may run at once over all
	// processes, 0 for no limit; asked anew each time. nil: none has one.
	Limit func(installation int64) int
	// BeatEvery is the time between beats; 0 is 5 s.
	BeatEvery time.Duration
	// ProbeEvery is the time between idle probes; 0 is 5 s.
	ProbeEvery time.Duration

	// Tracer makes the spans of attempts; nil: there are none.
	Tracer trace.Tracer
	// Hooks hold contenders in tests; nil in production.
	Hooks *Hooks
}

// Hooks are called at the steps of a claim and a finish; tests block in them.
type Hooks struct {
	Picked      func(id task.ID)
	Seated      func(id task.ID) // it has its place under a cap, or needs none
	BeforeClaim func(id task.ID)
	Claimed     func(id task.ID)
	Pinned      func(id task.ID) // the record says that something shows
	BeforeEnd   func(id task.ID)
	Ended       func(id task.ID)
}

func (h *Hooks) call(f func(*Hooks) func(task.ID), id task.ID) {
	if h == nil {
		return
	}
	if hook := f(h); hook != nil {
		hook(id)
	}
}

func (o *Options) check() error {
	switch {
	case o.Store == nil || o.View == nil || o.JS == nil || o.Runner == nil || o.Admitter == nil:
		return errors.New("make worker: a store, view, connection, runner or admitter is missing")
	case o.Boot == "":
		return errors.New("make worker: no boot id")
	case o.Concurrency < 1:
		return fmt.Errorf("make worker: concurrency is %d, needs at least 1", o.Concurrency)
	}
	if o.BeatEvery == 0 {
		o.BeatEvery = 5 * time.Second
	}
	if o.ProbeEvery == 0 {
		o.ProbeEvery = 5 * time.Second
	}
	if o.Backoff == nil {
		o.Backoff = backoff
	}
	if o.Review == nil {
		o.Review = func() ReviewPolicy { return ReviewPolicy{OnSupersede: SupersedeFinish} }
	}
	return nil
}
