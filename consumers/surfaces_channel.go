package consumers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// closing is a channel of the outbox that closes a part of what an ended task
// shows on GitHub, by what its record says when it is delivered.
type closing struct {
	store *kv.TaskStore
	now   func() time.Time
	close func(ctx context.Context, t task.Record, why string) error
	// always: it matters whatever is open.
	always bool
}

// CheckChannel closes check runs of ended tasks.
func (g *GitHub) CheckChannel(store *kv.TaskStore, now func() time.Time) relay.Channel {
	return &closing{store: store, now: now, close: func(ctx context.Context, t task.Record, why string) error {
		s, err := g.surfaces(&t, Grip{})
		if err != nil {
			return err
		}
		return s.CloseCheck(ctx, t, why)
	}}
}

// CommentChannel makes the status comments of ended tasks say so.
func (g *GitHub) CommentChannel(store *kv.TaskStore, now func() time.Time) relay.Channel {
	return &closing{store: store, now: now, close: func(ctx context.Context, t task.Record, why string) error {
		s, err := g.surfaces(&t, Grip{})
		if err != nil {
			return err
		}
		return s.CloseComment(ctx, t, why)
	}}
}

// Idempotent implements relay.Channel: a second edit says the same.
func (c *closing) Idempotent() bool { return true }

// Deliver implements relay.Channel. A task that was queued again meanwhile, or
// whose surfaces its holder closed, has nothing left to close.
func (c *closing) Deliver(ctx context.Context, m relay.Message) relay.Answer {
	t, _, err := c.store.Get(ctx, m.InstallationID, task.ID(m.TaskID))
	switch {
	case errors.Is(err, kv.ErrUnknown):
		return relay.Answer{Verdict: relay.Refused, Reason: err.Error()} // nothing was sent
	case err != nil:
		return relay.Answer{Verdict: relay.Final, Reason: fmt.Sprintf("the task's record cannot be read: %v", err)}
	case t.Tombstone:
		return relay.Answer{Verdict: relay.Final, Reason: "the task is past its retention"}
	case !c.always && (!t.State.Terminal() || t.Surfaces != task.SurfacesOpen):
		return relay.Answer{Verdict: relay.Delivered, Reason: "nothing is open"}
	}
	return c.answer(c.close(ctx, t, why(&t)))
}

// why says to people how a task ended that has no result.
func why(t *task.Record) string {
	if t.SupersededBy != "" {
		return fmt.Sprintf("%s, by task %s", t.Reason, t.SupersededBy)
	}
	return t.Reason
}

// answer maps an error of githubapp to what is known after the try.
func (c *closing) answer(err error) relay.Answer {
	var limit *githubapp.RateLimitError
	switch {
	case err == nil:
		return relay.Answer{Verdict: relay.Delivered}
	case errors.As(err, &limit):
		return relay.Answer{Verdict: relay.Refused, Reason: limit.Reason(), RetryAfter: max(0, limit.Until.Sub(c.now()))}
	case errors.Is(err, githubapp.ErrUnknown):
		return relay.Answer{Verdict: relay.Unknown, Reason: err.Error()}
	case passing(err):
		return relay.Answer{Verdict: relay.Refused, Reason: err.Error()}
	}
	return relay.Answer{Verdict: relay.Final, Reason: err.Error()}
}
