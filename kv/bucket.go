package kv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of the server and of its key-value convention.
const (
	headerExpectedSubjectSeq = "Nats-Expected-Last-Subject-Sequence"
	headerTTL                = "Nats-TTL"
	headerKVOperation        = "KV-Operation"
	headerRollup             = "Nats-Rollup"
	kvPrefix                 = "$KV." + BucketState + "."
)

// callTimeout bounds every call that comes without a nearer deadline (DT-17).
const callTimeout = 5 * time.Second

// markerTTL is how long a purge's marker stays, so that watchers see it.
const markerTTL = time.Hour

// Hooks are failpoints that tests set; nil in production. Before runs ahead
// of a store step and fails it with nothing written; After runs behind it
// and turns its success into the given error, as a lost answer would.
type Hooks struct {
	Before func(ctx context.Context, op, key string) error
	After  func(ctx context.Context, op, key string) error
}

func (h *Hooks) before(ctx context.Context, op, key string) error {
	if h == nil || h.Before == nil {
		return nil
	}
	return h.Before(ctx, op, key)
}

func (h *Hooks) after(ctx context.Context, op, key string) error {
	if h == nil || h.After == nil {
		return nil
	}
	return h.After(ctx, op, key)
}

// Entry is a value and the revision it was read at.
type Entry struct {
	Value    []byte
	Revision uint64
}

// Bucket is compare-and-set access to bucket STATE. Reads go to the leader.
type Bucket struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	// Hooks are failpoints for tests.
	Hooks *Hooks
}

// OpenBucket binds to stream KV_STATE, which must exist (package streams).
func OpenBucket(ctx context.Context, js jetstream.JetStream) (*Bucket, error) {
	s, err := js.Stream(ctx, StreamState)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", StreamState, classify(err))
	}
	return &Bucket{js: js, stream: s}, nil
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// Get reads a key from the leader. A deleted or expired key is ErrNotFound.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	if err := b.Hooks.before(ctx, "get", key); err != nil {
		return Entry{}, err
	}
	m, err := b.last(ctx, key)
	if err != nil {
		return Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	if m.Header.Get(headerKVOperation) != "" {
		return Entry{}, fmt.Errorf("get %s: %w", key, ErrNotFound)
	}
	return Entry{Value: m.Data, Revision: m.Sequence}, nil
}

func (b *Bucket) last(ctx context.Context, key string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := b.stream.GetLastMsgForSubject(ctx, kvPrefix+key)
	return m, classify(err)
}

// createTries bounds how often Create looks again at a key that others write
// and remove at the same time.
const createTries = 5

// Create writes a key that must not exist; ErrExists if it does. ttl 0 is for ever.
func (b *Bucket) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	var on uint64 // the marker of a purge counts as a last message: create on top of it
	for range createTries {
		rev, err := b.publish(ctx, "create", key, value, ttl, on)
		if !errors.Is(err, ErrConflict) {
			return rev, err
		}
		m, err := b.last(ctx, key)
		switch {
		case errors.Is(err, ErrNotFound): // another write is in flight, or was just purged
			on = 0
		case err != nil:
			return 0, fmt.Errorf("create %s: %w", key, err)
		case m.Header.Get(headerKVOperation) == "":
			return 0, fmt.Errorf("create %s: %w", key, ErrExists)
		default:
			on = m.Sequence
		}
	}
	return 0, fmt.Errorf("create %s: %w", key, ErrConflict)
}

// Update writes a key that must be at revision rev; ErrConflict if it is not.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	return b.publish(ctx, "update", key, value, ttl, rev)
}

// Put writes without an expected revision. Only beats may: they decide nothing.
func (b *Bucket) Put(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	return b.send(ctx, "put", key, message(key, value, ttl))
}

// Purge removes a key at revision rev (0: whatever it is) and leaves a marker
// that watchers see and that expires by itself.
func (b *Bucket) Purge(ctx context.Context, key string, rev uint64) error {
	m := message(key, nil, markerTTL)
	m.Header.Set(headerKVOperation, "PURGE")
	m.Header.Set(headerRollup, "sub")
	if rev > 0 {
		m.Header.Set(headerExpectedSubjectSeq, strconv.FormatUint(rev, 10))
	}
	_, err := b.send(ctx, "purge", key, m)
	return err
}

func message(key string, value []byte, ttl time.Duration) *nats.Msg {
	m := &nats.Msg{Subject: kvPrefix + key, Data: value, Header: nats.Header{}}
	if ttl > 0 {
		m.Header.Set(headerTTL, ttl.String())
	}
	return m
}

func (b *Bucket) publish(ctx context.Context, op, key string, value []byte, ttl time.Duration, rev uint64) (uint64, error) {
	m := message(key, value, ttl)
	m.Header.Set(headerExpectedSubjectSeq, strconv.FormatUint(rev, 10))
	return b.send(ctx, op, key, m)
}

func (b *Bucket) send(ctx context.Context, op, key string, m *nats.Msg) (uint64, error) {
	if err := b.Hooks.before(ctx, op, key); err != nil {
		return 0, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	ack, err := publish(ctx, b.js.Conn(), m)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", op, key, classify(err))
	}
	if err := b.Hooks.after(ctx, op, key); err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// each visits the values of all keys that match, as a watch gives them.
func (b *Bucket) each(ctx context.Context, filter string, visit func(e Entry) error) error {
	return b.entries(ctx, filter, func(_ string, e Entry) error { return visit(e) })
}

// entries visits all keys that match with their values.
func (b *Bucket) entries(ctx context.Context, filter string, visit func(key string, e Entry) error) error {
	bucket, err := b.js.KeyValue(ctx, BucketState)
	if err != nil {
		return fmt.Errorf("open bucket: %w", classify(err))
	}
	w, err := bucket.Watch(ctx, filter, jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("read %s: %w", filter, classify(err))
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("read %s: %w: %w", filter, ErrUnknown, ctx.Err())
		case e, open := <-w.Updates():
			switch {
			case !open:
				return fmt.Errorf("read %s: %w: watch closed", filter, ErrUnknown)
			case e == nil:
				return nil
			}
			if err := visit(e.Key(), Entry{Value: e.Value(), Revision: e.Revision()}); err != nil {
				return err
			}
		}
	}
}
