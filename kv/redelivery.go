package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// redeliveryVersion is written to every record of this file; a newer one is
// not read.
const redeliveryVersion = 1

// redeliveryTTL is how long a record outlives its last change. GitHub lists a
// delivery for three days: a record that went before could be made again, and
// its tries counted anew.
const redeliveryTTL = 96 * time.Hour

// RedeliveryCursor is how far GitHub's log of a source's deliveries was read.
type RedeliveryCursor struct {
	V int `json:"v"`
	// At is by GitHub's clock: what was delivered before is settled or has a
	// Redelivery. Zero before the first pass.
	At task.Time `json:"at,omitzero"`
	// PolledAt is when the last whole pass began, by our clock.
	PolledAt task.Time `json:"polled_at,omitzero"`
	// OursAt is when the newest delivery that the log holds was delivered, by
	// GitHub's clock: then at the latest the webhook's URL led here.
	OursAt task.Time `json:"ours_at,omitzero"`
}

// Redelivery is a delivery that GitHub is asked for again until it arrives.
type Redelivery struct {
	V      int             `json:"v"`
	Source string          `json:"source"`
	GUID   task.DeliveryID `json:"guid"`
	// Attempt is GitHub's id of the newest known attempt, by which it is asked.
	Attempt        int64  `json:"attempt"`
	Event          string `json:"event"`
	Action         string `json:"action,omitempty"`
	InstallationID int64  `json:"installation_id,omitempty"`
	// Missing says that GitHub got a 2xx although the log does not hold it.
	Missing bool `json:"missing,omitempty"`
	// FirstAt is when GitHub first tried, by its clock.
	FirstAt task.Time `json:"first_at"`
	// Tries are the requests so far. Before NextAt there is no other.
	Tries  int       `json:"tries"`
	NextAt task.Time `json:"next_at,omitzero"`
	// GaveUp is why there will be none any more, "" while there may be.
	GaveUp string `json:"gave_up,omitempty"`

	rev uint64
}

// RedeliveryStore keeps cursors and redeliveries in STATE. Every change is a
// compare-and-set: ErrConflict means that another process was faster.
type RedeliveryStore struct{ b *Bucket }

// OpenRedeliveryStore binds to bucket STATE.
func OpenRedeliveryStore(ctx context.Context, js jetstream.JetStream) (*RedeliveryStore, error) {
	b, err := OpenBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	return &RedeliveryStore{b: b}, nil
}

// SetHooks sets failpoints; for tests, before the store is used.
func (s *RedeliveryStore) SetHooks(h *Hooks) { s.b.Hooks = h }

// Cursor reads a source's cursor, the zero one if there is none yet.
func (s *RedeliveryStore) Cursor(ctx context.Context, source string) (c RedeliveryCursor, rev uint64, err error) {
	key := RedeliveryCursorKey(source)
	e, err := s.b.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return RedeliveryCursor{}, 0, nil
	}
	if err != nil {
		return RedeliveryCursor{}, 0, err
	}
	if err := task.Decode(e.Value, &c, &c.V); err != nil {
		return RedeliveryCursor{}, 0, fmt.Errorf("decode %s: %w", key, err)
	}
	return c, e.Revision, nil
}

// MoveCursor writes a source's cursor over the revision that was read, 0 for
// none.
func (s *RedeliveryStore) MoveCursor(ctx context.Context, source string, c RedeliveryCursor, rev uint64) error {
	c.V = redeliveryVersion
	key := RedeliveryCursorKey(source)
	value, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	if rev == 0 {
		_, err = s.b.Create(ctx, key, value, 0)
	} else {
		_, err = s.b.Update(ctx, key, value, rev, 0)
	}
	if errors.Is(err, ErrExists) {
		err = fmt.Errorf("create %s: %w", key, ErrConflict)
	}
	return err
}

// All reads the redeliveries of a source. Those of a newer belay are its own.
func (s *RedeliveryStore) All(ctx context.Context, source string) ([]Redelivery, error) {
	var out []Redelivery
	err := s.b.each(ctx, Key(PrefixRedelivery, source)+".>", func(e Entry) error {
		var r Redelivery
		if task.Decode(e.Value, &r, &r.V) == nil {
			r.rev = e.Revision
			out = append(out, r)
		}
		return nil
	})
	return out, err
}

// Add makes a record; one that is there stays as it is.
func (s *RedeliveryStore) Add(ctx context.Context, r Redelivery) error {
	value, err := encodeRedelivery(r)
	if err != nil {
		return err
	}
	_, err = s.b.Create(ctx, RedeliveryKey(r.Source, r.GUID), value, redeliveryTTL)
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// Change writes a record that All or Change returned, and returns it with
// its new revision.
func (s *RedeliveryStore) Change(ctx context.Context, r Redelivery) (Redelivery, error) {
	value, err := encodeRedelivery(r)
	if err != nil {
		return r, err
	}
	r.rev, err = s.b.Update(ctx, RedeliveryKey(r.Source, r.GUID), value, r.rev, redeliveryTTL)
	return r, err
}

// Settle removes the record of a delivery that arrived.
func (s *RedeliveryStore) Settle(ctx context.Context, r Redelivery) error {
	return s.b.Purge(ctx, RedeliveryKey(r.Source, r.GUID), r.rev)
}

func encodeRedelivery(r Redelivery) ([]byte, error) {
	r.V = redeliveryVersion
	value, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode redelivery of %s: %w", r.GUID, err)
	}
	return value, nil
}
