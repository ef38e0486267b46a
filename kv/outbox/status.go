package outbox

import (
	"errors"
	"slices"
)

// Status is where a record stands.
type Status string

// The statuses, exactly these (OB-3).
const (
	// Pending is recorded and claimed by nobody; the only status that the sweep
	// sends.
	Pending Status = "pending"
	// Delivering was claimed before the call to the recipient; the claim's
	// winner works on it, or died doing so.
	Delivering Status = "delivering"
	// Delivered was accepted by the recipient.
	Delivered Status = "delivered"
	// Failed was refused for good, or ran out of tries; nothing sends it again.
	Failed Status = "failed"
)

// Statuses lists every status.
var Statuses = []Status{Pending, Delivering, Delivered, Failed}

// Terminal reports whether the status never changes again.
func (s Status) Terminal() bool { return s == Delivered || s == Failed }

// ErrState means that the table has no such move from the record's status.
var ErrState = errors.New("status does not allow it")

// Move is one kind of change.
type Move string

// The moves. Each comment says who makes it.
const (
	// MoveClaim: a relay, before it sends.
	MoveClaim Move = "claim"
	// MoveReclaim: a relay, after the lease, on a channel where a repetition
	// changes nothing.
	MoveReclaim Move = "reclaim"
	// MoveAttempt: the holder of the claim, after a try that did not succeed.
	MoveAttempt Move = "attempt"
	// MoveDeliver: the holder, on the recipient's acceptance.
	MoveDeliver Move = "deliver"
	// MoveFail: the holder, on a final refusal or when the tries are spent.
	MoveFail Move = "fail"
	// MoveResolve: a person, of a record whose outcome is unknown.
	MoveResolve Move = "resolve"
)

// Moves lists every move.
var Moves = []Move{MoveClaim, MoveReclaim, MoveAttempt, MoveDeliver, MoveFail, MoveResolve}

// transitions is the whole table: for each move, from where to where.
var transitions = map[Move]struct{ from, to []Status }{
	MoveClaim:   {[]Status{Pending}, []Status{Delivering}},
	MoveReclaim: {[]Status{Delivering}, []Status{Delivering}},
	MoveAttempt: {[]Status{Delivering}, []Status{Delivering}},
	MoveDeliver: {[]Status{Delivering}, []Status{Delivered}},
	MoveFail:    {[]Status{Delivering}, []Status{Failed}},
	MoveResolve: {[]Status{Delivering}, []Status{Delivered, Failed}},
}

// Allowed reports whether the table has the move between the two statuses.
func Allowed(m Move, from, to Status) bool {
	t, ok := transitions[m]
	return ok && slices.Contains(t.from, from) && slices.Contains(t.to, to)
}
