package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
)

const (
	// changesBatch is how many changes are read at once.
	changesBatch = 32
	// changesSize is after how many bytes a part of the changes ends.
	changesSize = 2 << 20
)

// Headers of messages that matter when they are written again.
const (
	headerTTL      = "Nats-TTL"
	expectedPrefix = "Nats-Expected-"
)

// change is a record that was written, or removed, after the snapshot of its
// stream began: the snapshot has neither it nor, any more, what was there
// before.
type change struct {
	Subject string      `json:"subject"`
	Header  nats.Header `json:"header,omitempty"`
	Data    []byte      `json:"data"`
	At      time.Time   `json:"at"`
}

// changes reads what was written to KV_STATE after a sequence, and hands it on
// in parts. A key that is written meanwhile is read again at its new place, so
// once the end is reached none is missing.
func changes(ctx context.Context, js jetstream.JetStream, after uint64, part func([]change) error) error {
	cons, err := js.CreateConsumer(ctx, kv.StreamState, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	})
	if err != nil {
		return fmt.Errorf("read changes: %w", err)
	}
	defer func() { _ = js.DeleteConsumer(context.WithoutCancel(ctx), kv.StreamState, cons.CachedInfo().Name) }()
	var list []change
	size := 0
	flush := func() error {
		if len(list) == 0 {
			return nil
		}
		err := part(list)
		list, size = nil, 0
		return err
	}
	for left := cons.CachedInfo().NumPending; left > 0; {
		batch, err := cons.FetchNoWait(changesBatch)
		if err != nil {
			return fmt.Errorf("read changes: %w", err)
		}
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return fmt.Errorf("read changes: %w", err)
			}
			left, size = meta.NumPending, size+len(m.Data())
			list = append(list, change{m.Subject(), m.Headers(), m.Data(), meta.Timestamp.UTC()})
			if size >= changesSize {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if err := errors.Join(batch.Error(), ctx.Err()); err != nil {
			return fmt.Errorf("read changes: %w", err)
		}
		if left > 0 { // what was to come may have been overwritten meanwhile
			info, err := cons.Info(ctx)
			if err != nil {
				return fmt.Errorf("read changes: %w", err)
			}
			left = info.NumPending
		}
	}
	return flush()
}

// apply writes a change to a restored stream. One that would have expired by
// now is left out, unless nothing expires there.
func (c change) apply(ctx context.Context, js jetstream.JetStream, expires bool, now time.Time) error {
	m := &nats.Msg{Subject: c.Subject, Data: c.Data, Header: nats.Header{}}
	for k, v := range c.Header {
		if len(k) < len(expectedPrefix) || k[:len(expectedPrefix)] != expectedPrefix {
			m.Header[k] = v
		}
	}
	if text := m.Header.Get(headerTTL); text != "" {
		m.Header.Del(headerTTL)
		ttl, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("write change of %s: %w", c.Subject, err)
		}
		if left := ttl - now.Sub(c.At); expires && left < time.Second {
			return nil
		} else if expires {
			m.Header.Set(headerTTL, left.Truncate(time.Second).String())
		}
	}
	if _, err := js.PublishMsg(ctx, m, jetstream.WithExpectStream(kv.StreamState)); err != nil {
		return fmt.Errorf("write change of %s: %w", c.Subject, err)
	}
	return nil
}

// applyChanges writes the changes of an archive, which come after the chunks
// of their stream.
func (a *Archive) applyChanges(ctx context.Context, js jetstream.JetStream, s Stream, o RestoreOptions) error {
	for range s.Changes {
		b, err := a.next(s.Name)
		if err != nil {
			return err
		}
		var list []change
		if err := json.Unmarshal(b, &list); err != nil {
			return fmt.Errorf("%w: changes: %w", ErrDamaged, err)
		}
		for _, c := range list {
			if err := c.apply(ctx, js, o.config == nil, time.Now()); err != nil {
				return err
			}
		}
	}
	return nil
}
