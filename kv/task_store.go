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

// TaskStore is the only door to task records, supersede pointers, the replay
// guard, beats and the pause switch. Every change of a record is a CAS.
type TaskStore struct {
	b       *Bucket
	closing Closing
}

// Closing is what happens when a task ends, whoever ends it.
type Closing struct {
	// Intents are what is to be sent, numbered from n; they are written with
	// the terminal state, in one record (OB-38). It must be pure.
	Intents func(r task.Record, n int) []task.Intent
	// Ended is told of a terminal record with intents after it was written. An
	// end whose answer was lost is not told: the relay's sweep finds it.
	Ended func(ctx context.Context, r task.Record)
}

// SetClosing sets what happens when a task ends, before the store is used.
func (s *TaskStore) SetClosing(c Closing) { s.closing = c }

// close is the record to write for r: with its intents if it ends.
func (s *TaskStore) close(r task.Record) task.Record {
	if s.closing.Intents == nil {
		return r
	}
	return r.Close(s.closing.Intents)
}

func (s *TaskStore) ended(ctx context.Context, r task.Record) {
	if s.closing.Ended != nil && r.State.Terminal() && len(r.Intents) > 0 {
		s.closing.Ended(ctx, r)
	}
}

// OpenTaskStore binds to bucket STATE.
func OpenTaskStore(ctx context.Context, js jetstream.JetStream) (*TaskStore, error) {
	b, err := OpenBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	return &TaskStore{b: b}, nil
}

// SetHooks sets failpoints; for tests, before the store is used.
func (s *TaskStore) SetHooks(h *Hooks) { s.b.Hooks = h }

// Get reads a task's record and its revision from the leader.
func (s *TaskStore) Get(ctx context.Context, installation int64, id task.ID) (task.Record, uint64, error) {
	e, err := s.b.Get(ctx, TaskKey(installation, id))
	if err != nil {
		return task.Record{}, 0, err
	}
	r, err := task.DecodeRecord(e.Value)
	return r, e.Revision, err
}

// Create writes a record that must not exist yet.
func (s *TaskStore) Create(ctx context.Context, r task.Record) (uint64, error) {
	r = s.close(r)
	b, err := encodeRecord(r)
	if err != nil {
		return 0, err
	}
	rev, err := s.b.Create(ctx, TaskKey(r.InstallationID, r.ID), b, 0)
	if err == nil {
		s.ended(ctx, r)
	}
	return rev, err
}

// Update writes a record over revision rev; ErrConflict if another came between.
func (s *TaskStore) Update(ctx context.Context, r task.Record, rev uint64) (uint64, error) {
	r = s.close(r)
	b, err := encodeRecord(r)
	if err != nil {
		return 0, err
	}
	nrev, err := s.b.Update(ctx, TaskKey(r.InstallationID, r.ID), b, rev, 0)
	if err == nil {
		s.ended(ctx, r)
	}
	return nrev, err
}

// Change reads a record, applies f and writes it back, anew from a fresh read
// when another write came between or the answer was lost, for at most 5 s
// (DT-18). f must be repeatable; its error ends the change. done recognises a record
// that f's own earlier, unanswered write made; it may be nil when repeating f
// on it is harmless. On an error the record is the one last read.
func (s *TaskStore) Change(ctx context.Context, installation int64, id task.ID, f func(task.Record) (task.Record, error), done func(task.Record) bool) (task.Record, uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	wait := 10 * time.Millisecond
	for unsure := false; ; {
		r, rev, err := s.Get(ctx, installation, id)
		if err != nil {
			return task.Record{}, 0, err
		}
		if unsure && done != nil && done(r) {
			return r, rev, nil
		}
		n, err := f(r)
		if err != nil {
			return r, rev, err
		}
		nrev, err := s.Update(ctx, n, rev)
		switch {
		case err == nil:
			return n, nrev, nil
		case errors.Is(err, ErrConflict):
			if ctx.Err() != nil {
				return r, rev, err
			}
		case errors.Is(err, ErrUnknown):
			unsure = true
			if !sleep(ctx, wait) {
				return r, rev, err
			}
			wait = min(2*wait, 500*time.Millisecond)
		default:
			return r, rev, err
		}
	}
}

// Pointer reads the newest review under a key; nil and revision 0 if none.
func (s *TaskStore) Pointer(ctx context.Context, k task.SupersedeKey) (*task.Pointer, uint64, error) {
	e, err := s.b.Get(ctx, SupersedeKey(k))
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var p task.Pointer
	if err := task.Decode(e.Value, &p, &p.V); err != nil {
		return nil, 0, fmt.Errorf("decode supersede pointer %s: %w", k, err)
	}
	return &p, e.Revision, nil
}

// SetPointer moves the pointer by CAS; rev 0 creates it.
func (s *TaskStore) SetPointer(ctx context.Context, k task.SupersedeKey, p task.Pointer, rev uint64) error {
	p.V = task.Version
	b, err := json.Marshal(&p)
	if err != nil {
		return fmt.Errorf("encode supersede pointer: %w", err)
	}
	if rev == 0 {
		_, err = s.b.Create(ctx, SupersedeKey(k), b, 0)
		if errors.Is(err, ErrExists) {
			return fmt.Errorf("%w: %w", ErrConflict, err)
		}
		return err
	}
	_, err = s.b.Update(ctx, SupersedeKey(k), b, rev, 0)
	return err
}

// seen is the replay guard's value.
type seen struct {
	V        int             `json:"v"`
	Delivery task.DeliveryID `json:"delivery_id"`
}

// Seen claims a body for a delivery id and returns the id that holds it:
// itself, or the first one that brought the same body within ttl.
func (s *TaskStore) Seen(ctx context.Context, source, sha256 string, id task.DeliveryID, ttl time.Duration) (task.DeliveryID, error) {
	b, err := json.Marshal(seen{V: task.Version, Delivery: id})
	if err != nil {
		return "", fmt.Errorf("encode replay guard: %w", err)
	}
	key := SeenKey(source, sha256)
	_, err = s.b.Create(ctx, key, b, ttl)
	if err == nil {
		return id, nil
	}
	if !errors.Is(err, ErrExists) && !errors.Is(err, ErrConflict) {
		return "", err
	}
	e, err := s.b.Get(ctx, key)
	if err != nil {
		return "", err
	}
	var held seen
	if err := task.Decode(e.Value, &held, &held.V); err != nil {
		return "", fmt.Errorf("decode replay guard: %w", err)
	}
	return held.Delivery, nil
}

// Beat is the value of a worker's liveness key; the name is only a label.
type Beat struct {
	V    int    `json:"v"`
	Name string `json:"name"`
}

// BeatTTL is how long a beat outlives its process.
const BeatTTL = 90 * time.Second

// Beat writes the boot's sign of life and returns its revision.
func (s *TaskStore) Beat(ctx context.Context, boot task.BootID, name string) (uint64, error) {
	b, err := json.Marshal(Beat{V: task.Version, Name: name})
	if err != nil {
		return 0, fmt.Errorf("encode beat: %w", err)
	}
	return s.b.Put(ctx, WorkerKey(boot), b, BeatTTL)
}

// EndBeats tells every other process that the boot is gone.
func (s *TaskStore) EndBeats(ctx context.Context, boot task.BootID) error {
	return s.b.Purge(ctx, WorkerKey(boot), 0)
}

// Probe proves that the bucket takes a write now.
func (s *TaskStore) Probe(ctx context.Context, boot task.BootID) error {
	_, err := s.b.Put(ctx, Key(PrefixControl, "probe", string(boot)), []byte(`{"v":1}`), time.Minute)
	return err
}
