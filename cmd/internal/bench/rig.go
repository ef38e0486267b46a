package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/streams"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

const (
	// fillers is how many records are created at once.
	fillers = 32
	// patience bounds every wait for something that has to come.
	patience = 2 * time.Minute
)

// rig is an outbox of its own: a server in a folder, its store, its read model.
type rig struct {
	server   *natsserver.Server
	nc       *nats.Conn
	js       jetstream.JetStream
	store    *kv.OutboxStore
	view     *view.View
	channels map[string]relay.Channel
	undo     []func() error
}

// newRig starts one in dir. The built-in nats.conf syncs every write.
func newRig(ctx context.Context, dir string) (r *rig, err error) {
	r = &rig{channels: map[string]relay.Channel{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.server, err = natsserver.Start(ctx, natsserver.Options{Dir: dir, Listen: natsserver.ListenNone}); err != nil {
		return r, err
	}
	r.undo = append(r.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return r.server.Shutdown(ctx)
	})
	if r.nc, err = nats.Connect("", r.server.ConnectOptions()...); err != nil {
		return r, fmt.Errorf("connect: %w", err)
	}
	r.undo = append(r.undo, func() error { r.nc.Close(); return nil })
	if r.js, err = jetstream.New(r.nc); err != nil {
		return r, fmt.Errorf("open JetStream: %w", err)
	}
	set, err := streams.Load(belay.StreamsJSON)
	if err != nil {
		return r, err
	}
	if _, err = streams.Reconcile(ctx, r.js, set, streams.Options{Replicas: 1, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return r, err
	}
	if r.store, err = kv.OpenOutboxStore(ctx, r.js, time.Now); err != nil {
		return r, err
	}
	return r, r.openView(ctx)
}

func (r *rig) openView(ctx context.Context) error {
	r.view = view.New(slog.New(slog.DiscardHandler), time.Now)
	vctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.view.Run(vctx, r.js) }()
	r.undo = append(r.undo, func() error { cancel(); <-done; return nil })
	return until(ctx, "the read model", r.view.Synced)
}

// close undoes everything, the last first.
func (r *rig) close() error {
	var errs []error
	for i := len(r.undo) - 1; i >= 0; i-- {
		errs = append(errs, r.undo[i]())
	}
	r.undo = nil
	return errors.Join(errs...)
}

// callback registers a callback to a receiver.
func (r *rig) callback(name, url string, timeout time.Duration) error {
	c, err := relay.NewCallback(relay.CallbackOptions{
		Name: name, URL: url, Secrets: secrets(), AllowPrivate: true, Timeout: timeout,
	})
	if err != nil {
		return err
	}
	r.channels[relay.CallbackChannel(name)] = c
	r.undo = append(r.undo, func() error { c.Close(); return nil })
	return nil
}

// put creates one pending record.
func (r *rig) put(ctx context.Context, id outbox.ID, callback, to string, payload []byte) error {
	rec, err := outbox.New(id, relay.CallbackChannel(callback), to, payload, time.Now())
	if err == nil {
		_, err = r.store.Create(ctx, rec)
	}
	return err
}

// fill creates n pending records, many at once, and waits until the read model
// shows them.
func (r *rig) fill(ctx context.Context, prefix string, n int, callback, to string, payload []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range fillers {
		wg.Go(func() {
			for i := range next {
				if err := r.put(ctx, outbox.ID(fmt.Sprintf("%s%d", prefix, i)), callback, to, payload); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("queue replies: %w", context.Cause(ctx))
	}
	return until(ctx, "the read model to show what is queued", func() bool {
		return r.view.OutboxCounts().ByStatus[outbox.Pending] >= n
	})
}

// relay starts the relay that serve runs.
func (r *rig) relay(finished func(outbox.Record, relay.Verdict)) (*relay.Relay, error) {
	rl, err := relay.New(relay.Options{
		Store: r.store, View: r.view, JS: r.js, Boot: task.BootID(uuid.NewString()), Alone: true,
		Channel:  func(name string) (relay.Channel, bool) { c, ok := r.channels[name]; return c, ok },
		Derive:   func(context.Context) error { return nil },
		Finished: finished, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Registerer: prometheus.NewRegistry(),
		PerRecipient: concurrency,
	})
	if err != nil {
		return nil, err
	}
	rl.Start()
	return rl, nil
}

// until waits for a condition.
func until(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-look.C:
		}
	}
	return nil
}
