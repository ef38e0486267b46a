// Package task is the domain of the durable task store: deliveries, tasks,
// attempts, the supersede pointer, and the pure rules by which they change.
// It uses the standard library only and touches no store.
//
// A delivery that routes to work carries a Spec. Admission makes a Record of
// it; from then on the record alone decides (DESIGN §2):
//
//	          claim                finish
//	queued ─────────▶ running ─────────────▶ completed | failed
//	  ▲ │               │ │
//	  │ │   retryable,  │ │
//	  │ │   release,    │ │ supersede, cancel
//	  └─┼── interrupt ──┘ ▼
//	    └───────────────▶ superseded | cancelled
//
// Safety: no automatic step moves a terminal record; a transition out of
// running needs the attempt's own number, boot and nonce, so a holder that
// lost its attempt cannot write. Liveness is not decided here: whoever sees
// that a boot is dead calls Interrupt (DESIGN §7).
package task
