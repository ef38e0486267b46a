package relay

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/outbox"
)

const (
	// tick is how often claims that lapsed and records that came of age are
	// looked for, as nothing else signals these.
	tick = 500 * time.Millisecond
	// reclaim is after how long a record that stayed pending is tried again.
	reclaim = 2 * time.Second
	// stopWait is the longest pause between two tries that a stop waits for.
	stopWait = 10 * time.Second
)

// Relay sends the records of the outbox.
type Relay struct {
	o     Options
	log   *slog.Logger
	m     *metrics
	seats *seats

	mu     sync.Mutex
	flying map[outbox.ID]flight
	held   map[outbox.ID]heldMsg

	wake     chan struct{}
	pull     context.Context // ends first: nothing new is begun
	work     context.Context // ends later: what runs is given up
	stopPull context.CancelFunc
	stopWork context.CancelFunc
	wg       sync.WaitGroup
	sweeping sync.Mutex
	lastPull atomic.Int64
	lastPass atomic.Int64
}

// flight is a record that this process works on, or just did.
type flight struct{ done time.Time }

// heldMsg is a message whose record could not be looked at yet.
type heldMsg struct {
	msg jetstream.Msg
	at  time.Time
}

// New makes a relay; Start starts it.
func New(o Options) (*Relay, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	r := &Relay{
		o: o, log: o.Logger, seats: newSeats(o.Concurrency, o.PerRecipient),
		flying: map[outbox.ID]flight{}, held: map[outbox.ID]heldMsg{}, wake: make(chan struct{}, 1),
	}
	r.pull, r.stopPull = context.WithCancel(context.Background())
	r.work, r.stopWork = context.WithCancel(context.Background())
	r.m = newMetrics(o.Registerer, r)
	return r, nil
}

// Start begins to send; it does not block, whatever waits to be sent (OB-36).
func (r *Relay) Start() {
	now := r.o.Now().UnixNano()
	r.lastPull.Store(now)
	r.lastPass.Store(now)
	r.wg.Go(r.pullLoop)
	r.wg.Go(r.dispatchLoop)
	r.wg.Go(r.sweepLoop)
}

// Stop begins nothing new and waits for what is being sent until ctx ends;
// then it is given up: a request that was written stays unknown.
func (r *Relay) Stop(ctx context.Context) error {
	r.stopPull()
	defer r.stopWork()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		r.stopWork()
		<-done
		return fmt.Errorf("drain relay: %w", ctx.Err())
	}
}

// Flush waits until no record is left that could be sent now, or ctx ends.
func (r *Relay) Flush(ctx context.Context) error {
	if err := r.o.View.CatchUp(ctx, r.o.JS); err != nil {
		return fmt.Errorf("flush relay: %w", err)
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		next := r.o.View.NextOutbox(r.seats.room, func(p PendingOutbox) bool { return !r.busy(p.ID) })
		if len(next) == 0 && r.seats.inFlight() == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("flush relay: %w", ctx.Err())
		case <-r.pull.Done():
			return nil
		case <-look.C:
		}
	}
}

// Progress is when the relay's parts last proved to be alive.
type Progress struct {
	LastPull, LastSweep time.Time
	InFlight            int
}

// Progress returns it.
func (r *Relay) Progress() Progress {
	return Progress{
		LastPull: time.Unix(0, r.lastPull.Load()), LastSweep: time.Unix(0, r.lastPass.Load()), InFlight: r.seats.inFlight(),
	}
}

func (r *Relay) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Relay) busy(id outbox.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.flying[id]
	return ok
}
