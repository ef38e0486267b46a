package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Version is written to every event; a newer one is not read.
const Version = 1

// MaxEvents is how many events a request can have.
const MaxEvents = 6

// Kind names a type of event on the wire.
type Kind string

// The kinds of events.
const (
	KindProposed       Kind = "proposed"
	KindApproved       Kind = "approved"
	KindAttemptStarted Kind = "attempt_started"
	KindOutcomeUnknown Kind = "outcome_unknown"
	KindSubmitted      Kind = "submitted"
	KindDelivered      Kind = "delivered"
)

// Event is one transition. A type without its fold does not implement it, so
// it does not compile; one that is not in kinds cannot be decoded, which a
// test finds (OT-52).
type Event interface {
	// Kind is the type's name on the wire.
	Kind() Kind
	// fold applies the event to a task, whose state allows it.
	fold(t *Task)
	// allowed are the states that the event may follow.
	allowed() []State
	// when is the event's time.
	when() time.Time
}

// kinds makes an empty event of each kind.
var kinds = map[Kind]func() Event{
	KindProposed:       func() Event { return &Proposed{} },
	KindApproved:       func() Event { return &Approved{} },
	KindAttemptStarted: func() Event { return &AttemptStarted{} },
	KindOutcomeUnknown: func() Event { return &OutcomeUnknown{} },
	KindSubmitted:      func() Event { return &Submitted{} },
	KindDelivered:      func() Event { return &Delivered{} },
}

// Owner is who a request belongs to. The server makes it; callers never give
// it. Two owners are the same if all three are equal, byte for byte (OT-12).
type Owner struct {
	Tenant       string `json:"tenant"`
	Operator     string `json:"operator"`
	Conversation string `json:"conversation"`
}

// Is reports whether two owners are the same, exactly (OT-12).
func (o Owner) Is(other Owner) bool {
	if mutant("OT-79") {
		return strings.EqualFold(o.Tenant+o.Operator+o.Conversation, other.Tenant+other.Operator+other.Conversation)
	}
	return o == other
}

// Intent is what is to be created.
type Intent struct {
	Repo  string `json:"repo"` // owner/name
	Title string `json:"title"`
	Body  string `json:"body"`
}

// Issue is the issue that was created.
type Issue struct {
	Number int    `json:"number"`
	URL    string `json:"url"`
}

// Proposed opens a request.
type Proposed struct {
	At        time.Time `json:"at"`
	ID        RequestID `json:"request_id"`
	Owner     Owner     `json:"owner"`
	Intent    Intent    `json:"intent"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Approved is the operator's confirmation.
type Approved struct {
	At time.Time `json:"at"`
}

// AttemptStarted licenses whoever appended it, and nobody else, to create the
// issue, once.
type AttemptStarted struct {
	At         time.Time `json:"at"`
	AttemptID  string    `json:"attempt_id"`
	Holder     string    `json:"holder"` // the boot that appended it
	LeaseUntil time.Time `json:"lease_until"`
}

// OutcomeUnknown says that the attempt did not end with the issue's address.
type OutcomeUnknown struct {
	At        time.Time `json:"at"`
	AttemptID string    `json:"attempt_id"`
	Reason    string    `json:"reason"` // refused:<status>, or unknown
}

// Submitted says that the issue exists.
type Submitted struct {
	At        time.Time `json:"at"`
	AttemptID string    `json:"attempt_id"`
	Issue     Issue     `json:"issue"`
	// Evidence is "answer" for GitHub's own 201, "marker" for an issue that
	// was found by its authenticated marker.
	Evidence string `json:"evidence"`
}

// Delivered says that the operator was told, by an outbox record.
type Delivered struct {
	At       time.Time `json:"at"`
	OutboxID string    `json:"outbox_id"`
}

// Kind implements Event.
func (*Proposed) Kind() Kind        { return KindProposed }
func (e *Proposed) when() time.Time { return e.At }
func (*Proposed) allowed() []State  { return []State{None} }
func (e *Proposed) fold(t *Task) {
	t.ID, t.Owner, t.Intent, t.State = e.ID, e.Owner, e.Intent, StateProposed
	t.ProposedAt, t.ExpiresAt = e.At, e.ExpiresAt
}

// Kind implements Event.
func (*Approved) Kind() Kind        { return KindApproved }
func (e *Approved) when() time.Time { return e.At }
func (*Approved) allowed() []State  { return []State{StateProposed} }
func (e *Approved) fold(t *Task)    { t.State, t.ApprovedAt = StateApproved, e.At }

// Kind implements Event.
func (*AttemptStarted) Kind() Kind        { return KindAttemptStarted }
func (e *AttemptStarted) when() time.Time { return e.At }
func (*AttemptStarted) allowed() []State  { return []State{StateApproved} }
func (e *AttemptStarted) fold(t *Task) {
	t.State, t.AttemptID, t.Holder, t.AttemptedAt, t.LeaseUntil = StateAttempting, e.AttemptID, e.Holder, e.At, e.LeaseUntil
}

// Kind implements Event.
func (*OutcomeUnknown) Kind() Kind        { return KindOutcomeUnknown }
func (e *OutcomeUnknown) when() time.Time { return e.At }
func (*OutcomeUnknown) allowed() []State  { return []State{StateAttempting} }
func (e *OutcomeUnknown) fold(t *Task)    { t.State, t.Reason = StateUnknown, e.Reason }

// Kind implements Event.
func (*Submitted) Kind() Kind        { return KindSubmitted }
func (e *Submitted) when() time.Time { return e.At }
func (*Submitted) allowed() []State  { return []State{StateAttempting, StateUnknown} }
func (e *Submitted) fold(t *Task)    { t.State, t.Issue, t.Evidence = StateSubmitted, e.Issue, e.Evidence }

// Kind implements Event.
func (*Delivered) Kind() Kind        { return KindDelivered }
func (e *Delivered) when() time.Time { return e.At }
func (*Delivered) allowed() []State  { return []State{StateSubmitted} }
func (e *Delivered) fold(t *Task)    { t.State, t.OutboxID = StateDelivered, e.OutboxID }

// envelope is an event on the wire.
type envelope struct {
	V    int             `json:"v"`
	Kind Kind            `json:"kind"`
	Rev  int             `json:"rev"` // its place in the stream, from 1
	Data json.RawMessage `json:"data"`
}

// ErrForeign means that a message is no event of this version of belay.
var ErrForeign = errors.New("not an event of an operator task")

// Encode writes an event that is to be number rev of its stream.
func Encode(e Event, rev int) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	b, err := json.Marshal(envelope{V: Version, Kind: e.Kind(), Rev: rev, Data: data})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	return b, nil
}

// Decode reads an event and its place; whatever is not one is ErrForeign.
func Decode(b []byte) (e Event, rev int, err error) {
	var env envelope
	if err := json.Unmarshal(b, &env); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	make, ok := kinds[env.Kind]
	if !ok || env.V != Version {
		return nil, 0, fmt.Errorf("%w: kind %q, version %d", ErrForeign, env.Kind, env.V)
	}
	e = make()
	if err := json.Unmarshal(env.Data, e); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return e, env.Rev, nil
}
