package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
)

// TakeOptions say how a backup is taken. Now is needed.
type TakeOptions struct {
	// Version is belay's own.
	Version string
	// Alone is set when the store's lock proves that no belay works on it.
	Alone bool
	Now   func() time.Time
	// Progress is told of every chunk: the stream, its bytes so far, and about
	// how many there will be. It may be nil.
	Progress func(stream string, done, about int64)
}

// head is the first entry of a stream: what a restore gives the server.
type head struct {
	Config json.RawMessage       `json:"config"`
	State  jetstream.StreamState `json:"state"`
}

// Take writes a backup of the streams of a server, which may be at work. Each
// stream's messages are checked by the server first, so a damaged one is an
// error that names it.
func Take(ctx context.Context, nc *nats.Conn, out io.Writer, o TakeOptions) (Manifest, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return Manifest{}, fmt.Errorf("use JetStream: %w", err)
	}
	m := Manifest{V: version, Belay: o.Version, NATS: nc.ConnectedServerVersion(), TakenAt: o.Now().UTC().Truncate(time.Second)}
	if m.Admitted, err = kv.Admitted(ctx, js); err != nil {
		return m, err
	}
	before, err := states(ctx, js)
	if err != nil {
		return m, err
	}
	w := newWriter(out)
	for _, name := range Streams {
		s, err := takeStream(ctx, nc, w, name, o.Progress)
		if err == nil && name == kv.StreamState {
			err = s.takeChanges(ctx, js, w)
		}
		if err != nil {
			return m, fmt.Errorf("take stream %s: %w", name, err)
		}
		m.Streams = append(m.Streams, s)
	}
	if err := m.settle(ctx, js, before, o.Alone); err != nil {
		return m, err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return m, fmt.Errorf("encode manifest: %w", err)
	}
	if err := w.add(manifestEntry, append(b, '\n')); err != nil {
		return m, err
	}
	return m, w.close()
}

// settle says of each stream, and of the whole, whether it stood still.
func (m *Manifest) settle(ctx context.Context, js jetstream.JetStream, before map[string]jetstream.StreamState, alone bool) error {
	after, err := states(ctx, js)
	if err != nil {
		return err
	}
	m.Quiet = alone
	if !alone {
		beating, err := kv.Beating(ctx, js)
		if err != nil {
			return err
		}
		m.Quiet = beating == 0
	}
	for i := range m.Streams {
		s := &m.Streams[i]
		s.Still = same(before[s.Name], after[s.Name])
		m.Quiet = m.Quiet && s.Still
	}
	return nil
}

// states are what the streams hold now.
func states(ctx context.Context, js jetstream.JetStream) (map[string]jetstream.StreamState, error) {
	out := map[string]jetstream.StreamState{}
	for _, name := range Streams {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look up stream %s: %w", name, err)
		}
		out[name] = s.CachedInfo().State
	}
	return out, nil
}

// takeStream writes a stream's head and chunks.
func takeStream(ctx context.Context, nc *nats.Conn, w *writer, name string, progress func(string, int64, int64)) (Stream, error) {
	s := Stream{Name: name}
	sum := sha256.New()
	err := snapshot(ctx, nc, name, func(a snapshotAnswer) error {
		s.Messages, s.Bytes, s.FirstSeq, s.LastSeq = a.State.Msgs, a.State.Bytes, a.State.FirstSeq, a.State.LastSeq
		b, err := json.Marshal(head(a))
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		return w.add(name+"/stream.json", b)
	}, func(chunk []byte) error {
		s.Chunks++
		s.Size += int64(len(chunk))
		sum.Write(chunk)
		if progress != nil {
			progress(name, s.Size, int64(s.Bytes)) //nolint:gosec // a store's size
		}
		return w.add(fmt.Sprintf("%s/%08d", name, s.Chunks), chunk)
	})
	s.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return s, err
}

// takeChanges writes what the snapshot of the records lacks.
func (s *Stream) takeChanges(ctx context.Context, js jetstream.JetStream, w *writer) error {
	return changes(ctx, js, s.LastSeq, func(list []change) error {
		b, err := json.Marshal(list)
		if err != nil {
			return fmt.Errorf("encode changes: %w", err)
		}
		s.Changes++
		return w.add(fmt.Sprintf("%s/changes-%08d", s.Name, s.Changes), b)
	})
}
