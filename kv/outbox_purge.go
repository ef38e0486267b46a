package kv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// Pending returns every pending record by task and index (OB-25, 34). It reads
// the bucket through; the read model answers the same from memory.
func (s *OutboxStore) Pending(ctx context.Context) ([]outbox.Record, error) {
	var out []outbox.Record
	err := s.each(ctx, func(r outbox.Record) error {
		if r.Status == outbox.Pending {
			out = append(out, r)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b outbox.Record) int {
		return cmp.Or(cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Index, b.Index), cmp.Compare(a.ID, b.ID))
	})
	return out, err
}

// each visits every record that can be read; others are left alone, and the
// read model counts them.
func (s *OutboxStore) each(ctx context.Context, visit func(outbox.Record) error) error {
	return s.b.each(ctx, PrefixOutbox+".>", func(e Entry) error {
		r, err := DecodeOutbox(e.Value)
		if err != nil {
			return nil
		}
		return visit(r)
	})
}

// PurgeTask removes every outbox record of a task, whatever its status
// (OB-54). The task's record must not carry the intents any more, else they
// are derived again.
func (s *OutboxStore) PurgeTask(ctx context.Context, id task.ID) (int, error) {
	return s.purge(ctx, func(r outbox.Record) bool { return r.TaskID == string(id) || r.SessionID == string(id) })
}

// PurgeInstallation removes every outbox record of an installation, whatever
// its status. Its tasks must be tombstones by then.
func (s *OutboxStore) PurgeInstallation(ctx context.Context, installation int64) (int, error) {
	return s.purge(ctx, func(r outbox.Record) bool { return r.InstallationID == installation })
}

// Discard removes one record, whatever its status; one that is gone already
// is no error.
func (s *OutboxStore) Discard(ctx context.Context, id outbox.ID) error {
	return s.b.Purge(ctx, OutboxKey(id), 0)
}

func (s *OutboxStore) purge(ctx context.Context, match func(outbox.Record) bool) (int, error) {
	n := 0
	err := s.each(ctx, func(r outbox.Record) error {
		if !match(r) {
			return nil
		}
		n++
		return s.b.Purge(ctx, OutboxKey(r.ID), 0)
	})
	return n, err
}

// Retire removes a delivered or failed record that has not changed since
// before (OB-53) and reports whether it did. release must make sure first that
// the task named by the record carries no intents any more; it is not called
// for records without a task.
func (s *OutboxStore) Retire(ctx context.Context, id outbox.ID, before time.Time, release func(ctx context.Context, r outbox.Record) error) (bool, error) {
	r, e, err := s.get(ctx, id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNewer) || errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !r.Status.Terminal() || !r.UpdatedAt.Before(before) {
		return false, nil
	}
	if r.TaskID != "" {
		if err := release(ctx, r); err != nil {
			return false, fmt.Errorf("retire outbox record %s: %w", id, err)
		}
	}
	err = s.b.Purge(ctx, OutboxKey(id), e.Revision)
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	return err == nil, err
}
