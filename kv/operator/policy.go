package operator

import "time"

const (
	// ProposalLife is how long a proposal can be confirmed.
	ProposalLife = 24 * time.Hour
	// AttemptLease is how long an attempt is its holder's alone to settle.
	AttemptLease = 10 * time.Minute
)

// Code is the answer to an operation.
type Code string

// The codes. Only Committed of a Begin licenses the creation of an issue.
const (
	// Committed: this call appended the event.
	Committed Code = "Committed"
	// Existing: it was so already, by this or another call.
	Existing Code = "Existing"
	// Conflict: the request is elsewhere than the caller thinks; reread.
	Conflict Code = "Conflict"
	// Uncertain: nobody knows whether the event was appended; reread.
	Uncertain Code = "Uncertain"
	// NotFound: there is no such request of this owner.
	NotFound Code = "NotFound"
	// Forbidden: the repository's tenant is not the owner's, or is not known.
	Forbidden Code = "Forbidden"
	// Expired: the proposal can no longer be confirmed.
	Expired Code = "Expired"
)

// Decision is the policy's word: an event to append, or else a code.
type Decision struct {
	Append Event
	Code   Code
}

func commit(e Event) Decision { return Decision{Append: e} }
func answer(c Code) Decision  { return Decision{Code: c} }

// stamp is how times are written: UTC with microseconds.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Propose opens a request.
func Propose(id RequestID, o Owner, in Intent, now time.Time) Decision {
	at := stamp(now)
	return commit(&Proposed{At: at, ID: id, Owner: o, Intent: in, ExpiresAt: at.Add(ProposalLife)})
}

// Proposable is the answer to a proposal whose id is taken: the same owner's
// same intent exists, anything else is nobody's business (OT-42, 43).
func (t Task) Proposable(o Owner, in Intent) Code {
	if t.Owner.Is(o) && t.Intent == in {
		return Existing
	}
	return NotFound
}

// Confirm approves a proposal at the revision that the caller saw, before it
// expires. Repeating it changes nothing.
func (t Task) Confirm(o Owner, rev int, now time.Time) Decision {
	switch {
	case !t.Owner.Is(o) || t.State == None:
		return answer(NotFound)
	case t.State != StateProposed:
		return answer(Existing)
	case t.Revision != rev:
		return answer(Conflict)
	case !now.Before(t.ExpiresAt) && !mutant("OT-82"):
		return answer(Expired)
	}
	return commit(&Approved{At: stamp(now)})
}

// Begin starts the one attempt there is.
func (t Task) Begin(o Owner, rev int, attemptID, holder string, now time.Time) Decision {
	switch {
	case !t.Owner.Is(o) || t.State == None:
		return answer(NotFound)
	case t.State == StateProposed:
		return answer(Conflict)
	case t.State != StateApproved:
		return answer(Existing)
	case t.Revision != rev:
		return answer(Conflict)
	}
	at := stamp(now)
	return commit(&AttemptStarted{At: at, AttemptID: attemptID, Holder: holder, LeaseUntil: at.Add(AttemptLease)})
}

// MarkUnknown says that an attempt ended without the issue's address: its
// holder may at any time, others of the same owner once its lease is over.
func (t Task) MarkUnknown(o Owner, rev int, attemptID, holder, reason string, now time.Time) Decision {
	switch {
	case !t.Owner.Is(o) || t.State == None:
		return answer(NotFound)
	case t.State == StateProposed || t.State == StateApproved || t.AttemptID != attemptID:
		return answer(Conflict)
	case t.State != StateAttempting:
		return answer(Existing)
	case t.Revision != rev:
		return answer(Conflict)
	case t.Holder != holder && now.Before(t.LeaseUntil):
		return answer(Conflict)
	}
	return commit(&OutcomeUnknown{At: stamp(now), AttemptID: attemptID, Reason: reason})
}

// Evidence proves that an issue was created by an attempt of a request. Owner
// is what the proof claims; nobody believes it (OT-50).
type Evidence struct {
	Owner     Owner
	AttemptID string
	Issue     Issue
}

// Evidence kinds of Submitted.
const (
	EvidenceAnswer = "answer"
	EvidenceMarker = "marker"
)

// MarkVerified records GitHub's own answer to the attempt's one request.
func (t Task) MarkVerified(o Owner, rev int, ev Evidence, now time.Time) Decision {
	return t.submit(StateAttempting, o, rev, ev, EvidenceAnswer, now)
}

// Reconcile records an issue that was found for an attempt whose outcome was
// unknown, by its authenticated marker.
func (t Task) Reconcile(o Owner, rev int, ev Evidence, now time.Time) Decision {
	return t.submit(StateUnknown, o, rev, ev, EvidenceMarker, now)
}

func (t Task) submit(from State, o Owner, rev int, ev Evidence, kind string, now time.Time) Decision {
	switch {
	case !t.Owner.Is(o) || t.State == None:
		return answer(NotFound)
	case t.AttemptID == "" || t.AttemptID != ev.AttemptID || ev.Issue.Number <= 0:
		return answer(Conflict)
	case t.State == StateSubmitted || t.State == StateDelivered:
		if t.Issue != ev.Issue {
			return answer(Conflict)
		}
		return answer(Existing)
	case t.State != from || t.Revision != rev:
		return answer(Conflict)
	}
	return commit(&Submitted{At: stamp(now), AttemptID: t.AttemptID, Issue: ev.Issue, Evidence: kind})
}

// InFlight reports whether a request can still come to something: it is not
// delivered, and no proposal that nobody can confirm any more. While it is,
// its repository must not move to another tenant (OT-91).
func (t Task) InFlight(now time.Time) bool {
	switch t.State {
	case None, StateDelivered:
		return false
	case StateProposed:
		return now.Before(t.ExpiresAt)
	}
	return true
}

// MarkDelivered records that the operator was told, once.
func (t Task) MarkDelivered(o Owner, rev int, outboxID string, now time.Time) Decision {
	switch {
	case !t.Owner.Is(o) || t.State == None:
		return answer(NotFound)
	case t.State == StateDelivered:
		return answer(Existing)
	case t.State != StateSubmitted || t.Revision != rev:
		return answer(Conflict)
	}
	return commit(&Delivered{At: stamp(now), OutboxID: outboxID})
}
