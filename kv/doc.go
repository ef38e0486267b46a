// Package kv holds belay's stores on JetStream: the delivery log (stream
// WEBHOOKS), the task store (bucket STATE) and the audit trail (stream
// AUDIT). Each is the only door to its records (DT-16).
//
// Safety: every change of a record is one compare-and-set on one key at the
// revision that was read; there is no write without an expected revision but
// the liveness beat. Every call has a deadline. An error says which of four
// things happened: nothing (ErrNotFound, ErrExists, ErrConflict, ErrFull,
// ErrTooLarge), or nobody knows (ErrUnknown): reread, never assume.
package kv
