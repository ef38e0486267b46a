package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

const (
	// entombBatch is how many tasks one look at the view brings.
	entombBatch = 500
	// dedupeWindow is the server's memory of message ids; the log keeps what
	// it needs to rebuild that after a restart.
	dedupeWindow = 96 * time.Hour
)

// Retention ends what has outlived its days: terminal tasks become
// tombstones, deliveries that nothing needs are purged. Queued and running
// tasks are never touched. One process of a fleet does it; every step is a CAS
// or idempotent, so that two at once do no harm either.
type Retention struct {
	o     RetentionOptions
	stop  context.CancelFunc
	done  chan struct{}
	count *prometheus.CounterVec
}

// Turn calls f while it is this process's turn to do what one of a fleet does,
// again and again until ctx ends; the context of f ends with the turn.
type Turn interface {
	Run(ctx context.Context, f func(ctx context.Context))
}

// RetentionOptions are what a Retention is made of; days are positive.
type RetentionOptions struct {
	Store *kv.TaskStore
	Log   *kv.DeliveryLog
	View  *view.View
	// Turn says when it is this process's; nil: always.
	Turn Turn
	// Forget removes what a task left outside the store; may be nil.
	Forget func(task.ID) error
	// Outbox is where replies of tombstones end; nil keeps them.
	Outbox *kv.OutboxStore
	// Tasks, Deliveries and Dedupe are how long each is kept.
	Tasks, Deliveries, Dedupe time.Duration
	// Every is the time between two passes; 0 is one hour.
	Every      time.Duration
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// NewRetention makes the loop; Start starts it.
func NewRetention(o RetentionOptions) *Retention {
	if o.Every == 0 {
		o.Every = time.Hour
	}
	r := &Retention{o: o, done: make(chan struct{})}
	r.count = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "belay_retention_passes_total", Help: "Passes of retention by outcome.",
	}, []string{"outcome"})
	for _, s := range []string{"ok", "failed"} {
		r.count.WithLabelValues(s)
	}
	o.Registerer.MustRegister(r.count)
	return r
}

// Start begins to pass over the store; it does not block.
func (r *Retention) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() {
		defer close(r.done)
		if r.o.Turn == nil {
			r.passes(ctx)
			return
		}
		r.o.Turn.Run(ctx, r.passes)
	}()
}

// passes goes over the store until ctx ends.
func (r *Retention) passes(ctx context.Context) {
	every(ctx, r.o.Every, func() {
		if err := r.Pass(ctx); err != nil && ctx.Err() == nil {
			r.count.WithLabelValues("failed").Inc()
			r.o.Logger.Warn("retention did not finish, it goes on with the next pass", "class", "retention", "err", err)
		} else if err == nil {
			r.count.WithLabelValues("ok").Inc()
		}
	})
}

// Stop ends the loop in the middle of whatever it does.
func (r *Retention) Stop(context.Context) error {
	r.stop()
	<-r.done
	return nil
}

// Pass does all that is due now.
func (r *Retention) Pass(ctx context.Context) error {
	if err := r.entombAll(ctx); err != nil {
		return err
	}
	r.o.View.DropExpiredTombs()
	if r.o.Outbox != nil {
		if _, err := relay.Retire(ctx, r.o.View, r.o.Store, r.o.Outbox, r.o.Now().Add(-r.o.Tasks)); err != nil {
			return err
		}
	}
	return r.purgeLog(ctx)
}

func (r *Retention) entombAll(ctx context.Context) error {
	before := r.o.Now().Add(-r.o.Tasks)
	done := map[task.ID]uint64{} // and still shown: the view will follow
	for ctx.Err() == nil {
		progress, shown := false, map[task.ID]uint64{}
		for _, a := range r.o.View.Aged(before, entombBatch+len(done)) {
			shown[a.ID] = a.Revision
			if done[a.ID] >= a.Revision {
				continue
			}
			if err := r.entomb(ctx, a, before); err != nil {
				return err
			}
			progress = true
		}
		if !progress {
			return nil
		}
		done = shown
	}
	return ctx.Err()
}

// entomb ends one task, if its record still says what the view said.
func (r *Retention) entomb(ctx context.Context, a view.Aged, before time.Time) error {
	rec, rev, err := r.o.Store.Get(ctx, a.InstallationID, a.ID)
	if errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrNewer) || errors.Is(err, kv.ErrCorrupt) {
		return nil
	}
	if err != nil {
		return err
	}
	if rec.Tombstone || !rec.State.Terminal() || !rec.UpdatedAt.Before(before) {
		return nil
	}
	if len(rec.Intents) > 0 && r.o.Outbox != nil {
		// A tombstone has no intents: what is not sent yet must have its record.
		if err := r.o.Outbox.Derive(ctx, rec); err != nil {
			return err
		}
	}
	tomb, err := rec.Entomb(r.o.Now())
	if err != nil {
		return err
	}
	if err := r.o.Store.Entomb(ctx, tomb, rev, r.o.Dedupe); err != nil {
		if errors.Is(err, kv.ErrConflict) {
			return nil // somebody retried it just now
		}
		return err
	}
	if k, ok := rec.Key(); ok && rec.CreatedAt.Before(r.o.Now().Add(-dedupeWindow)) {
		if err := r.o.Store.DropPointer(ctx, k, rec.ID); err != nil {
			return err
		}
	}
	if r.o.Forget != nil {
		return r.o.Forget(rec.ID)
	}
	return nil
}

// purgeLog removes deliveries that are too old, admitted, and whose task is
// terminal: records decide, an ack floor alone never does.
func (r *Retention) purgeLog(ctx context.Context) error {
	seq, err := r.o.Log.SeqSince(ctx, r.o.Now().Add(-max(r.o.Deliveries, dedupeWindow)))
	if err != nil {
		return err
	}
	floor, err := r.o.Log.AdmitFloor(ctx)
	if err != nil {
		return err
	}
	seq = min(seq, floor)
	if live, ok := r.o.View.OldestLive(); ok {
		seq = min(seq, live)
	}
	if seq <= 1 {
		return nil
	}
	if err := r.o.Log.PurgeBelow(ctx, seq); err != nil {
		return fmt.Errorf("end deliveries: %w", err)
	}
	return nil
}
