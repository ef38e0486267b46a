package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// ErrLeaseLost is the cause of the end of a context whose lease could not be
// renewed, or was taken.
var ErrLeaseLost = errors.New("lease is lost")

// A lease in terms of the time between its renewals, like the beats of
// workers (DESIGN §7): who has not renewed it for loseAfter stops, who has not
// seen it change for takeAfter may take it, and it expires after keepAfter.
const (
	leaseEvery     = 5 * time.Second
	leaseLoseAfter = 4
	leaseTakeAfter = 6
	leaseKeepAfter = 18
)

// leaseVersion is written to every lease; a newer one is not read.
const leaseVersion = 1

// Lease lets one process at a time do something. It is a record under
// lease.<name> in STATE that its holder changes by compare-and-set every few
// seconds. No clocks of two machines are compared: a holder counts its own
// time since it began the last renewal that was acknowledged, others count
// theirs since they first saw the record's revision, which is later.
//
// A process that was frozen finds its context cancelled when it thaws; what
// it was about to send then may still go out. So what is done under a lease
// has to be harmless when it is done twice, as compare-and-set makes it.
type Lease struct {
	o     LeaseOptions
	key   string
	nonce string
	b     *Bucket
	held  atomic.Bool

	// Of the goroutine that contends.
	seen   uint64 // the record's revision, and when it was first seen
	seenAt time.Time

	mu      sync.Mutex
	renewed time.Time // when the last acknowledged renewal began
}

// LeaseOptions are what a Lease is made of. Name and Boot are needed.
type LeaseOptions struct {
	// Name is what is leased, such as "retention"; Boot is a label for people.
	Name string
	Boot task.BootID
	// Alone says that every other holder is known to be dead.
	Alone bool
	// Every is the time between two renewals; 0 is 5 s.
	Every  time.Duration
	Logger *slog.Logger
	// Hooks are failpoints for tests.
	Hooks *Hooks
}

// leaseRecord is the value of a lease. N counts renewals, so that each is
// another value.
type leaseRecord struct {
	V     int         `json:"v"`
	Boot  task.BootID `json:"boot"`
	Nonce string      `json:"nonce"`
	N     uint64      `json:"n"`
}

// LeaseKey is the key of a lease.
func LeaseKey(name string) string { return Key(PrefixLease, name) }

// OpenLease binds to bucket STATE. Run contends for the lease.
func OpenLease(ctx context.Context, js jetstream.JetStream, o LeaseOptions) (*Lease, error) {
	b, err := OpenBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	b.Hooks = o.Hooks
	if o.Every == 0 {
		o.Every = leaseEvery
	}
	return &Lease{o: o, key: LeaseKey(o.Name), nonce: uuid.NewString(), b: b}, nil
}

// Held reports whether this process holds the lease.
func (l *Lease) Held() bool { return l.held.Load() && l.left() > 0 }

// Run calls f whenever the lease is held, again and again until ctx ends. The
// context of f ends before another process may take the lease, with the cause
// ErrLeaseLost, or with ctx; f has to return at once then. When ctx ends or f
// returns by itself the lease is given back, and another takes it at once.
func (l *Lease) Run(ctx context.Context, f func(ctx context.Context)) {
	wake := make(chan struct{}, 1)
	watching := make(chan struct{})
	wctx, cancel := context.WithCancel(ctx)
	go func() { defer close(watching); l.watch(wctx, wake) }()
	defer func() { cancel(); <-watching }()
	tick := time.NewTicker(l.o.Every)
	defer tick.Stop()
	for {
		mine, err := l.take(ctx)
		again := wake
		switch {
		case mine:
			l.hold(ctx, f)
			again = nil // first it is the turn of others
			tick.Reset(l.o.Every)
		case err != nil && ctx.Err() == nil:
			l.o.Logger.Warn("lease cannot be had yet", "class", "lease_"+l.o.Name, "lease", l.o.Name, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-tick.C:
		}
	}
}

// watch sends to wake when the record changes, so that a lease that is given
// back is taken at once. That the watch may be blind for a while costs a tick.
func (l *Lease) watch(ctx context.Context, wake chan<- struct{}) {
	call := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		if w, err := l.watcher(ctx); err == nil {
			call() // for what changed before
			for range w.Updates() {
				call()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(l.o.Every):
		}
	}
}

func (l *Lease) watcher(ctx context.Context) (jetstream.KeyWatcher, error) {
	bucket, err := l.b.js.KeyValue(ctx, BucketState)
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", classify(err))
	}
	w, err := bucket.Watch(ctx, l.key, jetstream.UpdatesOnly())
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", l.key, classify(err))
	}
	context.AfterFunc(ctx, func() { _ = w.Stop() })
	return w, nil
}

