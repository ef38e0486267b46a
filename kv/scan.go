package kv

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// scan reads the headers of the log from a time on, oldest first, through a
// consumer of its own. The client's ordered consumer would make itself anew
// for ever, deaf to any context, when its stream or connection is gone.
type scan struct {
	log  *DeliveryLog
	cons jetstream.Consumer
	left uint64 // messages that the server still has for us
}

// scan begins at the first delivery stored at or after since, or (nil) at the
// oldest. Close it.
func (l *DeliveryLog) scan(ctx context.Context, since *time.Time) (*scan, error) {
	cfg := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	}
	if since != nil {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, since
	}
	cons, err := l.js.CreateConsumer(ctx, StreamWebhooks, cfg)
	if err != nil {
		return nil, fmt.Errorf("scan deliveries: %w", classify(err))
	}
	return &scan{log: l, cons: cons, left: cons.CachedInfo().NumPending}, nil
}

// next calls f with each of the next n messages and returns how many there
// were: 0 at the end, which is the log's as it was at the start or later.
func (s *scan) next(ctx context.Context, n int, f func(h nats.Header, seq uint64)) (int, error) {
	if s.left == 0 {
		return 0, nil
	}
	batch, err := s.cons.FetchNoWait(n)
	if err != nil {
		return 0, fmt.Errorf("scan deliveries: %w", classify(err))
	}
	got := 0
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return got, fmt.Errorf("scan deliveries: %w", err)
		}
		got, s.left = got+1, meta.NumPending
		f(m.Headers(), meta.Sequence.Stream)
	}
	if err := batch.Error(); err != nil {
		return got, fmt.Errorf("scan deliveries: %w", classify(err))
	}
	if err := ctx.Err(); err != nil {
		return got, fmt.Errorf("scan deliveries: %w", err)
	}
	if got == 0 {
		// The server had more: they were purged, or it did not answer. Neither is the end of the log.
		return 0, fmt.Errorf("scan deliveries: %d were not sent: %w", s.left, classify(nats.ErrTimeout))
	}
	return got, nil
}

// close ends the scan; what fails here the server does by itself in a minute.
func (s *scan) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.log.js.DeleteConsumer(ctx, StreamWebhooks, s.cons.CachedInfo().Name)
}
