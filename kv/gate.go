package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// PrefixGate begins the keys of gates.
const PrefixGate = "gate"

// gateVersion is written to every gate; a newer one is not read.
const gateVersion = 1

// Gate is a pull request that is held until its owner releases its head: one
// that belay opened for an operator's issue. What its check run said last is
// a note, for whoever looks whether that still holds.
type Gate struct {
	V              int           `json:"v"`
	Source         string        `json:"source"`
	InstallationID int64         `json:"installation_id"`
	RepoID         int64         `json:"repo_id"`
	Repo           string        `json:"repo"`
	Number         int           `json:"number"`
	Operator       task.Operator `json:"operator"`
	// Head and Conclusion are the check run's, as it was last written, At when.
	Head       string    `json:"head,omitempty"`
	Conclusion string    `json:"conclusion,omitempty"`
	At         task.Time `json:"at,omitzero"`
}

// GateKey is the key of a pull request's gate.
func GateKey(repoID int64, number int) string {
	return Key(PrefixGate, num(repoID), strconv.Itoa(number))
}

// GateStore keeps the gates, in STATE.
type GateStore struct{ b *Bucket }

// OpenGateStore binds to bucket STATE.
func OpenGateStore(ctx context.Context, js jetstream.JetStream) (*GateStore, error) {
	b, err := OpenBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	return &GateStore{b: b}, nil
}

// SetHooks sets failpoints; for tests, before the store is used.
func (s *GateStore) SetHooks(h *Hooks) { s.b.Hooks = h }

// Close puts a gate before a pull request; one that is there stays as it is.
func (s *GateStore) Close(ctx context.Context, g Gate) error {
	b, err := encodeGate(g)
	if err != nil {
		return err
	}
	_, err = s.b.Create(ctx, GateKey(g.RepoID, g.Number), b, 0)
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// Find returns a pull request's gate, nil if it has none.
func (s *GateStore) Find(ctx context.Context, repoID int64, number int) (*Gate, error) {
	e, err := s.b.Get(ctx, GateKey(repoID, number))
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return decodeGate(e.Value)
}

// Note keeps what the check run says now. It decides nothing: the last one
// stays, and one that is wrong is found and written again.
func (s *GateStore) Note(ctx context.Context, g Gate, head, conclusion string, at time.Time) error {
	e, err := s.b.Get(ctx, GateKey(g.RepoID, g.Number))
	if err != nil {
		return err
	}
	g.Head, g.Conclusion, g.At = head, conclusion, task.At(at)
	b, err := encodeGate(g)
	if err != nil {
		return err
	}
	_, err = s.b.Update(ctx, GateKey(g.RepoID, g.Number), b, e.Revision, 0)
	return err
}

// Remove takes a gate away, as that of a pull request that is closed.
func (s *GateStore) Remove(ctx context.Context, g Gate) error {
	return s.b.Purge(ctx, GateKey(g.RepoID, g.Number), 0)
}

// All lists the gates that can be read.
func (s *GateStore) All(ctx context.Context) ([]Gate, error) {
	var out []Gate
	err := s.b.each(ctx, PrefixGate+".>", func(e Entry) error {
		if g, err := decodeGate(e.Value); err == nil {
			out = append(out, *g)
		}
		return nil
	})
	return out, err
}

func encodeGate(g Gate) ([]byte, error) {
	g.V = gateVersion
	b, err := json.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("encode gate: %w", err)
	}
	return b, nil
}

func decodeGate(data []byte) (*Gate, error) {
	var g Gate
	if err := task.Decode(data, &g, &g.V); err != nil {
		return nil, fmt.Errorf("decode gate: %w", err)
	}
	return &g, nil
}
