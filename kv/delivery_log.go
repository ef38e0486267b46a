package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// HeaderRepo carries the repository's name for people; subjects carry its id.
const HeaderRepo = "Belay-Repo"

// taskNamespace is the fixed UUIDv5 namespace of task ids.
var taskNamespace = uuid.MustParse("5d2c6a0e-8f3b-5c1e-9a74-be1a900d0001")

// TaskID is the id of the task a delivery makes: UUIDv5 of source, newline,
// message id. It is the same on every process and after every restart.
func TaskID(source, messageID string) task.ID {
	return task.ID(uuid.NewSHA1(taskNamespace, []byte(source+"\n"+messageID)).String())
}

// Accepted says what became of a delivery that was handed to the log.
type Accepted struct {
	// Delivery is what the log holds: the one just stored, or on Duplicate
	// the first one.
	Delivery task.Delivery
	// Seq is its sequence in stream WEBHOOKS.
	Seq uint64
	// Duplicate is true when the log held this delivery before.
	Duplicate bool
}

// DeliveryLog is stream WEBHOOKS, the commit of every accepted webhook.
type DeliveryLog struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	// Hooks are failpoints for tests.
	Hooks *Hooks
	// Traceparent is the W3C trace context of a task's message, "" for none;
	// nil: no message has one.
	Traceparent func(id task.ID) string
}

// OpenDeliveryLog binds to stream WEBHOOKS, which must exist.
func OpenDeliveryLog(ctx context.Context, js jetstream.JetStream) (*DeliveryLog, error) {
	s, err := js.Stream(ctx, StreamWebhooks)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", StreamWebhooks, classify(err))
	}
	return &DeliveryLog{js: js, stream: s}, nil
}

// Since is when the log began: what is older it cannot have forgotten.
func (l *DeliveryLog) Since() time.Time { return l.stream.CachedInfo().Created }

// tryTimeout bounds one try: a leader that died answers nobody, and must not
// eat the whole deadline.
const tryTimeout = 3 * time.Second

// Accept stores a routed delivery exactly once and stamps its task's id. It
// tries until ctx ends, always with the same message id, so a lost answer
// makes no second message. One id with another body is a delivery of its own
// when it came through another hook (an App's and a repository's hook share
// ids, G01), else ErrReused. ErrFull and ErrUnknown: answer 503.
func (l *DeliveryLog) Accept(ctx context.Context, d task.Delivery) (Accepted, error) {
	acc, err := l.accept(ctx, d, task.MessageID(d.Source, d.ID))
	if !errors.Is(err, ErrReused) || d.HookID == "" || acc.Delivery.HookID == d.HookID {
		return acc, err
	}
	byHook := task.DeliveryID(d.HookID + ":" + string(d.ID))
	return l.accept(ctx, d, task.MessageID(d.Source, byHook))
}

func (l *DeliveryLog) accept(ctx context.Context, d task.Delivery, msgID string) (Accepted, error) {
	if d.Task != nil {
		spec := *d.Task
		spec.ID = TaskID(d.Source, msgID)
		d.Task, d.Routing = &spec, task.ToTask(spec.ID)
	}
	d.V = task.Version
	data, err := encodeDelivery(d)
	if err != nil {
		return Accepted{}, err
	}
	ack, tries, err := l.publish(ctx, Subject(&d), l.header(&d, msgID), data)
	if err != nil {
		return Accepted{}, fmt.Errorf("publish delivery %s: %w", d.ID, err)
	}
	if !ack.Duplicate {
		return Accepted{Delivery: d, Seq: ack.Sequence}, nil
	}
	first, err := l.first(ctx, msgID, ack.Sequence)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNewer) {
		// Purged with its tenant, or kept by a newer belay: it was accepted.
		return Accepted{Delivery: d, Seq: ack.Sequence, Duplicate: true}, nil
	}
	if err != nil {
		return Accepted{}, err
	}
	acc := Accepted{Delivery: first.Delivery, Seq: ack.Sequence, Duplicate: true}
	if first.PayloadHash != d.PayloadHash {
		return acc, ErrReused
	}
	if tries > 1 && first.ReceivedAt == task.At(d.ReceivedAt.Time) {
		acc.Duplicate = false // an earlier try of this very call, its answer lost
	}
	return acc, nil
}

// first reads the delivery that a repeated one repeats, until ctx ends: a leader
// that dies between the two answers is no reason to refuse what is stored.
func (l *DeliveryLog) first(ctx context.Context, msgID string, seq uint64) (Logged, error) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		d, err := l.read(ctx, msgID, seq)
		if !errors.Is(err, ErrUnknown) || !sleep(ctx, wait) {
			return d, err
		}
	}
}

func (l *DeliveryLog) read(ctx context.Context, msgID string, seq uint64) (Logged, error) {
	if err := l.Hooks.before(ctx, "read", msgID); err != nil {
		return Logged{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return l.Get(ctx, seq)
}

// publish repeats one message under one id until it is acknowledged, refused
// or ctx ends.
func (l *DeliveryLog) publish(ctx context.Context, subject string, h nats.Header, data []byte) (jetstream.PubAck, int, error) {
	wait := 20 * time.Millisecond
	for tries := 1; ; tries++ {
		ack, err := l.try(ctx, subject, h, data)
		if err == nil {
			return ack, tries, nil
		}
		if !errors.Is(err, ErrUnknown) || ctx.Err() != nil {
			return ack, tries, err
		}
		if !sleep(ctx, wait) {
			return ack, tries, err
		}
		wait = min(2*wait, 500*time.Millisecond)
	}
}

// header is that of a delivery's message.
func (l *DeliveryLog) header(d *task.Delivery, msgID string) nats.Header {
	h := nats.Header{jetstream.MsgIDHeader: {msgID}}
	if d.Repo != "" {
		h[HeaderRepo] = []string{headerText(d.Repo)}
	}
	if l.Traceparent != nil && d.Task != nil {
		if tp := l.Traceparent(d.Task.ID); tp != "" {
			h[HeaderTraceparent] = []string{tp}
		}
	}
	return h
}

func (l *DeliveryLog) try(ctx context.Context, subject string, h nats.Header, data []byte) (jetstream.PubAck, error) {
	msgID := h.Get(jetstream.MsgIDHeader)
	if err := l.Hooks.before(ctx, "publish", msgID); err != nil {
		return jetstream.PubAck{}, err
	}
	tctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	ack, err := publish(tctx, l.js.Conn(), &nats.Msg{Subject: subject, Data: data, Header: h})
	if err != nil {
		return jetstream.PubAck{}, classify(err)
	}
	if err := l.Hooks.after(ctx, "publish", msgID); err != nil {
		return jetstream.PubAck{}, err
	}
	return ack, nil
}

// headerText keeps what may stand in a header line.
func headerText(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < 0x20 || c == 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}

// Get reads the delivery at a sequence.
func (l *DeliveryLog) Get(ctx context.Context, seq uint64) (Logged, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := l.stream.GetMsg(ctx, seq)
	if err != nil {
		return Logged{}, fmt.Errorf("read delivery %d: %w", seq, classify(err))
	}
	d, err := Decode(m.Data)
	if err != nil {
		return Logged{}, err
	}
	return Logged{Delivery: d, Seq: seq}, nil
}
