package task

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of the transitions. Their callers map them: a state error is a 409
// to a person and a reason to discard a result to a worker.
var (
	// ErrState means the table has no such move from the record's state.
	ErrState = errors.New("state does not allow it")
	// ErrFence means the attempt that asks is not the one that holds the task.
	ErrFence = errors.New("attempt does not hold the task")
)

// Move is one kind of change of state.
type Move string

// The moves. Each comment says who makes it.
const (
	// MoveClaim: a worker that picked the task.
	MoveClaim Move = "claim"
	// MoveFinish: the holder of the attempt, with a result or a final failure.
	MoveFinish Move = "finish"
	// MoveRequeue: the holder (retryable failure, release, park) or recovery.
	MoveRequeue Move = "requeue"
	// MoveExhaust: the holder or recovery, when the budget is spent.
	MoveExhaust Move = "exhaust"
	// MoveSupersede: admission or a claim for queued ones, the holder for its own.
	MoveSupersede Move = "supersede"
	// MoveCancel: a person.
	MoveCancel Move = "cancel"
	// MoveRetry: a person; the only move out of a terminal state.
	MoveRetry Move = "retry"
)

// Moves lists every move.
var Moves = []Move{MoveClaim, MoveFinish, MoveRequeue, MoveExhaust, MoveSupersede, MoveCancel, MoveRetry}

// transitions is the whole table: for each move, from where to where.
var transitions = map[Move]struct {
	from []State
	to   []State
}{
	MoveClaim:     {[]State{Queued}, []State{Running}},
	MoveFinish:    {[]State{Running}, []State{Completed, Failed}},
	MoveRequeue:   {[]State{Running}, []State{Queued}},
	MoveExhaust:   {[]State{Running}, []State{Failed}},
	MoveSupersede: {[]State{Queued, Running}, []State{Superseded}},
	MoveCancel:    {[]State{Queued, Running}, []State{Cancelled}},
	MoveRetry:     {[]State{Completed, Failed, Cancelled}, []State{Queued}},
}

// Allowed reports whether the table has the move between the two states.
func Allowed(m Move, from, to State) bool {
	t, ok := transitions[m]
	return ok && slices.Contains(t.from, from) && slices.Contains(t.to, to)
}

func (r *Record) move(m Move, to State, at time.Time) error {
	if r.Tombstone || !Allowed(m, r.State, to) {
		return fmt.Errorf("%s %s task: %w", m, r.State, ErrState)
	}
	r.State = to
	r.UpdatedAt = At(at)
	if to.Terminal() {
		r.NotBefore = Time{}
	}
	return nil
}

// clone copies what transitions write to, so that a record read from a
// cache is never changed in place.
func (r Record) clone() Record {
	r.AttemptLog = slices.Clone(r.AttemptLog)
	r.Intents = slices.Clone(r.Intents)
	return r
}

func (r *Record) closeAttempt(o Outcome, detail, tail string, at time.Time) {
	if a := r.Open(); a != nil {
		a.EndedAt, a.Outcome, a.Detail, a.Tail = At(at), o, detail, tail
	}
}

// Holder identifies a claim: the attempt's number, boot and nonce.
type Holder struct {
	N     int
	Boot  BootID
	Nonce string
}

// Holds reports whether h holds the task now.
func (r *Record) Holds(h Holder) bool {
	a := r.Open()
	return r.State == Running && a != nil && a.N == h.N && a.Boot == h.Boot && a.Nonce == h.Nonce
}

// Due reports whether a queued task may start at now.
func (r *Record) Due(now time.Time) bool { return r.State == Queued && !r.NotBefore.After(now) }

// Claim opens attempt attempts+1 for a worker: queued → running.
func (r Record) Claim(worker string, boot BootID, nonce string, at time.Time) (Record, error) {
	n := r.clone()
	if err := n.move(MoveClaim, Running, at); err != nil {
		return r, err
	}
	n.Attempts++
	n.NotBefore = Time{}
	n.AttemptLog = append(n.AttemptLog, Attempt{N: n.Attempts, Worker: worker, Boot: boot, Nonce: nonce, StartedAt: At(at)})
	for len(n.AttemptLog) > maxAttemptLog {
		n.SpentBefore += n.spent(n.AttemptLog[:1])
		n.AttemptLog = slices.Delete(n.AttemptLog, 0, 1)
	}
	return n, nil
}

// Result is what an attempt ends a task with.
type Result struct {
	State       State // Completed or Failed
	Status      ResultStatus
	Branch      string
	PRNumber    int
	PRURL       string
	CheckRunURL string
	Summary     string
	Reason      string
	Detail      string
	Tail        string
	// Unshown is the result in full, if GitHub did not take it.
	Unshown []byte
}

