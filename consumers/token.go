package consumers

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// token is one message of `tasks`; nil is the lack of one.
type token struct {
	msg      *nats.Msg
	delivery task.Delivery
	seq      uint64
	err      error // why the message cannot be decoded
	acked    bool
}

func open(msg *nats.Msg) *token {
	t := &token{msg: msg}
	meta, err := msg.Metadata()
	if err != nil {
		t.err = fmt.Errorf("read metadata: %w", err)
		return t
	}
	t.seq = meta.Sequence.Stream
	t.delivery, t.err = kv.Decode(msg.Data)
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

// nak gives the token back for later, or with delay 0 at once.
func (t *token) nak(delay time.Duration) {
	if t != nil && !t.acked {
		t.acked = true
		_ = t.msg.NakWithDelay(delay)
	}
}
