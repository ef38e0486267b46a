// Package app is the composition root: it wires stores, read model, consumers
// and HTTP into one process.
//
// What a process starts depends on its role; all is all of it:
//
//	ingest   the public listener: webhooks, API, signed routes of operators
//	worker   admission, claims and runs, recovery of dead workers' tasks,
//	         what tasks show on GitHub while they run, their logs
//	relay    the outbox, operators' issues, releases of pull requests, and what
//	         one process of a fleet does, by a lease: retention, redelivery
//
// Each has the read model, the audit trail and the admin listener. Whoever ends
// a task, a person at the API included, writes its replies with it; the relay
// sends them.
//
// New makes nothing that has to be undone. Start acquires things in order,
// each with a named cleanup at once; Stop, and a Start that failed, run the
// cleanups last in, first out:
//
//	HTTP listeners (503 until all is up) → embedded nats-server → connection →
//	streams → stores → view → executor → relay → worker (recovers, then pulls)
//	→ retention → admission → doors
//
// so that a stop closes the doors first, then drains the worker, then leaves
// the connection and the server. Stop is bounded and idempotent.
package app
