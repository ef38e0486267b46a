package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
)

// ErrNotEmpty means that there is a store already where one should be made.
var ErrNotEmpty = errors.New("there is a store already")

// ErrNotQuiet means that a backup cannot be continued without holding back
// what a belay may have done since.
var ErrNotQuiet = errors.New("the backup was taken while a belay worked")

// versionKey is the schema version in a stream's metadata, and restoring what
// it says until all is in place: no belay starts on that (package streams).
const (
	versionKey = "belay_version"
	restoring  = "restoring"
)

// RestoreOptions say how a backup is restored. Hold.Now is needed unless
// Continue is set.
type RestoreOptions struct {
	// Replicas of each stream; 0 for one.
	Replicas int
	// Continue goes on where the backup ends: nothing is held, since nobody
	// worked while it was taken, and a person says that nobody did since.
	Continue bool
	// Hold is how else what is to leave is held back.
	Hold kv.HoldOptions
	// Progress is told of every chunk: the stream, the bytes so far, and how
	// many there are. It may be nil.
	Progress func(stream string, done, all int64)

	config map[string]any // of every stream instead of what the backup says
}

// Restore makes the streams of a backup on a server that has none of them, and
// holds back what could leave twice. If it fails, none is left; if it is
// killed, what is there is refused by every belay.
func Restore(ctx context.Context, nc *nats.Conn, a *Archive, o RestoreOptions) (kv.Held, error) {
	if o.Continue && !a.Manifest.Quiet {
		return kv.Held{}, ErrNotQuiet
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return kv.Held{}, fmt.Errorf("use JetStream: %w", err)
	}
	if err := empty(ctx, js); err != nil {
		return kv.Held{}, err
	}
	metadata := map[string]json.RawMessage{}
	_, err = a.upload(ctx, nc, o, metadata)
	var held kv.Held
	if err == nil && !o.Continue {
		held, err = kv.Hold(ctx, js, o.Hold)
	}
	if err == nil {
		err = release(ctx, js, metadata)
	}
	if err == nil {
		return held, nil
	}
	for _, name := range Streams { // there was none of them
		derr := js.DeleteStream(context.WithoutCancel(ctx), name)
		if derr != nil && !errors.Is(derr, jetstream.ErrStreamNotFound) {
			err = errors.Join(err, fmt.Errorf("remove what was restored: stream %s: %w", name, derr))
		}
	}
	return held, err
}

// empty wants none of the streams.
func empty(ctx context.Context, js jetstream.JetStream) error {
	for _, name := range Streams {
		_, err := js.Stream(ctx, name)
		switch {
		case err == nil:
			return fmt.Errorf("%w: the server has a stream %s", ErrNotEmpty, name)
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return fmt.Errorf("look up stream %s: %w", name, err)
		}
	}
	return nil
}

// upload makes the streams and returns what the server made of them. Their
// own metadata is put into metadata.
func (a *Archive) upload(ctx context.Context, nc *nats.Conn, o RestoreOptions, metadata map[string]json.RawMessage) ([]*jetstream.StreamInfo, error) {
	if err := a.rewind(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	var made []*jetstream.StreamInfo
	for _, s := range a.Manifest.Streams {
		info, err := a.uploadStream(ctx, nc, s, o, metadata)
		if err == nil {
			err = a.applyChanges(ctx, js, s, o)
		}
		if err != nil {
			return made, fmt.Errorf("restore stream %s: %w", s.Name, err)
		}
		made = append(made, info)
	}
	return made, nil
}

func (a *Archive) uploadStream(ctx context.Context, nc *nats.Conn, s Stream, o RestoreOptions, metadata map[string]json.RawMessage) (*jetstream.StreamInfo, error) {
	b, err := a.next(s.Name)
	if err != nil {
		return nil, err
	}
	var h head
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("read what it is: %w", err)
	}
	config, own, err := marked(h.Config, o)
	if err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	metadata[s.Name] = own
	var n int
	var done int64
	return upload(ctx, nc, s.Name, config, h.State, func() ([]byte, error) {
		if n == s.Chunks {
			return nil, nil
		}
		n++
		b, err := a.next(s.Name)
		if done += int64(len(b)); o.Progress != nil && err == nil {
			o.Progress(s.Name, done, s.Size)
		}
		return b, err
	})
}

// marked is a stream's configuration for the time of the restore, and the
// metadata that it has else. Without max_bytes a store that is smaller than
// the old one's reserve can take it; a start sets it again.
func marked(config json.RawMessage, o RestoreOptions) (out, own json.RawMessage, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(config, &fields); err != nil {
		return nil, nil, err
	}
	own = fields["metadata"]
	change := map[string]any{
		"num_replicas": max(1, o.Replicas), "max_bytes": -1, "metadata": map[string]string{versionKey: restoring},
		"placement": nil,
	}
	for k, v := range o.config {
		change[k] = v
	}
	for k, v := range change {
		if fields[k], err = json.Marshal(v); err != nil {
			return nil, nil, err
		}
	}
	out, err = json.Marshal(fields)
	return out, own, err
}

// release gives the streams their metadata back: from now on a belay starts
// on them.
func release(ctx context.Context, js jetstream.JetStream, metadata map[string]json.RawMessage) error {
	for _, name := range Streams {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("look up stream %s: %w", name, err)
		}
		c := s.CachedInfo().Config
		c.Metadata = nil
		if own := metadata[name]; own != nil {
			if err := json.Unmarshal(own, &c.Metadata); err != nil {
				return fmt.Errorf("read metadata of stream %s: %w", name, err)
			}
		}
		if _, err := js.UpdateStream(ctx, c); err != nil {
			return fmt.Errorf("release stream %s: %w", name, err)
		}
	}
	return nil
}
