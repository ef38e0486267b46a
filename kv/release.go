package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

// releaseVersion is written to every release; a newer one is not read.
const releaseVersion = 1

// Release is an owner's consent to exactly one head of a pull request. It is
// void for every other head (OT-92): who reads it compares.
type Release struct {
	V     int            `json:"v"`
	Head  string         `json:"head"` // the commit's SHA
	Owner operator.Owner `json:"owner"`
	At    task.Time      `json:"at"`
}

// Covers reports whether the consent is to this head.
func (r *Release) Covers(head string) bool { return r != nil && head != "" && r.Head == head }

// ReleaseStore keeps the newest release of each pull request, in STATE.
type ReleaseStore struct{ b *Bucket }

// OpenReleaseStore binds to bucket STATE.
func OpenReleaseStore(ctx context.Context, js jetstream.JetStream) (*ReleaseStore, error) {
	b, err := OpenBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	return &ReleaseStore{b: b}, nil
}

// SetHooks sets failpoints; for tests, before the store is used.
func (s *ReleaseStore) SetHooks(h *Hooks) { s.b.Hooks = h }

// Find returns a pull request's release, nil if there is none.
func (s *ReleaseStore) Find(ctx context.Context, repoID int64, number int) (*Release, error) {
	r, _, err := s.find(ctx, repoID, number)
	return r, err
}

func (s *ReleaseStore) find(ctx context.Context, repoID int64, number int) (*Release, uint64, error) {
	key := ReleaseKey(repoID, number)
	e, err := s.b.Get(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	var r Release
	if err := task.Decode(e.Value, &r, &r.V); err != nil {
		return nil, 0, fmt.Errorf("decode %s: %w", key, err)
	}
	return &r, e.Revision, nil
}

// Approve records an owner's consent to a head, in place of one to another
// head. existing: the same owner had approved that head before. ErrConflict:
// another release came meanwhile; it stands.
func (s *ReleaseStore) Approve(ctx context.Context, repoID int64, number int, head string, owner operator.Owner, at time.Time) (r Release, existing bool, err error) {
	old, rev, err := s.find(ctx, repoID, number)
	if err != nil {
		return Release{}, false, err
	}
	if old.Covers(head) && old.Owner.Is(owner) {
		return *old, true, nil
	}
	r = Release{V: releaseVersion, Head: head, Owner: owner, At: task.At(at)}
	b, err := json.Marshal(r)
	if err != nil {
		return Release{}, false, fmt.Errorf("encode release: %w", err)
	}
	key := ReleaseKey(repoID, number)
	if old == nil {
		_, err = s.b.Create(ctx, key, b, 0)
	} else {
		_, err = s.b.Update(ctx, key, b, rev, 0)
	}
	if !errors.Is(err, ErrExists) && !errors.Is(err, ErrConflict) {
		return r, false, err
	}
	// The one that came first may say the same.
	if won, _, ferr := s.find(ctx, repoID, number); ferr == nil && won.Covers(head) && won.Owner.Is(owner) {
		return *won, true, nil
	}
	return Release{}, false, fmt.Errorf("approve %s: %w", key, ErrConflict)
}
