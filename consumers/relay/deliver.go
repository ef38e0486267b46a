package relay

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
)

const (
	// callLimit bounds one try of any channel, well below the lease.
	callLimit = 50 * time.Second
	// settleLimit bounds one write of an outcome.
	settleLimit = 3 * time.Second
	// maxIdempotent bounds the tries of a channel that may repeat itself.
	maxIdempotent = 100
)

// deliver claims a record, acknowledges its message, and sends it: in this
// order, so that no message and no other process can make it go out twice.
func (r *Relay) deliver(id outbox.ID, to recipient, msg jetstream.Msg) {
	r.o.Hooks.call(func(h *Hooks) func(outbox.ID) { return h.BeforeClaim }, id)
	rec, won, err := r.o.Store.Claim(r.work, id, r.o.Boot)
	if err != nil {
		// Nobody knows whether the claim is ours, so nothing is sent.
		r.m.claims.WithLabelValues("failed").Inc()
		r.log.Warn("claim has no answer, nothing is sent", "class", "relay_claim", "outbox_id", id, "err", err)
		if msg != nil {
			_ = msg.NakWithDelay(viewLag)
		}
		return
	}
	if msg != nil {
		_ = msg.Ack()
	}
	if !won {
		r.m.claims.WithLabelValues("lost").Inc()
		return
	}
	r.m.claims.WithLabelValues("won").Inc()
	r.o.Hooks.call(func(h *Hooks) func(outbox.ID) { return h.Claimed }, id)
	if rec.InstallationID != 0 && r.o.View.Uninstalled(rec.InstallationID) {
		r.discard(rec)
		return
	}
	r.send(rec, to)
	r.o.Hooks.call(func(h *Hooks) func(outbox.ID) { return h.Finished }, id)
}

// discard removes what was derived while its installation was being purged:
// nothing of a deleted installation goes out any more (DT-102).
func (r *Relay) discard(rec outbox.Record) {
	_, err := r.settle(rec.ID, func(ctx context.Context) (outbox.Record, error) { return rec, r.o.Store.Discard(ctx, rec.ID) })
	if err != nil {
		r.finished(rec, Unknown, err)
		return
	}
	r.m.finished.WithLabelValues("discarded").Inc()
	r.log.Info("reply of a deleted installation was discarded", "outbox_id", rec.ID, "task_id", rec.TaskID)
}

// send makes the tries of one claim.
func (r *Relay) send(rec outbox.Record, to recipient) {
	ch, ok := r.o.Channel(rec.Channel)
	if !ok {
		r.fail(rec, Final, fmt.Sprintf("channel %q is not registered", rec.Channel))
		return
	}
	for try := 1; ; try++ {
		a := r.call(ch, rec)
		r.seats.judge(to, a.Verdict)
		var again bool
		if rec, again = r.judge(ch, rec, a, try); !again {
			return
		}
		if !r.pause(rec.NotBefore.Time) {
			if ch.Idempotent() {
				return // taken over once the claim has lapsed
			}
			r.fail(rec, Refused, "stopped before the next try; "+rec.LastError)
			return
		}
		if !r.mine(rec) {
			return
		}
	}
}

// judge writes down what a try came to and says whether there is to be another.
func (r *Relay) judge(ch Channel, rec outbox.Record, a Answer, try int) (outbox.Record, bool) {
	switch a.Verdict {
	case Delivered:
		n, err := r.settle(rec.ID, func(ctx context.Context) (outbox.Record, error) { return r.o.Store.MarkDelivered(ctx, rec.ID) })
		r.finished(n, Delivered, err)
		return n, false
	case Unrenderable:
		return r.fail(rec, a.Verdict, "render: "+a.Reason), false
	case Gone:
		if r.seats.disable(Disabled{Channel: rec.Channel, Reason: a.Reason, Since: r.o.Now()}) {
			r.log.Error("channel is disabled: its recipient wants nothing more", "outbox_id", rec.ID, "channel", rec.Channel, "reason", a.Reason)
			if r.o.Disabled != nil {
				r.o.Disabled(rec.Channel, a.Reason)
			}
		}
		return r.spent(rec, a, a.Reason), false
	case Final:
		return r.spent(rec, a, a.Reason), false
	case Unknown:
		if !ch.Idempotent() || try >= len(r.o.Waits) {
			n, err := r.attempt(rec, a.Reason, time.Time{})
			r.finished(n, Unknown, err)
			return n, false
		}
	}
	if ch.Idempotent() && (try >= len(r.o.Waits) || a.RetryAfter > r.o.MaxRetryAfter) {
		return r.later(rec, a), false
	}
	if try >= len(r.o.Waits) {
		return r.spent(rec, a, a.Reason), false
	}
	if a.RetryAfter > r.o.MaxRetryAfter {
		return r.spent(rec, a, fmt.Sprintf("asked to wait %s, at most %s is waited: %s", a.RetryAfter, r.o.MaxRetryAfter, a.Reason)), false
	}
	n, err := r.attempt(rec, a.Reason, r.o.Now().Add(max(r.o.Waits[try], a.RetryAfter)))
	if err != nil {
		r.finished(n, Unknown, err)
		return n, false
	}
	return n, true
}

