package relay

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// Options are what a Relay is made of. Store, View, JS, Channel, Boot, Now,
// Logger and Registerer are needed.
type Options struct {
	Store *kv.OutboxStore
	View  *view.View
	JS    jetstream.JetStream
	// Channel returns a way out by its name, false if none is registered.
	Channel func(name string) (Channel, bool)
	// Derive creates the records that terminal tasks lack (see Deriver).
	Derive func(ctx context.Context) error
	// Restore makes a durable again that somebody deleted.
	Restore func(ctx context.Context, stream, consumer string) error
	// Finished is told of every record that this relay delivered, failed or
	// left unknown (OB-40); it must not block.
	Finished func(r outbox.Record, v Verdict)
	// Disabled is told when a recipient wants nothing more through a channel.
	Disabled func(channel, reason string)
	// Redact keeps secrets out of what is stored and logged; nil knows the
	// shapes of tokens only.
	Redact     *redact.Redactor
	Logger     *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer

	// Boot identifies this life of the process.
	Boot task.BootID
	// Alone is true when no other process sends from this store.
	Alone bool

	// Concurrency bounds all sends at once, PerRecipient those to one; 0 are
	// 256 and 16.
	Concurrency, PerRecipient int
	// Waits are the pauses before each try of one claim; nil is 0, 1 s, 5 s.
	Waits []time.Duration
	// MaxRetryAfter is how long a recipient may ask to wait; 0 is 5 min.
	MaxRetryAfter time.Duration
	// SweepEvery is the time between sweeps; 0 is 60 s.
	SweepEvery time.Duration

	// Tracer makes the spans of tries; nil: there are none.
	Tracer trace.Tracer
	// Hooks hold contenders in tests; nil in production.
	Hooks *Hooks
}

// Hooks are called at the steps of a delivery; tests block in them.
type Hooks struct {
	BeforeClaim func(id outbox.ID)
	Claimed     func(id outbox.ID)
	Answered    func(id outbox.ID, a Answer)
	Finished    func(id outbox.ID)
}

func (h *Hooks) call(f func(*Hooks) func(outbox.ID), id outbox.ID) {
	if h == nil {
		return
	}
	if hook := f(h); hook != nil {
		hook(id)
	}
}

func (o *Options) complete() error {
	if o.Store == nil || o.View == nil || o.JS == nil || o.Channel == nil || o.Registerer == nil || o.Logger == nil || o.Now == nil {
		return errors.New("make relay: a store, view, connection, channels, registerer, logger or clock is missing")
	}
	if o.Boot == "" {
		return errors.New("make relay: no boot id")
	}
	if o.Concurrency == 0 {
		o.Concurrency = 256
	}
	if o.PerRecipient == 0 {
		o.PerRecipient = 16
	}
	if o.Waits == nil {
		o.Waits = []time.Duration{0, time.Second, 5 * time.Second}
	}
	if o.MaxRetryAfter == 0 {
		o.MaxRetryAfter = 5 * time.Minute
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = time.Minute
	}
	if o.Redact == nil {
		o.Redact = redact.New()
	}
	return nil
}

// grace is how long a record must have been pending before this process takes
// it without its message: the process that got the message goes first, the
// others come at different times.
func (o *Options) grace(id outbox.ID) time.Duration {
	if o.Alone {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(string(o.Boot) + "/" + string(id)))
	return time.Second + time.Duration(h.Sum32()%1000)*time.Millisecond
}
