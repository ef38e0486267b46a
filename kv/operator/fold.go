package operator

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// State is where a request stands.
type State string

// The states; None is that of a request that nobody proposed.
const (
	None            State = ""
	StateProposed   State = "proposed"
	StateApproved   State = "approved"
	StateAttempting State = "attempting"
	StateUnknown    State = "unknown"
	StateSubmitted  State = "submitted"
	StateDelivered  State = "delivered"
)

// States lists every state, in the order of a life.
var States = []State{None, StateProposed, StateApproved, StateAttempting, StateUnknown, StateSubmitted, StateDelivered}

// Task is what the events of a request say.
type Task struct {
	ID       RequestID
	Owner    Owner
	Intent   Intent
	State    State
	Revision int // how many events were folded

	ProposedAt  time.Time
	ExpiresAt   time.Time
	ApprovedAt  time.Time
	AttemptID   string
	Holder      string
	AttemptedAt time.Time
	LeaseUntil  time.Time
	Reason      string // of unknown
	Issue       Issue
	Evidence    string
	OutboxID    string
	UpdatedAt   time.Time
}

// ErrFold means that an event cannot follow what came before it: the policy
// never appended it there.
var ErrFold = errors.New("event cannot follow")

// Fold applies the next event.
func (t Task) Fold(e Event) (Task, error) {
	if !slices.Contains(e.allowed(), t.State) {
		return t, fmt.Errorf("%w: %s after %q", ErrFold, e.Kind(), t.State)
	}
	e.fold(&t)
	t.Revision++
	t.UpdatedAt = e.when()
	return t, nil
}
