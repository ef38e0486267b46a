package consumers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// tokens pulls from the durable consumer `tasks`. A token says that there is
// work; it is the queue that the nats CLI shows.
type tokens struct {
	js      jetstream.JetStream
	restore func(ctx context.Context, stream, consumer string) error
	cons    chan jetstream.Consumer // holds the handle, nil until it is bound
}

// token is one message of `tasks`, or the lack of one.
type token struct {
	msg      jetstream.Msg
	delivery task.Delivery
	seq      uint64
	err      error // why the message cannot be decoded
	acked    bool
}

// errConsumerGone means that the durable was deleted and is made again.
var errConsumerGone = errors.New("consumer is gone")

func newTokens(js jetstream.JetStream, restore func(ctx context.Context, stream, consumer string) error) *tokens {
	t := &tokens{js: js, restore: restore, cons: make(chan jetstream.Consumer, 1)}
	t.cons <- nil
	return t
}

func (t *tokens) consumer(ctx context.Context) (jetstream.Consumer, error) {
	c := <-t.cons
	defer func() { t.cons <- c }()
	if c != nil {
		return c, nil
	}
	got, err := t.js.Consumer(ctx, kv.StreamWebhooks, kv.ConsumerTasks)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		if err = t.restore(ctx, kv.StreamWebhooks, kv.ConsumerTasks); err == nil {
			got, err = t.js.Consumer(ctx, kv.StreamWebhooks, kv.ConsumerTasks)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bind consumer %s: %w", kv.ConsumerTasks, err)
	}
	c = got
	return c, nil
}

func (t *tokens) forget() {
	<-t.cons
	t.cons <- nil
}

// pull asks for one message and does not wait: nil if there is none.
func (t *tokens) pull(ctx context.Context) (*token, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := t.consumer(ctx)
	if err != nil {
		return nil, err
	}
	asked := time.Now()
	batch, err := c.FetchNoWait(1)
	if err != nil {
		t.forget()
		return nil, fmt.Errorf("pull from %s: %w", kv.ConsumerTasks, err)
	}
	var msg jetstream.Msg
	select {
	case m, ok := <-batch.Messages():
		if ok {
			msg = m
		}
	case <-ctx.Done():
		t.forget()
		return nil, fmt.Errorf("pull from %s: %w", kv.ConsumerTasks, ctx.Err())
	}
	if msg != nil {
		return open(msg), nil
	}
	if err := batch.Error(); gone(err) {
		t.forget()
		return nil, fmt.Errorf("pull from %s: %w: %w", kv.ConsumerTasks, errConsumerGone, err)
	}
	// The client reports no answer at all like an empty one, a second later.
	if time.Since(asked) >= time.Second {
		return nil, fmt.Errorf("pull from %s: %w", kv.ConsumerTasks, nats.ErrTimeout)
	}
	return nil, nil
}

// gone tells a deleted consumer from an empty one.
func gone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, nats.ErrNoResponders)
}

func open(msg jetstream.Msg) *token {
	t := &token{msg: msg}
	meta, err := msg.Metadata()
	if err != nil {
		t.err = fmt.Errorf("read metadata: %w", err)
		return t
	}
	t.seq = meta.Sequence.Stream
	t.delivery, t.err = kv.Decode(msg.Data())
	if t.err == nil && t.delivery.Task == nil {
		t.err = fmt.Errorf("%w: no task in a message of %s", kv.ErrCorrupt, kv.ConsumerTasks)
	}
	return t
}

// ack acknowledges once, best effort: the record decides, never the message.
func (t *token) ack() {
	if t != nil && !t.acked {
		t.acked = true
		_ = t.msg.Ack()
	}
}

// nak gives the token back for later.
func (t *token) nak(delay time.Duration) {
	if t != nil && !t.acked {
		t.acked = true
		_ = t.msg.NakWithDelay(delay)
	}
}