// Finish writes the terminal state, the results and the closed attempt
// together (DT-66), only for the holder (DT-71).
func (r Record) Finish(h Holder, res Result, at time.Time) (Record, error) {
	if err := r.fence(MoveFinish, h); err != nil {
		return r, err
	}
	n := r.clone()
	if err := n.move(MoveFinish, res.State, at); err != nil {
		return r, err
	}
	n.ResultStatus, n.Summary, n.Reason = res.Status, res.Summary, res.Reason
	n.Branch, n.PRNumber, n.PRURL = res.Branch, res.PRNumber, res.PRURL
	n.Unshown = res.Unshown
	if res.CheckRunURL != "" {
		n.CheckRunURL = res.CheckRunURL
	}
	outcome := OutcomeCompleted
	if res.State == Failed {
		outcome = OutcomeFailed
	}
	n.closeAttempt(outcome, res.Detail, res.Tail, at)
	return n, nil
}

func (r *Record) fence(m Move, h Holder) error {
	if r.State == Running && !r.Holds(h) {
		return ErrFence
	}
	if r.State != Running {
		return fmt.Errorf("%s %s task: %w", m, r.State, ErrState)
	}
	return nil
}

// Ending closes an attempt without a result.
type Ending struct {
	Outcome   Outcome
	Detail    string
	Tail      string
	NotBefore time.Time // zero: at once
}

// EndAttempt closes the holder's attempt and queues the task again, or fails
// it when maxRetries+1 tries are spent (DT-76). Outcomes that are not spent
// (released, parked) always queue.
func (r Record) EndAttempt(h Holder, e Ending, maxRetries int, at time.Time) (Record, error) {
	if err := r.fence(MoveRequeue, h); err != nil {
		return r, err
	}
	n := r.clone()
	n.closeAttempt(e.Outcome, e.Detail, e.Tail, at)
	if e.Outcome.Spent() && n.Spent() > maxRetries {
		if err := n.move(MoveExhaust, Failed, at); err != nil {
			return r, err
		}
		n.Reason = fmt.Sprintf("%d of %d attempts spent; the last one: %s", n.Spent(), maxRetries+1, e.Outcome)
		return n, nil
	}
	if err := n.move(MoveRequeue, Queued, at); err != nil {
		return r, err
	}
	if !e.NotBefore.IsZero() {
		n.NotBefore = At(e.NotBefore)
	}
	return n, nil
}

// Supersede ends a queued task, or the holder's running one, in favour of by.
// Only admission and claims pass a zero holder, and only for queued ones (DT-49).
func (r Record) Supersede(h Holder, by ID, reason string, at time.Time) (Record, error) {
	if r.State == Running {
		if err := r.fence(MoveSupersede, h); err != nil {
			return r, err
		}
	}
	n := r.clone()
	if err := n.move(MoveSupersede, Superseded, at); err != nil {
		return r, err
	}
	n.SupersededBy, n.Reason = by, reason
	n.closeAttempt(OutcomeSuperseded, reason, "", at)
	return n, nil
}

// Cancel ends a queued or running task; the holder's result is refused afterwards.
func (r Record) Cancel(reason string, at time.Time) (Record, error) {
	n := r.clone()
	if err := n.move(MoveCancel, Cancelled, at); err != nil {
		return r, err
	}
	n.Reason = reason
	n.closeAttempt(OutcomeCancelled, reason, "", at)
	return n, nil
}

// Retry queues a completed, failed or cancelled task again: its attempts are
// kept, its budget starts anew, its results and intents are cleared. The
// outbox records of the intents must have been derived before.
func (r Record) Retry(at time.Time) (Record, error) {
	n := r.clone()
	if err := n.move(MoveRetry, Queued, at); err != nil {
		return r, err
	}
	n.BudgetFrom, n.SpentBefore = n.Attempts, 0
	n.NotBefore, n.Reason, n.ResultStatus, n.Summary, n.Intents = Time{}, "", "", "", nil
	n.Branch, n.PRNumber, n.PRURL, n.Unshown = "", 0, "", nil // null until terminal (DT-35)
	return n, nil
}

// OpenSurfaces notes, before the holder shows anything of the task on GitHub,
// that it does, and at which head: whoever ends the task closes it there.
func (r Record) OpenSurfaces(h Holder, head string, at time.Time) (Record, error) {
	if err := r.fence("show", h); err != nil {
		return r, err
	}
	n := r.clone()
	if n.HeadSHA == "" {
		n.HeadSHA = head
	}
	n.Surfaces, n.UpdatedAt = SurfacesOpen, At(at)
	return n, nil
}

// Close adds what is to be sent now that the task has ended, once an end:
// closing makes the intents, numbered from n, which is never used twice.
func (r Record) Close(closing func(r Record, n int) []Intent) Record {
	if !r.State.Terminal() || r.Tombstone || len(r.Intents) > 0 {
		return r
	}
	n := r.clone()
	n.Intents = closing(r, r.OutboxNext)
	for _, in := range n.Intents {
		n.OutboxNext = max(n.OutboxNext, in.N+1)
	}
	return n
}
