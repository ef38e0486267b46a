package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belay-run/belay/kv/outbox"
)

// resendWindow is for how long an interrupted resend may be finished. It is
// far below any retention, so that a new record which is missing was never
// made, not made and retired.
const resendWindow = time.Hour

// Resolve settles a record whose outcome is unknown (DESIGN §8) and returns it
// together with the new record of a resend, nil otherwise. The old record
// names the new one before that exists: a resend that was cut short between
// the two is finished by repeating it within an hour, and never made twice.
// Unknown id: ErrNotFound; not unknown: outbox.ErrState.
func (s *OutboxStore) Resolve(ctx context.Context, id outbox.ID, how outbox.Resolution, reason, by string) (outbox.Record, *outbox.Record, error) {
	now := s.now()
	set := outbox.Settlement{How: how, Reason: reason, By: by, At: outbox.At(now)}
	next := outbox.ID(uuid.NewString())
	r, err := s.change(ctx, id, func(r outbox.Record) (outbox.Record, error) {
		if how == outbox.ResolveResend && reason != "" && unfinished(r, now) {
			return r, nil
		}
		return r.Resolve(set, next)
	})
	if err != nil {
		return r, nil, fmt.Errorf("resolve outbox record %s: %w", id, err)
	}
	if how != outbox.ResolveResend {
		return r, nil, nil
	}
	n, err := s.Create(ctx, r.Resend(r.Resolved.At.Time))
	if errors.Is(err, ErrExists) {
		var found *outbox.Record
		if found, err = s.Find(ctx, r.LinkedTo); err == nil && found != nil {
			return r, found, nil
		}
	}
	if err != nil {
		return r, nil, fmt.Errorf("resend outbox record %s as %s: %w", id, r.LinkedTo, err)
	}
	return r, &n, nil
}

// unfinished reports whether a resend of the record may still lack its new one.
func unfinished(r outbox.Record, now time.Time) bool {
	return r.Status == outbox.Failed && r.LinkedTo != "" && r.Resolved != nil && now.Sub(r.Resolved.At.Time) < resendWindow
}
