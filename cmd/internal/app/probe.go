package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// stalledAfter is how many beats may pass without a sign until readiness
// says so.
const stalledAfter = 4

// prober answers the health routes from what the parts report.
type prober struct {
	store  *kv.TaskStore
	view   *view.View
	worker *consumers.Worker
	admit  *consumers.AdmitLoop
	relay  *atomic.Pointer[relay.Relay]
	issues *atomic.Pointer[consumers.Issues]
	boot   task.BootID
	beat   time.Duration
	now    func() time.Time
}

// Store proves that the store takes a write.
func (p *prober) Store(ctx context.Context) error { return p.store.Probe(ctx, p.boot) }

// Ready returns what keeps the process from making progress.
func (p *prober) Ready(ctx context.Context) []ingest.Condition {
	var out []ingest.Condition
	if err := p.Store(ctx); err != nil {
		out = append(out, ingest.Condition{
			Name: "store", Message: fmt.Sprintf("the store takes no write: %v", err), Next: "look at the disk of storage.dir, or at the NATS server",
		})
	}
	return append(out, p.stalled()...)
}

// stalled is Ready without a write: what the parts have noted themselves.
func (p *prober) stalled() []ingest.Condition {
	var out []ingest.Condition
	fail := func(name, next, format string, args ...any) {
		out = append(out, ingest.Condition{Name: name, Message: fmt.Sprintf(format, args...), Next: next})
	}
	if !p.view.Synced() {
		fail("view", "wait; if it stays, look at the log for the watch of bucket STATE", "the read model has not caught up")
	}
	limit := stalledAfter * p.beat
	if _, at := p.view.OwnBeat(); !at.IsZero() && p.now().Sub(at) > limit {
		fail("watch", "look at the log; the watch is opened again by itself", "the read model saw no beat since %s", task.At(at))
	}
	w := p.worker.Progress()
	if age := p.now().Sub(w.LastBeat); age > limit {
		fail("beat", "look at the NATS server; runs were cancelled and will be queued again", "no beat was acknowledged for %s", age.Round(time.Second))
	}
	if age := p.now().Sub(w.LastPull); w.Running < w.Slots && !w.LastPull.IsZero() && age > limit {
		fail("pull", "look at `nats consumer info WEBHOOKS tasks`", "the worker's pull was not answered for %s", age.Round(time.Second))
	}
	if age := p.now().Sub(p.admit.LastSign()); age > limit+10*time.Second {
		fail("admit", "look at `nats consumer info WEBHOOKS admit`", "admission shows no sign of life for %s", age.Round(time.Second))
	}
	if r := p.relay.Load(); r != nil {
		rp := r.Progress()
		if age := p.now().Sub(rp.LastPull); age > limit+10*time.Second {
			fail("relay", "look at `nats consumer info KV_STATE relay`", "the relay's pull was not answered for %s", age.Round(time.Second))
		}
		if age := p.now().Sub(rp.LastSweep); age > 5*time.Minute {
			fail("sweep", "look at the log for class relay_sweep", "the outbox was not swept for %s", age.Round(time.Second))
		}
	}
	if i := p.issues.Load(); i != nil {
		if age := p.now().Sub(i.LastSign()); age > limit+10*time.Second {
			fail("issues", "look at `nats consumer info OPERATOR issues`", "the creation of issues shows no sign of life for %s", age.Round(time.Second))
		}
	}
	return out
}
