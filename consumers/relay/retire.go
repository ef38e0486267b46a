package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// errIntents means that a task still carries intents: its outbox records stay,
// for they would be derived, and sent, again.
var errIntents = errors.New("task still carries its intents")

// Retire removes the delivered and failed records that have not changed since
// before (OB-53), each only once its task is a tombstone, gone, or without
// intents. It returns how many it removed.
func Retire(ctx context.Context, v *view.View, tasks *kv.TaskStore, store *kv.OutboxStore, before time.Time) (int, error) {
	release := func(ctx context.Context, r outbox.Record) error {
		t, _, err := tasks.Get(ctx, r.InstallationID, task.ID(r.TaskID))
		switch {
		case errors.Is(err, kv.ErrNotFound):
			return nil
		case err != nil:
			return err
		case len(t.Intents) > 0:
			return errIntents
		}
		return nil
	}
	seen := map[outbox.ID]bool{}
	removed := 0
	for ctx.Err() == nil {
		progress := false
		for _, it := range v.AgedOutbox(before, sweepBatch+len(seen)) {
			if seen[it.ID] {
				continue // it stays, or the view will follow
			}
			seen[it.ID], progress = true, true
			done, err := store.Retire(ctx, it.ID, before, release)
			if err != nil && !errors.Is(err, errIntents) {
				return removed, fmt.Errorf("retire outbox after %d records: %w", removed, err)
			}
			if done {
				removed++
			}
		}
		if !progress {
			return removed, nil
		}
	}
	return removed, ctx.Err()
}
