// Package outbox is the domain of what leaves belay: one Record for each
// message to a recipient outside, its statuses, and the pure rules by which it
// changes. It uses the standard library only and touches no store.
//
//	           claim                 deliver (2xx)
//	pending ──────────▶ delivering ────────────────▶ delivered
//	                    │  ▲    │
//	            attempt │  │    │ fail (refused for good, or tries spent)
//	                    └──┘    └──────────────────▶ failed
//
// A task's terminal record carries Intents; Derive makes the records from
// them, always the same ones, so that whoever finds one missing may create it.
//
// Safety. A status never goes backwards, and only the winner of the claim
// sends: a crash after the claim loses the message, it never doubles it. What
// may have reached its recipient is never sent again by belay: it stays
// delivering, reads as Unknown once its Lease is over, and a person resolves
// it (delivered, failed, or resent as a new record that names the old one).
// Only channels that say of themselves that a repetition changes nothing are
// claimed again after the lease.
//
// Liveness. A pending record waits for nothing but its turn: within one task,
// channel and recipient records go out in the order of their index; one that
// failed does not hold up the next, one that is unknown does until its lease
// is over.
package outbox
