package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/belay-run/belay/kv/task"
)

// SlotsKey is the key of the places under an installation's cap.
func SlotsKey(installation int64) string { return Key(PrefixSlots, num(installation)) }

// Slots reads who holds the places of an installation, and the revision; none
// and revision 0 if there never was a cap.
func (s *TaskStore) Slots(ctx context.Context, installation int64) (task.Slots, uint64, error) {
	e, err := s.b.Get(ctx, SlotsKey(installation))
	if errors.Is(err, ErrNotFound) {
		return task.Slots{}, 0, nil
	}
	if err != nil {
		return task.Slots{}, 0, err
	}
	var v task.Slots
	if err := task.Decode(e.Value, &v, &v.V); err != nil {
		return task.Slots{}, 0, fmt.Errorf("decode slots of installation %d: %w", installation, err)
	}
	return v, e.Revision, nil
}

// SetSlots writes the places by compare-and-set and returns the new revision;
// rev 0 is for the first time. ErrConflict: another write came between.
func (s *TaskStore) SetSlots(ctx context.Context, installation int64, v task.Slots, rev uint64) (uint64, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return 0, fmt.Errorf("encode slots: %w", err)
	}
	if rev > 0 {
		return s.b.Update(ctx, SlotsKey(installation), b, rev, 0)
	}
	rev, err = s.b.Create(ctx, SlotsKey(installation), b, 0)
	if errors.Is(err, ErrExists) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return rev, err
}
