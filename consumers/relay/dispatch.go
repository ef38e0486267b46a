package relay

import (
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/view"
)

// PendingOutbox is a record whose turn has come.
type PendingOutbox = view.PendingOutbox

// viewLag is how long a message waits for the read model to show its record;
// a model that does not by then is told to open its watch again.
const viewLag = 5 * time.Second

func (r *Relay) dispatchLoop() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-r.pull.Done():
			return
		case <-r.wake:
		case <-r.o.View.OutboxChanged():
		case <-t.C:
		}
		r.dispatch()
	}
}

// dispatch starts all that may be sent now and settles the messages that are
// held.
func (r *Relay) dispatch() {
	r.land()
	for _, p := range r.o.View.NextOutbox(r.seats.room, r.wants) {
		r.start(p)
	}
	r.letGo()
}

// wants reports whether this process is to try for a record now.
func (r *Relay) wants(p PendingOutbox) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.flying[p.ID]; ok {
		return false
	}
	_, mine := r.held[p.ID]
	return mine || r.o.Now().Sub(p.Since) >= r.o.grace(p.ID)
}

// start begins one delivery if the recipient has a seat.
func (r *Relay) start(p PendingOutbox) {
	to := recipient{p.Channel, p.To}
	if !r.seats.take(to) {
		return
	}
	r.mu.Lock()
	r.flying[p.ID] = flight{}
	msg := r.held[p.ID].msg
	delete(r.held, p.ID)
	r.mu.Unlock()
	r.wg.Go(func() {
		defer r.wakeUp()
		defer r.ended(p.ID)
		defer r.seats.release(to)
		r.deliver(p.ID, to, msg)
	})
}

// ended keeps an id for as long as the read model may still show it as pending.
func (r *Relay) ended(id outbox.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying[id] = flight{done: r.o.Now()}
}

// land forgets the ids that the read model shows as decided, and those that
// stayed pending for long enough to be tried again. It never asks the read
// model under its own lock, which that takes the other way round.
func (r *Relay) land() {
	now := r.o.Now()
	for id, f := range r.copyFlying() {
		if f.done.IsZero() {
			continue
		}
		if it, ok := r.o.View.FindOutbox(id); !ok || it.Status != outbox.Pending || now.Sub(f.done) >= reclaim {
			r.mu.Lock()
			delete(r.flying, id)
			r.mu.Unlock()
		}
	}
}

func (r *Relay) copyFlying() map[outbox.ID]flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.flying)
}

func (r *Relay) copyHeld() map[outbox.ID]heldMsg {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.held)
}

// hold keeps a message until its record can be claimed.
func (r *Relay) hold(id outbox.ID, msg jetstream.Msg) {
	r.mu.Lock()
	r.held[id] = heldMsg{msg, r.o.Now()}
	r.mu.Unlock()
	r.wakeUp()
}

// letGo acknowledges the messages of records that the read model knows: these
// need their message no more, whether it is their turn or not. The others wait
// a little, then come again.
func (r *Relay) letGo() {
	now := r.o.Now()
	for id, h := range r.copyHeld() {
		_, known := r.o.View.FindOutbox(id)
		switch {
		case known:
			_ = h.msg.Ack()
		case now.Sub(h.at) >= viewLag:
			_ = h.msg.NakWithDelay(viewLag)
			r.o.View.Reopen()
		default:
			continue
		}
		r.mu.Lock()
		if r.held[id] == h {
			delete(r.held, id)
		}
		r.mu.Unlock()
	}
}
