package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// callTimeout bounds one request to the server.
const callTimeout = 5 * time.Second

// ErrNewerStore means that a stream on the server was made by a newer belay.
// Nothing was changed.
var ErrNewerStore = errors.New("store of a newer belay")

// newerError says which stream is newer.
type newerError struct {
	stream     string
	have, want int
}

// Error returns one line with what to do.
func (e *newerError) Error() string {
	return fmt.Sprintf("stream %s was made by a newer belay (schema version %d, this one knows %d): nothing was changed; start that version, or use another store",
		e.stream, e.have, e.want)
}

// Unwrap makes it an ErrNewerStore.
func (e *newerError) Unwrap() error { return ErrNewerStore }

// Change is one stream or consumer that is not as the file says.
type Change struct {
	// Stream is the stream's name.
	Stream string
	// Consumer is the durable's name; empty when the stream itself differs.
	Consumer string
	// Create is set when it is missing on the server.
	Create bool
	// Fields are the settings that differ; none when it is missing.
	Fields []Field
	// Err is what the server answered to the change; set only in a Report's
	// Refused.
	Err error

	stream   jetstream.StreamConfig
	consumer jetstream.ConsumerConfig
}

// Name returns "STREAM", or "STREAM/consumer".
func (c Change) Name() string {
	if c.Consumer == "" {
		return c.Stream
	}
	return c.Stream + "/" + c.Consumer
}

// String describes the change on one line.
func (c Change) String() string {
	var b strings.Builder
	if c.Create {
		b.WriteString("create " + c.Name())
	} else {
		b.WriteString("update " + c.Name())
	}
	for _, f := range c.Fields {
		fmt.Fprintf(&b, " %s: %s -> %s;", f.Name, orUnset(f.Have), orUnset(f.Want))
	}
	if c.Err != nil {
		fmt.Fprintf(&b, " refused: %v", c.Err)
	}
	return b.String()
}

// orUnset returns a value for people.
func orUnset(v string) string {
	if v == "" {
		return "unset"
	}
	return v
}

// Diff lists what has to change on the server for it to be as the set says,
// streams before their consumers. It changes nothing. Defaults that the server
// filled in are no difference. A stream of a newer belay gives ErrNewerStore.
func Diff(ctx context.Context, js jetstream.JetStream, set Set, o Options) ([]Change, error) {
	var out []Change
	for _, st := range set.with(o).Streams {
		changes, err := diffStream(ctx, js, st)
		if err != nil {
			return nil, err
		}
		out = append(out, changes...)
	}
	return out, nil
}

// diffStream is Diff for one stream and its consumers.
func diffStream(ctx context.Context, js jetstream.JetStream, want Stream) ([]Change, error) {
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var out []Change
	s, err := js.Stream(callCtx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		out = append(out, Change{Stream: want.Name, Create: true, stream: want.StreamConfig})
		for _, c := range want.Consumers {
			out = append(out, Change{Stream: want.Name, Consumer: c.Durable, Create: true, consumer: c})
		}
		return out, nil
	case err != nil:
		return nil, fmt.Errorf("look up stream %s: %w", want.Name, err)
	}
	have := s.CachedInfo().Config
	if err := checkVersion(want.StreamConfig, have); err != nil {
		return nil, err
	}
	desired := desiredStream(want.StreamConfig, have)
	fields, err := compareStreams(desired, have)
	if err != nil {
		return nil, fmt.Errorf("compare stream %s: %w", want.Name, err)
	}
	if len(fields) > 0 {
		out = append(out, Change{Stream: want.Name, Fields: fields, stream: desired})
	}
	for _, c := range want.Consumers {
		changes, err := diffConsumer(ctx, js, want.Name, c)
		if err != nil {
			return nil, err
		}
		out = append(out, changes...)
	}
	return out, nil
}

// diffConsumer is Diff for one consumer of a stream that is there.
func diffConsumer(ctx context.Context, js jetstream.JetStream, stream string, want jetstream.ConsumerConfig) ([]Change, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cons, err := js.Consumer(ctx, stream, want.Durable)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return []Change{{Stream: stream, Consumer: want.Durable, Create: true, consumer: want}}, nil
	case err != nil:
		return nil, fmt.Errorf("look up consumer %s/%s: %w", stream, want.Durable, err)
	}
	have := cons.CachedInfo().Config
	desired := desiredConsumer(want, have)
	fields, err := compareConsumers(desired, have)
	if err != nil {
		return nil, fmt.Errorf("compare consumer %s/%s: %w", stream, want.Durable, err)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	return []Change{{Stream: stream, Consumer: want.Durable, Fields: fields, consumer: desired}}, nil
}

// checkVersion refuses a stream that a newer belay made, or one whose version
// cannot be read, which only a newer one can have written.
func checkVersion(want, have jetstream.StreamConfig) error {
	w, err := version(want)
	if err != nil {
		return err
	}
	h, err := version(have)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNewerStore, err)
	}
	if h > w {
		return &newerError{stream: have.Name, have: h, want: w}
	}
	return nil
}
