// Package operator is the domain of operator tasks: an operator proposes one,
// confirms it, and exactly one GitHub issue is created for it. It is pure: no
// store, no clock, no network.
//
//	          ┌──────────┐ Approved ┌──────────┐ AttemptStarted ┌────────────┐
//	Proposed ▶│ proposed │─────────▶│ approved │───────────────▶│ attempting │
//	          └──────────┘          └──────────┘                └─────┬──────┘
//	                                             OutcomeUnknown │     │ Submitted
//	                                                            ▼     ▼
//	                                                     ┌─────────┐ ┌───────────┐ Delivered ┌───────────┐
//	                                                     │ unknown │▶│ submitted │──────────▶│ delivered │
//	                                                     └─────────┘ └───────────┘           └───────────┘
//	                                                       Submitted
//
// A request is a stream of at most six events; each is one transition and the
// only thing that is ever written. Fold makes the Task that the events say; it
// refuses every event that the policy could not have appended there (OT-7).
// The policy (Confirm, Begin, MarkUnknown, …) says which event a caller may
// append now, or the code to answer with.
//
// Safety: no state has two ways to AttemptStarted, so a stream carries at most
// one, and only who appended it may create the issue (OT-15). Nothing that is
// read licenses that: not Existing, not an expired lease, not an empty search.
//
// Liveness: an attempt whose holder is gone becomes unknown by anyone of the
// same owner once its lease is over; unknown becomes submitted by evidence.
package operator
