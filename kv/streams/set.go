package streams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// versionKey is the metadata key of a stream that carries the schema version
// of the file it was made from, a positive integer.
const versionKey = "belay_version"

// Stream is one stream and its durable consumers, in the JSON of NATS's own
// API; durations are nanoseconds.
type Stream struct {
	jetstream.StreamConfig
	Consumers []jetstream.ConsumerConfig `json:"consumers"`
}

// Set is a streams.json.
type Set struct {
	Streams []Stream `json:"streams"`
}

// Load parses a streams.json. Unknown fields are refused, and so are entries
// that would not keep belay's promises: see check.
func Load(data []byte) (Set, error) {
	var s Set
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return Set{}, fmt.Errorf("parse streams: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Set{}, errors.New("parse streams: text after the end")
	}
	if err := s.check(); err != nil {
		return Set{}, fmt.Errorf("check streams: %w", err)
	}
	return s, nil
}

// check refuses what JetStream would accept but belay cannot work with.
func (s Set) check() error {
	seen := map[string]bool{}
	for i, st := range s.Streams {
		if st.Name == "" {
			return fmt.Errorf("stream %d has no name", i)
		}
		if seen[st.Name] {
			return fmt.Errorf("stream %s is there twice", st.Name)
		}
		seen[st.Name] = true
		if v, err := version(st.StreamConfig); err != nil || v == 0 {
			return fmt.Errorf("stream %s: metadata.%s is not a positive integer", st.Name, versionKey)
		}
		for _, c := range st.Consumers {
			id := st.Name + "/" + c.Durable
			if seen[id] {
				return fmt.Errorf("consumer %s is there twice", id)
			}
			seen[id] = true
			if err := checkConsumer(c); err != nil {
				return fmt.Errorf("consumer %s: %w", id, err)
			}
		}
	}
	return nil
}

// checkConsumer holds the rules for consumers: a message is handed out until
// it is acknowledged, and a consumer stays when nobody pulls.
func checkConsumer(c jetstream.ConsumerConfig) error {
	switch {
	case c.Durable == "":
		return errors.New("durable_name is missing")
	case c.Name != "" && c.Name != c.Durable:
		return errors.New("name differs from durable_name")
	case c.DeliverSubject != "":
		return errors.New("deliver_subject is set, but belay pulls")
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return errors.New("ack_policy is not explicit")
	case c.MaxDeliver != -1:
		return errors.New("max_deliver is not -1: messages past it would stay, unseen")
	case len(c.BackOff) > 0:
		return errors.New("backoff is set: it overrides ack_wait and delayed naks")
	case c.InactiveThreshold != 0:
		return errors.New("inactive_threshold is set: an idle consumer would be deleted")
	}
	return nil
}

// Options adapt a Set to an installation.
type Options struct {
	// Replicas is the number of copies of each stream; 0 keeps the file's. Several
	// copies are not compressed: nats-server (seen on 2.15.3) compresses the last
	// block of a copy that it shortens after a kill, goes on writing to it as it
	// is, and cannot read it at the next start.
	Replicas int
	// Version is the schema version to stamp; 0 keeps the file's.
	Version int
	// Logger gets what is changed and what is waited for; nil drops it.
	Logger *slog.Logger
}

// with returns a copy of the set with the options applied.
func (s Set) with(o Options) Set {
	out := Set{Streams: slices.Clone(s.Streams)}
	for i := range out.Streams {
		st := &out.Streams[i]
		if o.Replicas > 0 {
			st.Replicas = o.Replicas
		}
		if st.Replicas > 1 {
			st.Compression = jetstream.NoCompression
		}
		if o.Version > 0 {
			st.Metadata = maps.Clone(st.Metadata)
			st.Metadata[versionKey] = strconv.Itoa(o.Version)
		}
	}
	return out
}

// version returns the schema version that a stream was made from; 0 when it
// carries none, as one made by hand.
func version(cfg jetstream.StreamConfig) (int, error) {
	v, ok := cfg.Metadata[versionKey]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("stream %s: metadata.%s is %q, not a positive integer", cfg.Name, versionKey, v)
	}
	return n, nil
}
