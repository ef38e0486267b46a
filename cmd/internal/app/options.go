package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/task"
)

// Options say what to run. Config and Logger are needed.
type Options struct {
	Config  *config.Config
	Logger  *slog.Logger
	Version string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// NATSListen overrides the ports of nats.conf; demo, bench and tests use
	// random ones.
	NATSListen natsserver.Listen
	// Boot is this life of the process; empty makes one.
	Boot task.BootID
	// BeatEvery and Backoff override the worker's; for tests and the demo.
	BeatEvery time.Duration
	Backoff   func(spent int) time.Duration
	// RelayWaits overrides the pauses between the tries of one reply.
	RelayWaits []time.Duration
	// GitHubSleep overrides the pauses between requests to GitHub; for tests
	// and the demo.
	GitHubSleep func(ctx context.Context, d time.Duration) error
	// SpanExporter takes the spans instead of a collector; for tests.
	SpanExporter trace.SpanExporter
	// NotifySocket is $NOTIFY_SOCKET of systemd; empty for none.
	NotifySocket string
	// RetainEvery is the time between passes of retention; 0 is an hour.
	RetainEvery time.Duration
	// CheckEvery is the time between two looks of the process at itself; 0 is a
	// minute.
	CheckEvery time.Duration
	// LeaseEvery is the time between renewals of a lease; 0 is 5 s.
	LeaseEvery time.Duration
	// Hooks hold the worker's steps in tests; nil in production.
	Hooks *consumers.Hooks
	// IssueHooks hold the steps of an operator's issue in tests, SearchFirst
	// overrides the pause before one that may be lost is looked for.
	IssueHooks  *consumers.IssueHooks
	SearchFirst time.Duration
	// StoreHooks are failpoints of the task store and the delivery log.
	StoreHooks *kv.Hooks
}

func (o *Options) complete() error {
	if o.Config == nil || o.Logger == nil {
		return errors.New("app needs a config and a logger")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Boot == "" {
		o.Boot = consumers.NewBoot()
	}
	return nil
}
