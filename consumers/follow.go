package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// followBatch is how many messages are asked for at once.
	followBatch = 64
	// followHeartbeat bounds how long a dead pull stays unnoticed (J10).
	followHeartbeat = 5 * time.Second
	// reopenWait is the pause before a broken pull is opened again.
	reopenWait = 250 * time.Millisecond
)

// follower hands the messages of a durable consumer to a function, several at
// once. What the function does not acknowledge comes again. Once ctx has ended
// what was sent already is still handed over, so that nobody waits for it.
type follower struct {
	js               jetstream.JetStream
	stream, consumer string
	parallel         int
	// restore makes a deleted durable again.
	restore func(ctx context.Context, stream, consumer string) error
	handle  func(msg jetstream.Msg)
	log     *slog.Logger
	now     func() time.Time
	// heartbeat is followHeartbeat, but for tests.
	heartbeat time.Duration
	// stalls counts the pulls that were opened again though they seemed alive.
	stalls prometheus.Counter

	last atomic.Int64 // unix nanoseconds of the last sign of the pull
}

// register completes a follower and its metric.
func (f *follower) register(reg prometheus.Registerer) *follower {
	f.heartbeat = followHeartbeat
	f.stalls = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "belay_pull_stalls_total", Help: "Times a pull was opened again because messages waited and none came.",
		ConstLabels: prometheus.Labels{"consumer": f.consumer},
	})
	reg.MustRegister(f.stalls)
	return f
}

// stalled is an error if messages wait which this process may have, and none
// came. Heartbeats tell that the server knows of the request, not that it serves
// it, which changes of the consumer's leader were seen to end (J10).
func (f *follower) stalled(ctx context.Context, cons jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(ctx, f.heartbeat)
	defer cancel()
	info, err := cons.Info(ctx)
	if err != nil || info.NumPending == 0 {
		return nil // without an answer the next heartbeat tells
	}
	if most := info.Config.MaxAckPending; most > 0 && info.NumAckPending >= most {
		return nil // others have all that may be out
	}
	f.stalls.Inc()
	return fmt.Errorf("pull from %s: %d messages wait, and none came for %s", f.consumer, info.NumPending, 3*f.heartbeat)
}

// run pulls until ctx ends and what is being handled is done.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.pull(ctx); err != nil && ctx.Err() == nil {
			f.log.Warn("pull ended, opening it again", "class", "pull_"+f.consumer, "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(reopenWait):
			}
		}
	}
}

// sign notes that the pull is alive.
func (f *follower) sign() { f.last.Store(f.now().UnixNano()) }

// lastSign is when the pull last proved to be alive.
func (f *follower) lastSign() time.Time { return time.Unix(0, f.last.Load()) }

func (f *follower) bind(ctx context.Context) (jetstream.Consumer, error) {
	cons, err := f.js.Consumer(ctx, f.stream, f.consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		if err = f.restore(ctx, f.stream, f.consumer); err == nil {
			cons, err = f.js.Consumer(ctx, f.stream, f.consumer)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bind consumer %s: %w", f.consumer, err)
	}
	return cons, nil
}

func (f *follower) pull(ctx context.Context) error {
	cons, err := f.bind(ctx)
	if err != nil {
		return err
	}
	it, err := cons.Messages(jetstream.PullMaxMessages(followBatch), jetstream.PullExpiry(2*f.heartbeat),
		jetstream.PullHeartbeat(f.heartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return fmt.Errorf("pull from %s: %w", f.consumer, err)
	}
	defer it.Stop()
	stop := context.AfterFunc(ctx, it.Drain)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	over := make(chan struct{})
	defer close(over)
	slots, crew := make(chan struct{}, f.parallel), newCrew(over)
	for {
		// A missing heartbeat ends Next after two of them, so a wait that is
		// longer and times out was alive all the while.
		msg, err := it.Next(jetstream.NextMaxWait(3 * f.heartbeat))
		switch {
		case errors.Is(err, jetstream.ErrMsgIteratorClosed) && ctx.Err() != nil:
			return nil
		case errors.Is(err, nats.ErrTimeout):
			if err := f.stalled(ctx, cons); err != nil {
				return err
			}
			f.sign()
			continue
		case err != nil:
			return fmt.Errorf("pull from %s: %w", f.consumer, err)
		}
		f.sign()
		slots <- struct{}{}
		wg.Add(1)
		crew.run(func() {
			defer wg.Done()
			defer func() { <-slots }()
			f.handle(msg)
		})
	}
}

// every calls f now and after each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
