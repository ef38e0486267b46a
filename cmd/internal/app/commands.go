package app

import (
	"context"
	"fmt"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// commandTimeout bounds what a person waits for.
const commandTimeout = 8 * time.Second

// commands are what a person may do to a task.
type commands struct {
	store  *kv.TaskStore
	outbox *kv.OutboxStore
	now    func() time.Time
}

// Retry queues a completed, failed or cancelled task again.
func (c *commands) Retry(ctx context.Context, installation int64, id task.ID, _ string) (task.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	r, _, err := c.store.Change(ctx, installation, id, func(r task.Record) (task.Record, error) {
		// The retried record forgets its intents: their records are made before.
		if err := c.outbox.Derive(ctx, r); err != nil {
			return r, err
		}
		return r.Retry(c.now())
	}, func(r task.Record) bool { return r.BudgetFrom == r.Attempts && r.Attempts > 0 && !r.State.Terminal() })
	if err != nil {
		return r, fmt.Errorf("retry task: %w", err)
	}
	return r, nil
}

// Cancel ends a queued or running task; a running one's context is cancelled
// by the worker that holds it, which sees the record change.
func (c *commands) Cancel(ctx context.Context, installation int64, id task.ID, caller, reason string) (task.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if reason == "" {
		reason = "cancelled by " + caller
	}
	r, _, err := c.store.Change(ctx, installation, id, func(r task.Record) (task.Record, error) {
		return r.Cancel(reason, c.now())
	}, func(r task.Record) bool { return r.State == task.Cancelled && r.Reason == reason })
	if err != nil {
		return r, fmt.Errorf("cancel task: %w", err)
	}
	return r, nil
}
