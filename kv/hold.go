package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// HeldBy claims and pauses what a restore holds back. It is no boot: nothing
// of it ever sends or runs.
const HeldBy = "restore"

// whyHeld is the last error of a reply that a restore holds back.
const whyHeld = "restored from a backup: it may have been sent after that was taken"

// Held is what Hold keeps from happening by itself.
type Held struct {
	// Replies are outbox records whose outcome is unknown now.
	Replies int `json:"replies"`
	// Requests are operator tasks whose attempt's outcome is unknown now.
	Requests int `json:"requests"`
	// Live are the tasks that wait, queued or running, for the pause to end.
	Live int `json:"live_tasks"`
}

// HoldOptions are what Hold needs to know.
type HoldOptions struct {
	// Tell is the outbox record that tells of a request that was submitted,
	// nil if nobody is told.
	Tell func(t operator.Task) (*outbox.Record, error)
	Now  func() time.Time
}

// Hold makes a store that a backup was restored to safe to start, though the
// belay that the backup is of may have gone on after it was taken. What that
// may have done is done at most once, so it is not done again here: replies
// that are not sent count as unknown (a person resolves each), requests that
// could be attempted as attempted (their issue is looked for), and no task
// runs until a person resumes. It may be repeated.
func Hold(ctx context.Context, js jetstream.JetStream, o HoldOptions) (Held, error) {
	tasks, err := OpenTaskStore(ctx, js)
	if err != nil {
		return Held{}, err
	}
	if err := tasks.Pause(ctx, nil, HeldBy, o.Now()); err != nil {
		return Held{}, fmt.Errorf("pause: %w", err)
	}
	replies, err := OpenOutboxStore(ctx, js, o.Now)
	if err != nil {
		return Held{}, err
	}
	var h Held
	if h.Requests, err = holdRequests(ctx, js, replies, o); err != nil {
		return h, err
	}
	if h.Live, err = deriveAll(ctx, tasks, replies); err != nil {
		return h, err
	}
	h.Replies, err = holdReplies(ctx, replies)
	return h, err
}

// deriveAll makes the outbox records that ended tasks still lack, and counts
// the tasks that have not ended.
func deriveAll(ctx context.Context, tasks *TaskStore, replies *OutboxStore) (live int, err error) {
	err = tasks.b.each(ctx, PrefixTask+".>", func(e Entry) error {
		r, err := task.DecodeRecord(e.Value)
		if err != nil {
			return nil // a newer or damaged one sends nothing
		}
		if !r.State.Terminal() {
			live++
		}
		return replies.Derive(ctx, r)
	})
	return live, err
}

// CreateHeld is Create of a record that may have been sent already, by a belay
// whose records are lost: its outcome is unknown once the lease is over.
func (s *OutboxStore) CreateHeld(ctx context.Context, r outbox.Record) (outbox.Record, error) {
	return s.create(ctx, r, hold(s.now()))
}

// hold claims a record for nobody.
func hold(now time.Time) func(outbox.Record) (outbox.Record, error) {
	c := outbox.Claim{Nonce: HeldBy, Boot: HeldBy, At: outbox.At(now)}
	return func(r outbox.Record) (outbox.Record, error) {
		h, err := r.Take(c, now)
		if err == nil {
			h.LastError = whyHeld
		}
		return h, err
	}
}

// holdReplies claims every pending record for nobody: once the claim's lease
// is over its outcome counts as unknown.
func holdReplies(ctx context.Context, s *OutboxStore) (int, error) {
	n := 0
	err := s.each(ctx, func(r outbox.Record) error {
		if r.Status != outbox.Pending {
			return nil
		}
		_, err := s.change(ctx, r.ID, hold(s.now()))
		if err == nil {
			n++
		}
		if errors.Is(err, outbox.ErrState) || errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return n, fmt.Errorf("hold replies: %w", err)
	}
	return n, nil
}

// holdRequests takes the license from every request that has one to give.
func holdRequests(ctx context.Context, js jetstream.JetStream, replies *OutboxStore, o HoldOptions) (int, error) {
	s, err := OpenEventStore(ctx, js, EventStoreOptions{Now: o.Now})
	if err != nil {
		return 0, err
	}
	open, err := s.InFlight(ctx)
	if err != nil {
		return 0, fmt.Errorf("hold requests: %w", err)
	}
	n := 0
	for _, t := range open {
		if t.State == operator.StateSubmitted && o.Tell != nil {
			if err := holdTelling(ctx, replies, t, o); err != nil {
				return n, err
			}
		}
		held, err := s.restored(ctx, t)
		if err != nil {
			return n, fmt.Errorf("hold request %s: %w", t.ID, err)
		}
		if held {
			n++
		}
	}
	return n, nil
}

// holdTelling makes the reply of a request that was submitted, for holdReplies
// to find.
func holdTelling(ctx context.Context, replies *OutboxStore, t operator.Task, o HoldOptions) error {
	r, err := o.Tell(t)
	if err != nil || r == nil {
		return err
	}
	if _, err = replies.Create(ctx, *r); err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("hold what tells of request %s: %w", t.ID, err)
	}
	return nil
}

// restored appends what operator.Restored says, each event after the one
// before it.
func (s *EventStore) restored(ctx context.Context, t operator.Task) (bool, error) {
	events := t.Restored(s.now())
	for i, e := range events {
		f, err := s.fetch(ctx, t.Owner, t.ID)
		if err != nil {
			return false, err
		}
		if f.task.Revision != t.Revision+i {
			return false, fmt.Errorf("somebody changes it meanwhile: %w", ErrConflict)
		}
		if err := s.append(ctx, t.Owner.Tenant, t.ID, e, f.task.Revision+1, jetstream.WithExpectLastSequencePerSubject(f.last)); err != nil {
			return false, err
		}
	}
	return len(events) > 0, nil
}
