// Package consumers turns the log into finished work: admit makes a record of
// every logged task, the worker claims records and runs them, and liveness
// gives back what a dead process held.
//
//	WEBHOOKS ──admit──▶ STATE task.… queued ──watch──▶ view
//	    │                                               │ pick
//	    └──tasks: a token wakes a worker ──▶ claim (CAS queued→running)
//	                                           │ run
//	                                           ▼
//	                             finish (CAS, only by the holder) ──▶ ack
//
// Safety. A message is a wake-up; the record decides. A task runs only after
// its claimer won the compare-and-set from queued to running, and only the
// holder of that attempt (number, boot, nonce) can end it. A held task is
// given to another only when the beats of its boot stopped, counted in beats
// that came through the same watch, never by comparing clocks.
//
// Liveness. No task depends on its message and none on the view alone: a lost
// message is found by the view, a blind view by the tokens' probe every five
// seconds, a deleted consumer is made again. A process that cannot renew its
// beat cancels its own runs before anyone may take them.
//
// Caps. A task of an installation with a cap needs a place in
// slots.<installation>, taken by compare-and-set before its claim and given
// back after its end, so that what runs over all processes, really and by its
// record, is never more. What a dead process held is given back with its
// tasks; a living one looks after its own. Others pay nothing.
//
//	claim ─▶ place (CAS) ─▶ record (CAS) ─▶ run ─▶ end (CAS) ─▶ place given back
//
// On GitHub (Surfaces). The commander's permission is asked before anything
// shows. Then the record says that something shows, and at which head, before
// the first effect; the result shows before the record ends. So one of three
// closes what is open, whenever the process dies: the next attempt, which
// finds all there is by evidence; the holder; or, for whoever else ends the
// task, the outbox, by the record alone. A limit of GitHub parks the attempt
// at no cost, and its installation in this process.
//
//	claim ─▶ gate ─▶ begin ─▶ pin (CAS) ─▶ check run, comment ─▶ run ─▶ publish ─▶ finish (CAS)
//	           │        └─ the head moved: superseded, or queued again at the live one
//	           └─ declined: an answer, nothing else
//
// Operator requests (Issues). An approved one gets its one issue:
//
//	approved ─▶ ready? ─▶ begin (CAS) ──Committed──▶ one POST ──201──▶ submitted ─▶ outbox ─▶ delivered
//	                        │                            └─all else──▶ unknown ◀── the lease is over
//	                        ├─lost: somebody else's                       │ every 5 s … 10 min, for a day
//	                        └─no answer: reread, nothing more             └─ our own issues, by the marker ─▶ submitted
//
// Only the answer Committed to this very call lets it send the request (OT-15),
// and it sends it once, whatever comes back; after that only the record is
// repeated. What could keep the request from working (the installation, a
// token, a limit) is asked before the license is spent. A process that was
// not answered begins no attempt of that request again unless a person
// confirms it anew; another process, or its next life, may make its own first
// one, which the CAS keeps single. An issue is found by an authenticated
// marker in the App's own issues; nothing that is not found allows anything.
// Messages wake; every request is looked at again at start and every minute.
// Without a callback nobody is told, and the request stays submitted.
//
// Releases (ReleaseGate). A pull request that a task opened for such an issue
// is held by the check run belay/release: action_required, until an owner
// released exactly its head. The gate is put up by the outbox as part of the
// task's end; what the check run says follows from the live head and the
// stored release, whoever writes it and however often. A new head has no
// check run, so that nothing has to happen for it not to be released.
//
// Redelivery (Redeliverer). GitHub delivers once, and lists for three days
// what came of it. Under a lease one process reads that list since the cursor:
//
//	list ─▶ records of what did not arrive (Create) ─▶ cursor (CAS) ─▶ claim a try (CAS) ─▶ ask GitHub
//	  └─ a 2xx in any attempt: the record goes            └─ after the last try: given up, loudly
//
// The cursor passes a delivery only when it arrived or has its record, so a
// crash skips none; a try is claimed before GitHub is asked, so a crash wastes
// one at worst and no delivery is asked for without end. A delivery that comes
// twice is a duplicate. What GitHub got a 2xx for although the log does not
// hold it was answered by somebody else, or was lost with a store that was
// restored: it is asked for when a later delivery came here, not while the
// webhook leads elsewhere.
//
// What each failure does. Store unreachable: claims stop, results wait and
// are written when it is back. Process killed: its attempts are closed
// `interrupted` and spent. Message lost, doubled, replayed or late: one read.
// Record unreadable: it alone stays behind, counted.
package consumers
