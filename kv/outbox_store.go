package kv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// Names of the outbox in the bucket and on the server.
const (
	PrefixOutbox  = "outbox"
	ConsumerRelay = "relay"
)

// OutboxKey is the key of an outbox record.
func OutboxKey(id outbox.ID) string { return Key(PrefixOutbox, string(id)) }

// OutboxStore is the only door to outbox records. Every change is a CAS; what
// each call may change is the table of package outbox.
type OutboxStore struct {
	b   *Bucket
	now func() time.Time
}

// OpenOutboxStore binds to bucket STATE. now is the local clock.
func OpenOutboxStore(ctx context.Context, js jetstream.JetStream, now func() time.Time) (*OutboxStore, error) {
	b, err := OpenBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	return &OutboxStore{b: b, now: now}, nil
}

// SetHooks sets failpoints; for tests, before the store is used.
func (s *OutboxStore) SetHooks(h *Hooks) { s.b.Hooks = h }

// Create writes a new record as pending with no attempts; without an id it
// gets a UUID. An id that exists is ErrExists, a record that cannot be written
// outbox.ErrInvalid. It returns the record as written.
func (s *OutboxStore) Create(ctx context.Context, r outbox.Record) (outbox.Record, error) {
	return s.create(ctx, r, func(r outbox.Record) (outbox.Record, error) { return r, nil })
}

// create writes a new record, pending at first, as f makes it.
func (s *OutboxStore) create(ctx context.Context, r outbox.Record, f func(outbox.Record) (outbox.Record, error)) (outbox.Record, error) {
	if r.ID == "" {
		r.ID = outbox.ID(uuid.NewString())
	}
	payload, err := outbox.Freeze(r.Payload)
	if err != nil {
		return outbox.Record{}, fmt.Errorf("create outbox record %s: %w", r.ID, err)
	}
	r.V, r.Payload, r.Status, r.Attempts, r.LastError = outbox.Version, payload, outbox.Pending, 0, ""
	r.Claim, r.NotBefore, r.LinkedTo, r.Resolved = outbox.Claim{}, outbox.Time{}, "", nil
	if r.CreatedAt.IsZero() {
		r.CreatedAt = outbox.At(s.now())
	}
	r.UpdatedAt = r.CreatedAt
	if err := r.Check(); err != nil {
		return outbox.Record{}, fmt.Errorf("create outbox record %s: %w", r.ID, err)
	}
	if r, err = f(r); err != nil {
		return outbox.Record{}, fmt.Errorf("create outbox record %s: %w", r.ID, err)
	}
	b, err := encodeOutbox(r)
	if err != nil {
		return outbox.Record{}, err
	}
	if _, err := s.b.Create(ctx, OutboxKey(r.ID), b, 0); err != nil {
		return outbox.Record{}, err
	}
	return r, nil
}

// Derive creates the records of a terminal task's intents; those that exist
// are left as they are. It may be repeated by anyone at any time while the
// task's record carries the intents.
func (s *OutboxStore) Derive(ctx context.Context, t task.Record) error {
	if t.Tombstone || !t.State.Terminal() {
		return nil
	}
	intents := make([]outbox.Intent, len(t.Intents))
	for i, in := range t.Intents {
		intents[i] = outbox.Intent{N: in.N, Channel: in.Channel, To: in.To, Payload: in.Payload}
	}
	o := outbox.Origin{TaskID: string(t.ID), InstallationID: t.InstallationID, Repo: t.Repo, At: t.UpdatedAt.Time}
	for _, r := range outbox.Derive(o, intents) {
		if _, err := s.Create(ctx, r); err != nil && !errors.Is(err, ErrExists) {
			return fmt.Errorf("derive outbox of task %s: %w", t.ID, err)
		}
	}
	return nil
}

