package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/kv"
)

const (
	// admitParallel is how many are admitted at once. Order does not matter:
	// every decision is made anew from the pointer.
	admitParallel = 16
	// admitDeadline bounds one admission below the consumer's AckWait.
	admitDeadline = 4 * time.Second
)

// AdmitLoop feeds the messages of the durable consumer `admit` to an Admitter.
type AdmitLoop struct {
	admit  *Admitter
	follow *follower
	log    *slog.Logger
	count  *prometheus.CounterVec

	mu   sync.Mutex
	stop context.CancelFunc // nil until Start
	work context.CancelFunc
	over bool
	done chan struct{}
}

// NewAdmitLoop makes the loop; restore makes a deleted durable again.
func NewAdmitLoop(js jetstream.JetStream, a *Admitter, restore func(ctx context.Context, stream, consumer string) error, reg prometheus.Registerer) *AdmitLoop {
	l := &AdmitLoop{admit: a, log: a.log, done: make(chan struct{})}
	l.follow = (&follower{
		js: js, stream: kv.StreamWebhooks, consumer: kv.ConsumerAdmit, parallel: admitParallel, restore: restore, log: a.log, now: a.now,
	}).register(reg)
	l.count = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "belay_admit_messages_total", Help: "Messages of the consumer admit by outcome.",
	}, []string{"outcome"})
	for _, o := range []string{"admitted", "failed", "poison"} {
		l.count.WithLabelValues(o)
	}
	reg.MustRegister(l.count)
	return l
}

// Start begins to pull; it does not block. A loop starts once.
func (l *AdmitLoop) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil || l.over {
		return
	}
	pull, stop := context.WithCancel(context.Background())
	work, cancel := context.WithCancel(context.Background())
	l.stop, l.work = stop, cancel
	l.follow.handle = func(msg jetstream.Msg) { l.handle(work, msg) }
	l.follow.sign()
	go func() {
		defer close(l.done)
		l.follow.run(pull)
	}()
}

// Stop stops pulling, waits for what is being admitted until ctx ends, then
// cancels it; nothing is lost either way. It may be called again.
func (l *AdmitLoop) Stop(ctx context.Context) error {
	l.mu.Lock()
	l.over = true
	stop := l.stop
	l.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	defer l.work()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		l.work()
		<-l.done
		return fmt.Errorf("drain admit: %w", ctx.Err())
	}
}

// LastSign is when the pull last proved to be alive.
func (l *AdmitLoop) LastSign() time.Time { return l.follow.lastSign() }

// handle admits one message and acknowledges it; whatever goes wrong, the
// message comes again, but for one that can never be read.
func (l *AdmitLoop) handle(ctx context.Context, msg jetstream.Msg) {
	ctx, cancel := context.WithTimeout(ctx, admitDeadline)
	defer cancel()
	meta, err := msg.Metadata()
	if err != nil {
		l.log.Error("message without metadata", "class", "poison", "err", err)
		return
	}
	d, err := kv.Decode(msg.Data())
	switch {
	case errors.Is(err, kv.ErrNewer):
		l.count.WithLabelValues("failed").Inc()
		_ = msg.NakWithDelay(30 * time.Second) // a newer belay will admit it
		return
	case err != nil:
		l.count.WithLabelValues("poison").Inc()
		l.log.Error("message cannot be decoded and is acknowledged", "class", "poison", "seq", meta.Sequence.Stream, "err", err)
		_ = msg.Ack()
		return
	}
	if err := l.admit.Admit(ctx, d, meta.Sequence.Stream); err != nil {
		l.count.WithLabelValues("failed").Inc()
		l.log.Warn("admit failed, the message stays", "class", "admit", "github_delivery_id", d.ID, "err", err)
		_ = msg.NakWithDelay(time.Second)
		return
	}
	l.count.WithLabelValues("admitted").Inc()
	_ = msg.Ack()
}
