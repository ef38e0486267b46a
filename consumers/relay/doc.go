// Package relay sends what the outbox holds to where it is to go, at most once
// (DESIGN §8).
//
//	STATE outbox.… pending ──watch──▶ view ──▶ whose turn is it, is there a seat
//	       │                                        │
//	       └──consumer relay: a message wakes ──────┤
//	                                                ▼
//	                 claim (CAS pending→delivering) ──▶ ack ──▶ Channel.Deliver
//	                                                                │
//	            delivered ◀── accepted ────────────────────────────┤
//	            failed    ◀── refused for good, or three times ────┤
//	            (stays delivering: unknown) ◀── nobody can say ────┘
//
// Safety. Nothing is sent before its claim was won and read back; one claim is
// won once, by one process. Within a claim a try is repeated only after a
// definite refusal: the connection never stood, or the recipient answered that
// it did not take the message. Everything else is unknown, stays delivering
// and is a person's to resolve. The body is what the record holds, byte for
// byte; the signature is made when it is sent. A message of the consumer only
// wakes: replayed, doubled, late or of a removed record, it costs one look.
//
// Liveness. No record depends on its message, and none on the read model
// alone: the view shows what is pending, the consumer tells one process at
// once, and a sweep at the start and every minute derives the records that
// terminal tasks lack. A view that does not show what the consumer tells is
// opened again; a deleted consumer is made again. Each recipient has a few
// seats, and one only while it does not answer well, so that a dead one delays
// nobody. Start never waits for what there is to send.
//
// What each failure does. Killed before the claim: another process sends.
// Killed after it: unknown once the lease is over, never sent again. Store
// unreachable: an outcome is written when it is back, or becomes unknown.
// Recipient refuses: two more tries after 1 s and 5 s, or when it asks for,
// then failed. It answers 410: its channel is disabled, visibly, and what is
// pending for it stays pending. Channel unknown or payload not renderable:
// failed with that reason. Stopped: what is being sent is waited for.
//
// Channels declare whether a repetition changes nothing (an edit of a known
// comment or check run): theirs are sent again where others become unknown.
//
// Callbacks are the channel that is built in: CloudEvents, signed as Standard
// Webhooks, through the guard of package egress.
package relay
