package ingest

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/ingest/github"
)

// Limits of the webhook when Options leave them 0.
const (
	// DefaultMaxBody is the largest body; GitHub's own limit is 25 MB.
	DefaultMaxBody = 25 << 20
	// DefaultMaxInFlight bounds the bodies of all requests being answered.
	DefaultMaxInFlight = 256 << 20
	// DefaultIntakeDeadline is when a webhook is answered at the latest,
	// counted from its request's first byte; GitHub gives up after 10 s.
	DefaultIntakeDeadline = 8 * time.Second
)

// Options are what a Server is made of. Log, Config, Secrets, Registerer and
// Gatherer must be set; a port that is nil leaves its routes out.
type Options struct {
	// Log is where accepted deliveries go.
	Log DeliveryLog
	// Tasks, TaskStore, Deliveries, Commands and Logs answer the API.
	Tasks      TaskList
	TaskStore  TaskStore
	Deliveries Deliveries
	Commands   Commands
	Logs       Logs
	// Payloads reads again what is to be replayed.
	Payloads Payloads
	// Outbox and OutboxStore answer what is sent out; both or none.
	Outbox      OutboxList
	OutboxStore OutboxStore
	// Usage answers what was done, and Places, with Config, what would make
	// tasks.
	Usage  UsageList
	Places Places
	// Operator answers the signed routes of operator tasks.
	Operator *Operator
	// Events takes and shows what is reported of tasks.
	Events Events
	// Switch pauses and resumes claims.
	Switch Switch
	// Trail answers what Auditor was told; nil: explanations go without.
	Trail Trail
	// Auditor is told of reads, denials and mutations; nil: nobody is.
	Auditor Auditor
	// Prober answers the health routes; nil: always well.
	Prober Prober
	// Warnings are what is doubtful without stopping work, for /readyz on the
	// admin listener; nil: nothing is.
	Warnings func() []Condition

	// Config returns the routing in force; it is asked once a webhook, so a
	// reload is a swap of what it returns.
	Config func() *github.Config
	// Secrets returns the webhook secrets in force, the newest first.
	Secrets func() []github.Secret
	// Quotas counts tasks of installations with a daily cap; nil: none has one.
	Quotas Quotas
	// Sources returns a further source by its name, as it is in force; nil:
	// there are none.
	Sources func(name string) (Source, bool)
	// Owners says which source an installation belongs to; nil: the one that
	// names it.
	Owners Owners
	// Access returns who may use the API; nil: open mode.
	Access func() Access
	// FamiliarName returns a familiar's display name; nil or "": its id.
	FamiliarName func(id string) string

	// Logger, Now, Registerer and Gatherer are the process's own.
	Logger     *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer

	// MaxBody, MaxInFlight and IntakeDeadline default to the constants.
	MaxBody        int64
	MaxInFlight    int64
	IntakeDeadline time.Duration
	// Tracer makes the spans of webhooks; nil: there are none.
	Tracer trace.Tracer
	// Version is shown as the metric belay_build_info.
	Version string
}

// complete fills the defaults in and names what is missing.
func (o *Options) complete() error {
	switch {
	case o.Log == nil:
		return errors.New("ingest needs a delivery log")
	case o.Config == nil:
		return errors.New("ingest needs a routing configuration")
	case o.Secrets == nil:
		return errors.New("ingest needs webhook secrets")
	case o.Registerer == nil || o.Gatherer == nil:
		return errors.New("ingest needs a metrics registerer and gatherer")
	}
	if o.Sources == nil {
		o.Sources = func(string) (Source, bool) { return Source{}, false }
	}
	if o.Owners == nil {
		o.Owners = anyOwner{}
	}
	if o.Auditor == nil {
		o.Auditor = noAudit{}
	}
	if o.Access == nil {
		o.Access = func() Access { return Access{Mode: ModeOpen} }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.IntakeDeadline == 0 {
		o.IntakeDeadline = DefaultIntakeDeadline
	}
	if o.MaxInFlight < o.MaxBody {
		return fmt.Errorf("all bodies in flight may take %d bytes, less than the one body of %d", o.MaxInFlight, o.MaxBody)
	}
	access := o.Access()
	return access.check()
}
