package backup

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
)

// version is written to every manifest; a newer one is not read.
const version = 1

// Streams are taken and restored in this order; see the package comment.
var Streams = []string{kv.StreamState, kv.StreamWebhooks, kv.StreamOperator, kv.StreamEvents, kv.StreamAudit}

// Manifest says what a backup holds.
type Manifest struct {
	V int `json:"v"`
	// Belay and NATS are the versions that made it.
	Belay   string    `json:"belay_version"`
	NATS    string    `json:"nats_version"`
	TakenAt time.Time `json:"taken_at"`
	// Quiet is set when no belay worked while it was taken.
	Quiet bool `json:"quiet"`
	// Admitted is the sequence up to which all deliveries had their record.
	Admitted uint64   `json:"admitted"`
	Streams  []Stream `json:"streams"`
}

// Stream is one stream of a backup, as it was when its snapshot began.
type Stream struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
	// Still is set when nothing was written to it until its snapshot ended.
	Still bool `json:"still"`
	// Chunks are the snapshot's, Size its bytes and SHA256 theirs, in hex.
	Chunks int    `json:"chunks"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Changes are the parts of what was written after the snapshot began.
	Changes int `json:"changes,omitempty"`
}

func decodeManifest(b []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%w: %s: %w", ErrDamaged, manifestEntry, err)
	}
	if m.V != version {
		return m, fmt.Errorf("it is of version %d, this belay knows %d: use the belay that made it, or a newer one", m.V, version)
	}
	var names []string
	for _, s := range m.Streams {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, Streams) {
		return m, fmt.Errorf("%w: it has the streams %v, not %v", ErrDamaged, names, Streams)
	}
	return m, nil
}

// same reports whether a stream holds what it held.
func same(a, b jetstream.StreamState) bool {
	return a.Msgs == b.Msgs && a.FirstSeq == b.FirstSeq && a.LastSeq == b.LastSeq && a.NumDeleted == b.NumDeleted
}