// later leaves a record of a channel where a repetition changes nothing to the
// sweep, which takes it over once its claim has lapsed: a recipient may be
// away, or limit us, for longer than a seat is to be held.
func (r *Relay) later(rec outbox.Record, a Answer) outbox.Record {
	n, err := r.attempt(rec, a.Reason, r.o.Now().Add(a.RetryAfter))
	if err != nil {
		r.finished(n, Unknown, err)
		return n
	}
	r.m.finished.WithLabelValues("postponed").Inc()
	r.log.Warn("recipient does not take it now, it is tried again later", "class", "relay_postponed", "outbox_id", n.ID, "channel", n.Channel,
		"attempts", n.Attempts, "last_error", n.LastError, "from", n.NotBefore)
	return n
}

// call makes one try. A claim that was held up for so long that it may soon
// lapse is not sent: its lease is renewed by the next write first.
func (r *Relay) call(ch Channel, rec outbox.Record) Answer {
	if !r.o.Now().Before(rec.LeaseEnd().Add(-outbox.Lease / 2)) {
		return Answer{Verdict: Refused, Reason: "held up before it was sent"}
	}
	ctx, cancel := context.WithTimeout(r.work, callLimit)
	defer cancel()
	began := time.Now()
	ctx, done := r.span(ctx, &rec)
	a := guarded(ctx, ch, message(rec))
	if a.Verdict == "" {
		a.Verdict = Unknown
	}
	a.Reason = r.o.Redact.String(a.Reason)
	done(a)
	r.m.tried(rec.Channel, a.Verdict, time.Since(began))
	if r.o.Hooks != nil && r.o.Hooks.Answered != nil {
		r.o.Hooks.Answered(rec.ID, a)
	}
	return a
}

// guarded turns a channel's panic into an unknown outcome.
func guarded(ctx context.Context, ch Channel, m Message) (a Answer) {
	defer func() {
		if p := recover(); p != nil {
			a = Answer{Verdict: Unknown, Reason: fmt.Sprintf("channel panicked: %v\n%s", p, debug.Stack())}
		}
	}()
	return ch.Deliver(ctx, m)
}

func (r *Relay) attempt(rec outbox.Record, why string, notBefore time.Time) (outbox.Record, error) {
	return r.settle(rec.ID, func(ctx context.Context) (outbox.Record, error) {
		return r.o.Store.RecordAttempt(ctx, rec.ID, why, notBefore)
	})
}

// spent counts the last try and ends the record.
func (r *Relay) spent(rec outbox.Record, a Answer, why string) outbox.Record {
	if n, err := r.attempt(rec, a.Reason, time.Time{}); err != nil {
		r.finished(n, a.Verdict, err)
		return n
	}
	return r.fail(rec, a.Verdict, why)
}

func (r *Relay) fail(rec outbox.Record, v Verdict, why string) outbox.Record {
	n, err := r.settle(rec.ID, func(ctx context.Context) (outbox.Record, error) { return r.o.Store.MarkFailed(ctx, rec.ID, why) })
	r.finished(n, v, err)
	return n
}

// settle writes an outcome until it is decided or the lease may be over: from
// then on the record reads as unknown, which is what it is. A stop allows one
// more try.
func (r *Relay) settle(id outbox.ID, write func(context.Context) (outbox.Record, error)) (outbox.Record, error) {
	began := time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.work), settleLimit)
		rec, err := write(ctx)
		cancel()
		if err == nil || decided(err) || r.work.Err() != nil || time.Since(began) > outbox.Lease {
			if rec.ID == "" {
				rec.ID = id
			}
			return rec, err
		}
		r.log.Warn("outcome waits for the store", "class", "relay_settle", "outbox_id", id, "err", err)
		select {
		case <-r.work.Done():
		case <-time.After(wait):
		}
	}
}

// decided reports whether writing again cannot help.
func decided(err error) bool {
	for _, e := range []error{outbox.ErrState, kv.ErrNotFound, kv.ErrNewer, kv.ErrCorrupt, kv.ErrTooLarge} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// finished tells of an outcome. An error means that it could not be written:
// the record was resolved or purged meanwhile, or stays as it is.
func (r *Relay) finished(rec outbox.Record, v Verdict, err error) {
	if err != nil {
		r.m.finished.WithLabelValues("unwritten").Inc()
		r.log.Warn("outcome of a delivery could not be written", "class", "relay_unwritten", "outbox_id", rec.ID, "verdict", v, "err", err)
		return
	}
	r.m.done(rec, v, r.o.Now())
	level := r.log.Info
	if v != Delivered {
		level = r.log.Warn
	}
	level("delivery ended", "outbox_id", rec.ID, "task_id", rec.TaskID, "channel", rec.Channel, "status", rec.Status, "verdict", v,
		"attempts", rec.Attempts, "last_error", rec.LastError)
	if r.o.Finished != nil {
		r.o.Finished(rec, v)
	}
}

// pause waits until a time, false if the relay stops before. A stop waits for
// short pauses only.
func (r *Relay) pause(until time.Time) bool {
	t := time.NewTimer(until.Sub(r.o.Now()))
	defer t.Stop()
	stopping := r.pull.Done()
	for {
		select {
		case <-t.C:
			return true
		case <-r.work.Done():
			return false
		case <-stopping:
			if until.Sub(r.o.Now()) > stopWait {
				return false
			}
			stopping = nil
		}
	}
}

// mine reports whether the record is still there and held by the same claim.
func (r *Relay) mine(rec outbox.Record) bool {
	now, err := r.settle(rec.ID, func(ctx context.Context) (outbox.Record, error) {
		found, err := r.o.Store.Find(ctx, rec.ID)
		if err != nil || found == nil {
			return outbox.Record{}, errors.Join(err, kv.ErrNotFound)
		}
		return *found, nil
	})
	return err == nil && now.Status == outbox.Delivering && now.Claim.Nonce == rec.Claim.Nonce
}
