package kv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// StreamEvents holds what callers report of streams, such as a run's progress.
const StreamEvents = "EVENTS"

// headerBefore is the sequence that was the stream's last when a message was
// about to be appended: the way back from the newest to the older ones.
const headerBefore = "Belay-Before"

// eventVersion is written to every event; a newer one is not read.
const eventVersion = 1

// ErrReserved: the stream is one that only operator tasks are kept in.
var ErrReserved = errors.New("stream is reserved")

// StreamEvent is one event of a stream of EVENTS.
type StreamEvent struct {
	V      int             `json:"v"`
	ID     string          `json:"id"`
	Stream string          `json:"stream"`
	Agent  string          `json:"agent,omitempty"`
	Type   string          `json:"type"`
	Data   json.RawMessage `json:"data,omitempty"`
	By     string          `json:"by,omitempty"`
	At     task.Time       `json:"at"`
}

// EventLog is stream EVENTS: what is reported, for 30 days or 1 GiB. An
// event's id is taken once a stream for 24 hours, over restarts as well: the
// server finds ids again in the messages that it keeps.
type EventLog struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	redact *redact.Redactor
	now    func() time.Time
	// Hooks are failpoints for tests: append.
	Hooks *Hooks
}

// OpenEventLog binds to stream EVENTS, which must exist. The redactor takes
// secrets out of what is reported.
func OpenEventLog(ctx context.Context, js jetstream.JetStream, r *redact.Redactor, now func() time.Time) (*EventLog, error) {
	s, err := js.Stream(ctx, StreamEvents)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", StreamEvents, classify(err))
	}
	return &EventLog{js: js, stream: s, redact: r, now: now}, nil
}

// Append stores an event, unless its stream has one of its id: one publish
// does both, so that no id is taken by an event that is not there (OB-52). A
// reserved stream is ErrReserved for every caller (OT-28).
func (l *EventLog) Append(ctx context.Context, e StreamEvent) (duplicate bool, err error) {
	if operator.Reserved(e.Stream) {
		return false, fmt.Errorf("append to stream %q: %w", e.Stream, ErrReserved)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	subject := EventSubject(e.Stream)
	before := uint64(0)
	switch last, err := l.stream.GetLastMsgForSubject(ctx, subject); {
	case err == nil:
		before = last.Sequence
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return false, fmt.Errorf("append event: %w", classify(err))
	}
	e.V, e.At, e.Data = eventVersion, task.At(l.now()), l.clean(e.Data)
	b, err := json.Marshal(e)
	if err != nil {
		return false, fmt.Errorf("encode event: %w", err)
	}
	m := nats.NewMsg(subject)
	m.Data = b
	m.Header.Set(headerBefore, strconv.FormatUint(before, 10))
	sum := sha256.Sum256([]byte(e.Stream + "\n" + e.ID))
	if err := l.Hooks.before(ctx, "append", e.Stream); err != nil {
		return false, err
	}
	ack, err := l.js.PublishMsg(ctx, m, jetstream.WithMsgID(hex.EncodeToString(sum[:])), jetstream.WithRetryAttempts(0))
	if err != nil {
		return false, fmt.Errorf("append event: %w", classify(err))
	}
	return ack.Duplicate, l.Hooks.after(ctx, "append", e.Stream)
}

// clean takes secrets out of data. What is no JSON without them becomes text.
func (l *EventLog) clean(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return nil
	}
	out := l.redact.String(string(data))
	if !json.Valid([]byte(out)) {
		b, _ := json.Marshal(out) // a string always encodes
		return b
	}
	return json.RawMessage(out)
}

// Last returns the newest n events of a stream, the oldest first. It reads no
// more than twice as many messages, however long the stream is.
func (l *EventLog) Last(ctx context.Context, stream string, n int) ([]StreamEvent, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	subject := EventSubject(stream)
	var out []StreamEvent
	m, err := found(l.stream.GetLastMsgForSubject(ctx, subject))
	for m != nil && err == nil && len(out) < n {
		before, _ := strconv.ParseUint(m.Header.Get(headerBefore), 10, 64)
		// Those that were appended at the same time stand in between.
		run := []*jetstream.RawStreamMsg{m}
		for seq := before + 1; len(run) < n; {
			between, err := found(l.stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject)))
			if err != nil {
				return nil, fmt.Errorf("read events of %q: %w", stream, err)
			}
			if between == nil || between.Sequence >= m.Sequence {
				break
			}
			run = slices.Insert(run, len(run)-1, between)
			seq = between.Sequence + 1
		}
		for _, r := range slices.Backward(run) {
			var e StreamEvent
			if task.Decode(r.Data, &e, &e.V) == nil { // what is none is no event of ours
				out = append(out, e)
			}
		}
		last := m.Sequence
		if m = nil; before > 0 && before < last { // the header may be another writer's
			m, err = found(l.stream.GetMsg(ctx, before))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read events of %q: %w", stream, err)
	}
	out = out[:min(n, len(out))]
	slices.Reverse(out)
	return out, nil
}

// found turns the error that there is no message into none.
func found(m *jetstream.RawStreamMsg, err error) (*jetstream.RawStreamMsg, error) {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, classify(err)
}
