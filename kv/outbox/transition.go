package outbox

import (
	"fmt"
	"time"
)

func (r *Record) move(m Move, to Status, at time.Time) error {
	if !Allowed(m, r.Status, to) {
		return fmt.Errorf("%s %s record: %w", m, r.Status, ErrState)
	}
	r.Status, r.UpdatedAt = to, At(at)
	return nil
}

// Take claims a pending record: pending → delivering. Of the rest only
// UpdatedAt changes (OB-20).
func (r Record) Take(c Claim, at time.Time) (Record, error) {
	n := r
	if err := n.move(MoveClaim, Delivering, at); err != nil {
		return r, err
	}
	n.Claim = c
	return n, nil
}

// Retake claims a record whose outcome is unknown once more, and counts the
// try that nobody saw the end of. Only channels where a repetition changes
// nothing may.
func (r Record) Retake(c Claim, at time.Time) (Record, error) {
	n := r
	if !r.Unknown(at) {
		return r, fmt.Errorf("reclaim %s record before its lease ends: %w", r.Status, ErrState)
	}
	if err := n.move(MoveReclaim, Delivering, at); err != nil {
		return r, err
	}
	n.Claim, n.NotBefore = c, Time{}
	n.Attempts++
	return n, nil
}

// Attempt counts a try that did not succeed and notes why. The record stays
// delivering; notBefore is when the next try begins, zero if there is none.
func (r Record) Attempt(why string, notBefore, at time.Time) (Record, error) {
	n := r
	if err := n.move(MoveAttempt, Delivering, at); err != nil {
		return r, err
	}
	n.Attempts++
	n.LastError = cut(why, MaxText)
	n.NotBefore = Time{}
	if !notBefore.IsZero() {
		n.NotBefore = At(notBefore)
	}
	return n, nil
}

// Deliver ends a record that its recipient accepted. On a delivered one it
// changes nothing.
func (r Record) Deliver(at time.Time) (Record, error) {
	if r.Status == Delivered {
		return r, nil
	}
	n := r
	if err := n.move(MoveDeliver, Delivered, at); err != nil {
		return r, err
	}
	n.Attempts++
	n.LastError, n.NotBefore = "", Time{}
	return n, nil
}

// Fail ends a record for good; why replaces the last error only if given. On
// a failed one it changes nothing.
func (r Record) Fail(why string, at time.Time) (Record, error) {
	if r.Status == Failed {
		return r, nil
	}
	n := r
	if err := n.move(MoveFail, Failed, at); err != nil {
		return r, err
	}
	if why != "" {
		n.LastError = cut(why, MaxText)
	}
	n.NotBefore = Time{}
	return n, nil
}
