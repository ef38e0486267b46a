package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
)

const (
	pullBatch = 64
	// pullHeartbeat bounds how long a dead pull stays unnoticed.
	pullHeartbeat = 5 * time.Second
	// reopenWait is the pause before a broken pull is opened again.
	reopenWait = 250 * time.Millisecond
)

func (r *Relay) pullLoop() {
	for r.pull.Err() == nil {
		if err := r.pullOnce(); err != nil && r.pull.Err() == nil {
			r.log.Warn("pull of relay ended, opening it again", "class", "relay_pull", "err", err)
			select {
			case <-r.pull.Done():
			case <-time.After(reopenWait):
			}
		}
	}
}

func (r *Relay) pullOnce() error {
	cons, err := r.o.JS.Consumer(r.pull, kv.StreamState, kv.ConsumerRelay)
	if errors.Is(err, jetstream.ErrConsumerNotFound) && r.o.Restore != nil {
		if err = r.o.Restore(r.pull, kv.StreamState, kv.ConsumerRelay); err == nil {
			cons, err = r.o.JS.Consumer(r.pull, kv.StreamState, kv.ConsumerRelay)
		}
	}
	if err != nil {
		return fmt.Errorf("bind consumer %s: %w", kv.ConsumerRelay, err)
	}
	it, err := cons.Messages(jetstream.PullMaxMessages(pullBatch), jetstream.PullExpiry(2*pullHeartbeat),
		jetstream.PullHeartbeat(pullHeartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return fmt.Errorf("pull from %s: %w", kv.ConsumerRelay, err)
	}
	defer it.Stop()
	defer context.AfterFunc(r.pull, it.Stop)()
	for {
		// A missing heartbeat ends Next after two of them, so a wait that is
		// longer and times out was alive all the while.
		msg, err := it.Next(jetstream.NextMaxWait(3 * pullHeartbeat))
		switch {
		case r.pull.Err() != nil:
			return nil
		case errors.Is(err, nats.ErrTimeout):
		case err != nil:
			return fmt.Errorf("pull from %s: %w", kv.ConsumerRelay, err)
		default:
			r.handle(msg)
		}
		r.lastPull.Store(r.o.Now().UnixNano())
	}
}

// handle looks at one wake-up. What it says of a record that is not pending
// any more needs no further look: no record ever becomes pending again.
func (r *Relay) handle(msg jetstream.Msg) {
	if msg.Headers().Get("KV-Operation") != "" {
		r.m.messages.WithLabelValues("removed").Inc()
		_ = msg.Ack()
		return
	}
	rec, err := kv.DecodeOutbox(msg.Data())
	switch {
	case errors.Is(err, kv.ErrNewer):
		r.m.messages.WithLabelValues("newer").Inc()
		_ = msg.NakWithDelay(30 * time.Second) // a newer belay will send it
	case err != nil:
		r.m.messages.WithLabelValues("poison").Inc()
		r.log.Error("outbox record cannot be read and is left alone", "class", "poison", "subject", msg.Subject(), "err", err)
		_ = msg.Ack()
	case rec.Status != outbox.Pending:
		r.m.messages.WithLabelValues("settled").Inc()
		_ = msg.Ack()
	default:
		r.m.messages.WithLabelValues("pending").Inc()
		r.hold(rec.ID, msg)
	}
}
