package kv

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// scan reads the headers of a stream, oldest first, through a consumer of its
// own. The client's ordered consumer would make itself anew for ever, deaf to
// any context, when its stream or connection is gone.
type scan struct {
	js     jetstream.JetStream
	stream string
	cons   jetstream.Consumer
	left   uint64 // messages that the server still has for us
}

// scan begins at the first delivery stored at or after since, or (nil) at the
// oldest. Close it.
func (l *DeliveryLog) scan(ctx context.Context, since *time.Time) (*scan, error) {
	cfg := jetstream.ConsumerConfig{}
	if since != nil {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, since
	}
	return openScan(ctx, l.js, StreamWebhooks, cfg)
}

// openScan begins where cfg says, with the subjects that cfg names. Close it.
func openScan(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.ConsumerConfig) (*scan, error) {
	cfg.AckPolicy, cfg.HeadersOnly = jetstream.AckNonePolicy, true
	cfg.MemoryStorage, cfg.Replicas, cfg.InactiveThreshold = true, 1, time.Minute
	cons, err := js.CreateConsumer(ctx, stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("scan stream %s: %w", stream, classify(err))
	}
	return &scan{js: js, stream: stream, cons: cons, left: cons.CachedInfo().NumPending}, nil
}

// next calls f with each of the next n messages and returns how many there
// were: 0 at the end, which is the log's as it was at the start or later.
func (s *scan) next(ctx context.Context, n int, f func(h nats.Header, seq uint64)) (int, error) {
	if s.left == 0 {
		return 0, nil
	}
	batch, err := s.cons.FetchNoWait(n)
	if err != nil {
		return 0, fmt.Errorf("scan stream %s: %w", s.stream, classify(err))
	}
	got := 0
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return got, fmt.Errorf("scan stream %s: %w", s.stream, err)
		}
		got, s.left = got+1, meta.NumPending
		f(m.Headers(), meta.Sequence.Stream)
	}
	if err := batch.Error(); err != nil {
		return got, fmt.Errorf("scan stream %s: %w", s.stream, classify(err))
	}
	if err := ctx.Err(); err != nil {
		return got, fmt.Errorf("scan stream %s: %w", s.stream, err)
	}
	if got == 0 {
		// The server had more: they were purged, or it did not answer. Neither is the end of the log.
		return 0, fmt.Errorf("scan stream %s: %d were not sent: %w", s.stream, s.left, classify(nats.ErrTimeout))
	}
	return got, nil
}

// close ends the scan; what fails here the server does by itself in a minute.
func (s *scan) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.js.DeleteConsumer(ctx, s.stream, s.cons.CachedInfo().Name)
}
