package kv

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// publish sends a message to its stream once and waits for the answer. No
// retry by the client: whether a write may be repeated is the caller's to say.
func publish(ctx context.Context, nc *nats.Conn, m *nats.Msg) (jetstream.PubAck, error) {
	answer, err := nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return jetstream.PubAck{}, err
	}
	return readAck(answer.Data)
}

// readAck reads what a stream answers to a message.
func readAck(data []byte) (jetstream.PubAck, error) {
	var ack jetstream.PubAck
	if task.Scan(data, func(key, value []byte) bool {
		switch string(key) {
		case "stream":
			return task.ScanString(value, &ack.Stream)
		case "seq":
			return task.ScanUint(value, &ack.Sequence)
		case "duplicate":
			return task.ScanBool(value, &ack.Duplicate)
		}
		return false // an error, or what only encoding/json knows
	}) && ack.Stream != "" {
		return ack, nil
	}
	var full struct {
		Error *jetstream.APIError `json:"error"`
		*jetstream.PubAck
	}
	if err := json.Unmarshal(data, &full); err != nil {
		return jetstream.PubAck{}, fmt.Errorf("read the answer of a stream: %w", err)
	}
	switch {
	case full.Error != nil:
		return jetstream.PubAck{}, full.Error
	case full.PubAck == nil || full.Stream == "":
		return jetstream.PubAck{}, jetstream.ErrInvalidJSAck
	}
	return *full.PubAck, nil
}
