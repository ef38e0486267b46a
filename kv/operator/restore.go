package operator

import "time"

const (
	// AttemptRestored is the attempt of a request that a restored backup does
	// not know the end of: if there was one, its name is lost.
	AttemptRestored = "restored"
	// ReasonRestored is the reason why its outcome is unknown.
	ReasonRestored = "restored"
)

// Restored returns what a restore appends to a request that could still be
// attempted: the one attempt that there is, whose outcome is unknown. After
// the backup was taken somebody may have approved it, and the issue may exist;
// so nothing may license its creation any more. It is looked for by its marker
// as any other that is lost.
func (t Task) Restored(now time.Time) []Event {
	at := stamp(now)
	var out []Event
	switch {
	case t.State == StateProposed && now.Before(t.ExpiresAt):
		out = append(out, &Approved{At: at}) // by nobody: it licenses nothing, as the attempt is next
	case t.State != StateApproved:
		return nil
	}
	return append(out,
		&AttemptStarted{At: at, AttemptID: AttemptRestored, Holder: AttemptRestored, LeaseUntil: at},
		&OutcomeUnknown{At: at, AttemptID: AttemptRestored, Reason: ReasonRestored})
}

// IsAttempt reports whether a marker's attempt is the request's: there is one
// attempt a request, so of a restored one any authentic marker proves it.
func (t Task) IsAttempt(id string) bool {
	return id != "" && (t.AttemptID == id || t.AttemptID == AttemptRestored)
}

// AttemptedSince is the earliest that the attempt's issue can be of.
func (t Task) AttemptedSince() time.Time {
	if t.AttemptID == AttemptRestored {
		return t.ProposedAt
	}
	return t.AttemptedAt
}
