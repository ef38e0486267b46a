package operator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// op is one operation of the policy with everything right for its state.
type op struct {
	from State
	run  func(t Task, o Owner, rev int, now time.Time) Decision
	// at are the codes where there is nothing to append, by state.
	at map[State]Code
}

func ops() map[string]op {
	ev := Evidence{Owner: owner, AttemptID: "a1", Issue: issue}
	return map[string]op{
		"confirm": {StateProposed, func(t Task, o Owner, rev int, now time.Time) Decision { return t.Confirm(o, rev, now) }, map[State]Code{
			StateApproved: Existing, StateAttempting: Existing, StateUnknown: Existing, StateSubmitted: Existing, StateDelivered: Existing,
		}},
		"begin": {StateApproved, func(t Task, o Owner, rev int, now time.Time) Decision { return t.Begin(o, rev, "a1", "boot", now) }, map[State]Code{
			StateProposed: Conflict, StateAttempting: Existing, StateUnknown: Existing, StateSubmitted: Existing, StateDelivered: Existing,
		}},
		"unknown": {StateAttempting, func(t Task, o Owner, rev int, now time.Time) Decision {
			return t.MarkUnknown(o, rev, "a1", "boot", "unknown", now)
		}, map[State]Code{
			StateProposed: Conflict, StateApproved: Conflict, StateUnknown: Existing, StateSubmitted: Existing, StateDelivered: Existing,
		}},
		"verified": {StateAttempting, func(t Task, o Owner, rev int, now time.Time) Decision { return t.MarkVerified(o, rev, ev, now) }, map[State]Code{
			StateProposed: Conflict, StateApproved: Conflict, StateUnknown: Conflict, StateSubmitted: Existing, StateDelivered: Existing,
		}},
		"reconcile": {StateUnknown, func(t Task, o Owner, rev int, now time.Time) Decision { return t.Reconcile(o, rev, ev, now) }, map[State]Code{
			StateProposed: Conflict, StateApproved: Conflict, StateAttempting: Conflict, StateSubmitted: Existing, StateDelivered: Existing,
		}},
		"delivered": {StateSubmitted, func(t Task, o Owner, rev int, now time.Time) Decision { return t.MarkDelivered(o, rev, "o1", now) }, map[State]Code{
			StateProposed: Conflict, StateApproved: Conflict, StateAttempting: Conflict, StateUnknown: Conflict, StateDelivered: Existing,
		}},
	}
}

// Every operation in every state: what it appends can be folded; elsewhere it
// answers, and appends nothing.
func TestPolicyInEveryState(t *testing.T) {
	t.Parallel()
	for name, o := range ops() {
		for _, s := range States {
			r := in(t, s)
			d := o.run(r, owner, r.Revision, noon)
			switch {
			case s == None:
				require.Equal(t, Decision{Code: NotFound}, d, name)
			case s != o.from:
				require.Equal(t, Decision{Code: o.at[s]}, d, "%s in %s", name, s)
			default:
				require.NotNil(t, d.Append, "%s in %s: %s", name, s, d.Code)
				n, err := r.Fold(d.Append)
				require.NoError(t, err)
				require.Equal(t, r.Revision+1, n.Revision)
				require.Equal(t, Decision{Code: Conflict}, o.run(r, owner, r.Revision-1, noon), "OT-46: %s at an older revision", name)
				require.Equal(t, Decision{Code: Conflict}, o.run(r, owner, r.Revision+1, noon), "OT-46: %s at a newer one", name)
			}
		}
	}
}

// OT-12, OT-14: an owner who differs in any part, or only in letter case,
// learns nothing, in any state.
func TestOT12OwnersAreExact(t *testing.T) {
	t.Parallel()
	for name, o := range ops() {
		for _, s := range States {
			r := in(t, s)
			for _, other := range []Owner{
				{"Invotek", "ann", "c1"}, {"invotek", "Ann", "c1"}, {"invotek", "ann", "C1"}, {"invotek", "ann", "c1 "}, {"invotek", "ann", ""},
				{"other", "ann", "c1"}, {"invotek", "anne", "c1"}, {},
			} {
				require.Equal(t, Decision{Code: NotFound}, o.run(r, other, r.Revision, noon), "%s in %s by %+v", name, s, other)
			}
		}
	}
}