// take looks at the record once, and takes it if it is free.
func (l *Lease) take(ctx context.Context) (bool, error) {
	e, err := l.b.Get(ctx, l.key)
	if errors.Is(err, ErrNotFound) {
		return l.write(ctx, 0, 1)
	}
	if err != nil {
		return false, err
	}
	if e.Revision != l.seen {
		l.seen, l.seenAt = e.Revision, time.Now()
	}
	r, err := decodeLease(e.Value)
	mine := err == nil && r.Nonce == l.nonce // a write whose answer was lost
	still := time.Since(l.seenAt) >= leaseTakeAfter*l.o.Every
	switch {
	case errors.Is(err, ErrNewer):
		// Its holder may follow other rules. It expires when it is not renewed.
		return false, fmt.Errorf("lease of a newer belay: %w", err)
	case mine, still, l.o.Alone:
		return l.write(ctx, e.Revision, r.N+1)
	}
	return false, err
}

// write puts my record on top of a revision, 0 for none, and reports whether
// it is there. An unknown outcome is looked up by the next take.
func (l *Lease) write(ctx context.Context, on, n uint64) (bool, error) {
	value, err := json.Marshal(leaseRecord{V: leaseVersion, Boot: l.o.Boot, Nonce: l.nonce, N: n})
	if err != nil {
		return false, fmt.Errorf("encode lease: %w", err)
	}
	ttl := max(leaseKeepAfter*l.o.Every, 2*time.Second).Round(time.Second)
	began := time.Now()
	if on == 0 {
		_, err = l.b.Create(ctx, l.key, value, ttl)
	} else {
		_, err = l.b.Update(ctx, l.key, value, on, ttl)
	}
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, ErrExists):
		return false, nil // somebody was faster
	case err != nil:
		return false, err
	}
	l.mu.Lock()
	l.renewed = began
	l.mu.Unlock()
	return true, nil
}

// left is the time until others may begin to think of taking the lease.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return leaseLoseAfter*l.o.Every - time.Since(l.renewed)
}

// hold runs f and renews the lease until f is done.
func (l *Lease) hold(ctx context.Context, f func(ctx context.Context)) {
	hctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A timer of its own, so that nothing that hangs can hold it up.
	lost := time.AfterFunc(l.left(), func() { cancel(ErrLeaseLost) })
	defer lost.Stop()
	l.held.Store(true)
	defer l.held.Store(false)
	l.o.Logger.Debug("lease is held", "lease", l.o.Name)
	done := make(chan struct{})
	go func() { defer close(done); f(hctx) }()
	tick := time.NewTicker(l.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			l.release(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
		if errors.Is(context.Cause(hctx), ErrLeaseLost) {
			l.o.Logger.Warn("lease is lost", "class", "lease_"+l.o.Name, "lease", l.o.Name)
			<-done
			return
		}
		if l.renew(context.WithoutCancel(ctx)) {
			lost.Reset(l.left())
		} else {
			cancel(ErrLeaseLost)
		}
	}
}

// renew changes my record once more. It is false once the lease is somebody
// else's; a store that does not answer leaves that open.
func (l *Lease) renew(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, min(l.o.Every, max(l.left(), 0)))
	defer cancel()
	e, err := l.b.Get(ctx, l.key)
	if err == nil {
		var r leaseRecord
		if r, err = decodeLease(e.Value); err != nil || r.Nonce != l.nonce {
			return false
		}
		var mine bool
		if mine, err = l.write(ctx, e.Revision, r.N+1); mine {
			return true
		}
	}
	if err != nil {
		l.o.Logger.Warn("lease is not renewed", "class", "lease_"+l.o.Name, "lease", l.o.Name, "err", err)
	}
	return !errors.Is(err, ErrNotFound)
}

// release gives a lease back that is still mine.
func (l *Lease) release(ctx context.Context) {
	e, err := l.b.Get(ctx, l.key)
	if err == nil {
		if r, derr := decodeLease(e.Value); derr != nil || r.Nonce != l.nonce {
			return
		}
		err = l.b.Purge(ctx, l.key, e.Revision)
	}
	if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotFound) {
		l.o.Logger.Warn("lease is not given back, it ends by itself", "class", "lease_"+l.o.Name, "lease", l.o.Name, "err", err)
	}
}

func decodeLease(data []byte) (leaseRecord, error) {
	var r leaseRecord
	if err := task.Decode(data, &r, &r.V); err != nil {
		return r, fmt.Errorf("decode lease: %w", err)
	}
	return r, nil
}
