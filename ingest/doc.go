// Package ingest is belay's HTTP front door: it turns GitHub's webhooks into
// deliveries of the log, and answers lists, tasks and commands under
// /api/github. It knows its stores by the small interfaces of ports.go only.
//
// # The webhook
//
// Each step answers or hands on; nothing is stored before the last (DESIGN §5):
//
//	POST /webhook, /webhook/{source}   404 unknown source
//	  │ 1 body ≤ MaxBody ─────────── 413 payload too large
//	  │   all bodies ≤ MaxInFlight ─ 503 too many bodies in flight
//	  │ 2 X-Hub-Signature-256 ────── 401 missing signature | invalid signature
//	  │ 3 X-GitHub-Event ─────────── 400 missing event type
//	  │ 4 X-GitHub-Delivery ──────── 400 missing delivery id | invalid delivery id
//	  │   JSON, or a form's payload  400 parse error
//	  │ 5 route (pure); whose the installation is, where there are several sources
//	  ▼ 6 DeliveryLog.Accept ─────── 409 delivery id reused with another body
//	  200 {"ok":true,…}              503 storage unavailable
//
// Safety: 200 is said only after Accept said that the delivery is durable
// (DT-1, DT-51). Accept runs detached from the client's connection, so a
// client that hangs up can not make half a write of it, and a repeat is a
// duplicate. No part of a body outlives its request: bodies live in pooled
// buffers, and what routing keeps of them is copied.
//
// Liveness: the answer is said within IntakeDeadline of the request's first
// byte (DT-54), below GitHub's own 10 s: the body has to be read by then and
// Accept has what is left. A 503 loses nothing that GitHub was told it has;
// the redelivery of such a delivery is asked for elsewhere (DESIGN §10).
//
// A panic answers 500, is logged and counted, and ends nothing but its request.
//
// # The API
//
// Reads and commands pass, in this order, the guard of open mode or the
// bearer token (401, the same answer for everything), and for mutations the
// content type (415) and the origin (403). A caller's Scope travels in the
// request's context and is applied inside every query, so that what is out of
// scope reads as what does not exist: the same stores are asked for the same,
// and no page is short of what was left out. Every read, denial and mutation
// is told to the Auditor.
//
// # Operator tasks
//
// The routes under /api/operator ask for a signature instead of a token:
//
//	no key or repository ── 503      body > 64 KiB ── 413
//	headers, time ± 5 min, HMAC ──── 401, the same for everything
//	nonce, used up in the store ──── 401
//	content type ─────────────────── 415
//	body, unknown fields too ─────── 400
//	▼ one call of the store ──────── its code, with the request as it is now
//
// Safety: the owner is made here, of the signed headers and of the tenant that
// the request's id was proposed under; nothing of it is read from a body. These
// routes create no issue: they append Proposed and Approved, and wake the
// consumer that does. POST /api/events, which anybody with a token may use,
// refuses the names of these streams before it looks at anything else.
//
// # Two listeners
//
// Public serves the webhook, the API and health without details; Admin serves
// health with details and /metrics, and is meant for loopback.
package ingest
