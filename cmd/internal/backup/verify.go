package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natsserver"
)

// ErrProblems means that a backup was restored, but does not hold together.
var ErrProblems = errors.New("the backup does not hold together")

// Verify restores a backup to a server of its own, in a new folder below tmp
// ("" for the system's), and looks through all of it: each stream must hold
// what the manifest says, and the records what kv.Inspect wants. The folder is
// gone afterwards. ErrProblems if the inspection has any.
func Verify(ctx context.Context, a *Archive, tmp string, progress func(stream string, done, all int64)) (found kv.Inspection, err error) {
	dir, err := os.MkdirTemp(tmp, "belay-verify-")
	if err != nil {
		return found, fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	err = onDir(ctx, natsserver.Options{Dir: dir, SyncLater: true}, func(nc *nats.Conn) error {
		js, err := jetstream.New(nc)
		if err != nil {
			return fmt.Errorf("use JetStream: %w", err)
		}
		// Nothing may expire while it is looked at, however old the backup is.
		o := RestoreOptions{Progress: progress, config: map[string]any{"max_age": 0, "allow_msg_ttl": false}}
		made, err := a.upload(ctx, nc, o, map[string]json.RawMessage{})
		if err != nil {
			return err
		}
		if found, err = kv.Inspect(ctx, js, a.Manifest.Admitted); err != nil {
			return err
		}
		for i, s := range a.Manifest.Streams {
			if text := s.differs(made[i].State); text != "" {
				found.Problems = append(found.Problems, text)
				found.Broken++
			}
		}
		return nil
	})
	if err == nil && found.Broken > 0 {
		err = fmt.Errorf("%w: %d problems", ErrProblems, found.Broken)
	}
	return found, err
}

// differs says how a restored stream is not what its backup says. What was
// written while it was taken may be in it.
func (s Stream) differs(is jetstream.StreamState) string {
	first := is.FirstSeq == s.FirstSeq || s.Messages == 0
	if is.LastSeq < s.LastSeq || s.Still && (is.LastSeq != s.LastSeq || is.Msgs != s.Messages || !first) {
		return fmt.Sprintf("stream %s: restored are %d messages, %d to %d; the backup says %d, %d to %d", s.Name,
			is.Msgs, is.FirstSeq, is.LastSeq, s.Messages, s.FirstSeq, s.LastSeq)
	}
	return ""
}