// OT-51: a proposal can be confirmed for 24 hours.
func TestOT51ConfirmHonoursTheClock(t *testing.T) {
	t.Parallel()
	r := in(t, StateProposed)
	require.NotNil(t, r.Confirm(owner, 1, r.ExpiresAt.Add(-time.Microsecond)).Append)
	require.Equal(t, Decision{Code: Expired}, r.Confirm(owner, 1, r.ExpiresAt))
	require.Equal(t, Decision{Code: Existing}, in(t, StateApproved).Confirm(owner, 1, r.ExpiresAt.Add(time.Hour)), "what was confirmed in time stays so")
}

// An attempt is its holder's to settle until its lease is over.
func TestMarkUnknownByOthersOnlyAfterTheLease(t *testing.T) {
	t.Parallel()
	r := in(t, StateAttempting)
	by := func(holder, attempt string, at time.Time) Decision {
		return r.MarkUnknown(owner, 3, attempt, holder, "x", at)
	}
	require.NotNil(t, by("boot", "a1", noon).Append)
	require.Equal(t, Decision{Code: Conflict}, by("other", "a1", r.LeaseUntil.Add(-time.Microsecond)))
	require.NotNil(t, by("other", "a1", r.LeaseUntil).Append)
	require.Equal(t, Decision{Code: Conflict}, by("boot", "a2", r.LeaseUntil), "it is not that attempt")
}

// Evidence of another attempt, or without an issue, proves nothing; one of
// another issue than the one recorded contradicts it.
func TestEvidence(t *testing.T) {
	t.Parallel()
	for _, s := range []State{StateAttempting, StateUnknown} {
		r := in(t, s)
		submit := r.MarkVerified
		if s == StateUnknown {
			submit = r.Reconcile
		}
		for _, ev := range []Evidence{
			{AttemptID: "a2", Issue: issue}, {AttemptID: "", Issue: issue}, {AttemptID: "a1"}, {AttemptID: "a1", Issue: Issue{Number: -1}},
		} {
			require.Equal(t, Decision{Code: Conflict}, submit(owner, r.Revision, ev, noon), "%+v", ev)
		}
		d := submit(owner, r.Revision, Evidence{Owner: Owner{"x", "y", "z"}, AttemptID: "a1", Issue: issue}, noon)
		require.NotNil(t, d.Append, "OT-50: nobody believes the evidence's owner")
	}
	r := in(t, StateSubmitted)
	require.Equal(t, Decision{Code: Conflict}, r.Reconcile(owner, 5, Evidence{AttemptID: "a1", Issue: Issue{Number: 8, URL: "u"}}, noon))
}

func TestProposable(t *testing.T) {
	t.Parallel()
	r := in(t, StateProposed)
	require.Equal(t, Existing, r.Proposable(owner, want))
	require.Equal(t, NotFound, r.Proposable(owner, Intent{"acme/site", "Other", "Body"}), "OT-43")
	require.Equal(t, NotFound, r.Proposable(Owner{"invotek", "bob", "c1"}, want))
	d := Propose(id, owner, want, noon.In(time.FixedZone("x", 3600)))
	require.Equal(t, events()[0], d.Append)
}

// OT-91: what can still come to something is in flight.
func TestInFlight(t *testing.T) {
	t.Parallel()
	for _, s := range States {
		want := s != None && s != StateDelivered
		require.Equal(t, want, in(t, s).InFlight(noon), "%q", s)
		require.Equal(t, want && s != StateProposed, in(t, s).InFlight(noon.Add(48*time.Hour)), "%q, after it expired", s)
	}
}
