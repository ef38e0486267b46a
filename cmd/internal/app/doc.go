// Package app is the composition root: it wires stores, read model, consumers
// and HTTP into one process.
//
// New makes nothing that has to be undone. Start acquires things in order,
// each with a named cleanup at once; Stop, and a Start that failed, run the
// cleanups last in, first out:
//
//	embedded nats-server → connection → streams → view → audit → executor →
//	admit → worker (recovers, then pulls) → HTTP listeners
//
// so that a stop closes the doors first, then drains the worker, then leaves
// the connection and the server. Stop is bounded and idempotent.
package app
