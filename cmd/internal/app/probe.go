package app

import (
	"context"
	"fmt"
	"time"

	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/kv/task"
)

// stalledAfter is how many beats may pass without a sign until readiness
// says so.
const stalledAfter = 4

// prober answers the health routes from what the parts report: those that
// this process has.
type prober struct{ *App }

// Store proves that the store takes a write.
func (p *prober) Store(ctx context.Context) error {
	return p.store.Probe(ctx, p.o.Boot)
}

// fail adds a condition.
type fail func(name, next, format string, args ...any)

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
	add := func(name, next, format string, args ...any) {
		out = append(out, ingest.Condition{Name: name, Message: fmt.Sprintf(format, args...), Next: next})
	}
	if !p.view.Synced() {
		add("view", "wait; if it stays, look at the log for the watch of bucket STATE", "the read model has not caught up")
	}
	limit := stalledAfter * beatEvery(p.o.BeatEvery)
	p.watchReady(add, limit)
	p.workReady(add, limit)
	p.relayReady(add, limit)
	return out
}

// watchReady looks for my own beats in the watch; a process without a worker
// has none, and opens a silent watch again by what the bucket holds (reach.go).
func (p *prober) watchReady(add fail, limit time.Duration) {
	if _, at := p.view.OwnBeat(); !at.IsZero() && p.o.Now().Sub(at) > limit {
		add("watch", "look at the log; the watch is opened again by itself", "the read model saw no beat since %s", task.At(at))
	}
}

func (p *prober) workReady(add fail, limit time.Duration) {
	if !p.o.Config.Works() {
		return
	}
	now := p.o.Now()
	w := p.worker.Load().Progress()
	if age := now.Sub(w.LastBeat); age > limit {
		add("beat", "look at the NATS server; runs were cancelled and will be queued again", "no beat was acknowledged for %s", age.Round(time.Second))
	}
	if age := now.Sub(w.LastPull); w.Running < w.Slots && !w.LastPull.IsZero() && age > limit {
		add("pull", "look at `nats consumer info WEBHOOKS tasks`", "the worker's pull was not answered for %s", age.Round(time.Second))
	}
	if age := now.Sub(p.admit.LastSign()); age > limit+10*time.Second {
		add("admit", "look at `nats consumer info WEBHOOKS admit`", "admission shows no sign of life for %s", age.Round(time.Second))
	}
}

func (p *prober) relayReady(add fail, limit time.Duration) {
	now := p.o.Now()
	if r := p.relay.Load(); r != nil {
		rp := r.Progress()
		if age := now.Sub(rp.LastPull); age > limit+10*time.Second {
			add("relay", "look at `nats consumer info KV_STATE relay`", "the relay's pull was not answered for %s", age.Round(time.Second))
		}
		if age := now.Sub(rp.LastSweep); age > 5*time.Minute {
			add("sweep", "look at the log for class relay_sweep", "the outbox was not swept for %s", age.Round(time.Second))
		}
	}
	if i := p.issues.Load(); i != nil {
		if age := now.Sub(i.LastSign()); age > limit+10*time.Second {
			add("issues", "look at `nats consumer info OPERATOR issues`", "the creation of issues shows no sign of life for %s", age.Round(time.Second))
		}
	}
}
