package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/view"
)

// sweepBatch bounds what one look at the read model brings.
const sweepBatch = 500

// sweepLoop sweeps as soon as the read model has caught up, and then every
// SweepEvery. A failing pass is logged and the next one goes on (OB-35).
func (r *Relay) sweepLoop() {
	synced := time.NewTicker(20 * time.Millisecond)
	for !r.o.View.Synced() {
		select {
		case <-r.pull.Done():
			synced.Stop()
			return
		case <-synced.C:
		}
	}
	synced.Stop()
	every := time.NewTicker(r.o.SweepEvery)
	defer every.Stop()
	for {
		if err := r.Sweep(r.pull); err != nil && r.pull.Err() == nil {
			r.log.Warn("sweep of the outbox did not finish, the next one goes on", "class", "relay_sweep", "err", err)
		}
		select {
		case <-r.pull.Done():
			return
		case <-every.C:
		}
	}
}

// Sweep derives the records that terminal tasks lack and has every pending
// record sent. Of those that are delivering it touches none (OB-33), but for
// the lapsed ones of channels where a repetition changes nothing. It does not
// wait for what it starts.
func (r *Relay) Sweep(ctx context.Context) error {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	var err error
	if r.o.Derive != nil {
		err = r.o.Derive(ctx)
	}
	r.wakeUp()
	r.repeat()
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	r.m.sweeps.WithLabelValues(outcome).Inc()
	r.lastPass.Store(r.o.Now().UnixNano())
	if err != nil {
		return fmt.Errorf("sweep outbox: %w", err)
	}
	return nil
}

// repeat takes lapsed claims over where that is harmless.
func (r *Relay) repeat() {
	if r.pull.Err() != nil {
		return
	}
	idempotent := func(name string) bool {
		ch, ok := r.o.Channel(name)
		return ok && ch.Idempotent()
	}
	for _, it := range r.o.View.LapsedOutbox(sweepBatch, idempotent) {
		to := recipient{it.Channel, it.To}
		if r.busy(it.ID) || !r.seats.take(to) {
			continue
		}
		r.mu.Lock()
		r.flying[it.ID] = flight{}
		r.mu.Unlock()
		r.wg.Go(func() {
			defer r.wakeUp()
			defer r.ended(it.ID)
			defer r.seats.release(to)
			rec, won, err := r.o.Store.Reclaim(r.work, it.ID, r.o.Boot)
			switch {
			case err != nil || !won:
				r.m.claims.WithLabelValues("lost").Inc()
			case rec.Attempts >= maxIdempotent:
				r.fail(rec, Unknown, fmt.Sprintf("no answer in %d tries; %s", rec.Attempts, rec.LastError))
			default:
				r.m.claims.WithLabelValues("won").Inc()
				r.send(rec, to)
			}
		})
	}
}

// Deriver returns a function for Options.Derive: it creates the outbox records
// of every terminal task that, by the read model, has intents without them.
func Deriver(v *view.View, tasks *kv.TaskStore, store *kv.OutboxStore) func(context.Context) error {
	return func(ctx context.Context) error {
		var errs []error
		for _, u := range v.Underived(sweepBatch) {
			t, _, err := tasks.Get(ctx, u.InstallationID, u.ID)
			if errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrNewer) || errors.Is(err, kv.ErrCorrupt) {
				continue
			}
			if err == nil {
				err = store.Derive(ctx, t)
			}
			if err != nil {
				if errs = append(errs, err); ctx.Err() != nil {
					break
				}
			}
		}
		return errors.Join(errs...)
	}
}