// Find returns the record with an id, nil if there is none.
func (s *OutboxStore) Find(ctx context.Context, id outbox.ID) (*outbox.Record, error) {
	r, _, err := s.get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

func (s *OutboxStore) get(ctx context.Context, id outbox.ID) (outbox.Record, Entry, error) {
	e, err := s.b.Get(ctx, OutboxKey(id))
	if err != nil {
		return outbox.Record{}, Entry{}, err
	}
	r, err := DecodeOutbox(e.Value)
	return r, e, err
}

// Claim moves a record from pending to delivering and reports whether this
// call did: true for exactly one caller, who alone may send it (OB-17, 19).
// A missing or non-pending record is false. A lost answer is settled within
// the call by the claim's nonce; an error means that nobody knows yet whether
// the claim is ours, so it must not be acted upon.
func (s *OutboxStore) Claim(ctx context.Context, id outbox.ID, boot task.BootID) (outbox.Record, bool, error) {
	return s.claim(ctx, id, boot, outbox.Record.Take)
}

// Reclaim takes over a record whose outcome is unknown; only for channels
// where a repetition changes nothing.
func (s *OutboxStore) Reclaim(ctx context.Context, id outbox.ID, boot task.BootID) (outbox.Record, bool, error) {
	return s.claim(ctx, id, boot, outbox.Record.Retake)
}

func (s *OutboxStore) claim(ctx context.Context, id outbox.ID, boot task.BootID, take func(outbox.Record, outbox.Claim, time.Time) (outbox.Record, error)) (outbox.Record, bool, error) {
	now := s.now()
	c := outbox.Claim{Nonce: uuid.NewString(), Boot: string(boot), At: outbox.At(now)}
	r, err := s.change(ctx, id, func(r outbox.Record) (outbox.Record, error) { return take(r, c, now) })
	switch {
	case err == nil:
		return r, true, nil
	case errors.Is(err, ErrNotFound), errors.Is(err, outbox.ErrState):
		return r, false, nil
	}
	return outbox.Record{}, false, fmt.Errorf("claim outbox record %s: %w", id, err)
}

// RecordAttempt counts a try that did not succeed; the record stays
// delivering (OB-21). notBefore is when the next try begins, zero if never.
// Unknown id: ErrNotFound; not delivering: outbox.ErrState.
func (s *OutboxStore) RecordAttempt(ctx context.Context, id outbox.ID, why string, notBefore time.Time) (outbox.Record, error) {
	now := s.now()
	return s.change(ctx, id, func(r outbox.Record) (outbox.Record, error) { return r.Attempt(why, notBefore, now) })
}

// MarkDelivered ends a record that its recipient accepted; repeating it
// changes nothing (OB-22). Unknown id: ErrNotFound.
func (s *OutboxStore) MarkDelivered(ctx context.Context, id outbox.ID) (outbox.Record, error) {
	now := s.now()
	return s.change(ctx, id, func(r outbox.Record) (outbox.Record, error) { return r.Deliver(now) })
}

// MarkFailed ends a record for good; the last error is replaced only if why is
// given (OB-23). Unknown id: ErrNotFound.
func (s *OutboxStore) MarkFailed(ctx context.Context, id outbox.ID, why string) (outbox.Record, error) {
	now := s.now()
	return s.change(ctx, id, func(r outbox.Record) (outbox.Record, error) { return r.Fail(why, now) })
}

// change reads a record, applies f and writes it back, anew from a fresh read
// when another write came between or the answer was lost, for at most 5 s. f
// must be pure: a value that reads as the one last tried is its own write.
func (s *OutboxStore) change(ctx context.Context, id outbox.ID, f func(outbox.Record) (outbox.Record, error)) (outbox.Record, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var tried []byte
	for wait := 10 * time.Millisecond; ; {
		r, e, err := s.get(ctx, id)
		if err == nil && tried != nil && bytes.Equal(e.Value, tried) {
			return r, nil
		}
		var n outbox.Record
		if err == nil {
			if n, err = f(r); err != nil {
				return r, err
			}
			if tried, err = encodeOutbox(n); err != nil || bytes.Equal(e.Value, tried) {
				return n, err
			}
			_, err = s.b.Update(ctx, OutboxKey(id), tried, e.Revision, 0)
		}
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, ErrConflict) && ctx.Err() == nil:
		case errors.Is(err, ErrUnknown) && sleep(ctx, wait):
			wait = min(2*wait, 500*time.Millisecond)
		default:
			return r, err
		}
	}
}

func encodeOutbox(r outbox.Record) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // what was frozen stays as it is
	if err := enc.Encode(&r); err != nil {
		return nil, fmt.Errorf("encode outbox record %s: %w", r.ID, err)
	}
	if b.Len() > task.MaxRecord {
		return nil, fmt.Errorf("encode outbox record %s: %w", r.ID, ErrTooLarge)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeOutbox reads an outbox record's value; ErrNewer or ErrCorrupt if it
// cannot.
func DecodeOutbox(data []byte) (outbox.Record, error) {
	var r outbox.Record
	if err := task.Decode(data, &r, &r.V); err != nil {
		return outbox.Record{}, fmt.Errorf("decode outbox record: %w", err)
	}
	if r.ID == "" || !slices.Contains(outbox.Statuses, r.Status) {
		return outbox.Record{}, fmt.Errorf("decode outbox record: %w: id %q, status %q", ErrCorrupt, r.ID, r.Status)
	}
	return r, nil
}
