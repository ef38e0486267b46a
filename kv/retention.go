package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// SeqSince returns the sequence of the first delivery stored at or after t,
// or the one that the next delivery will get when there is none.
func (l *DeliveryLog) SeqSince(ctx context.Context, t time.Time) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	// The end is read first: what is stored meanwhile is not below it.
	_, last, err := bounds(ctx, l.stream)
	if err != nil {
		return 0, err
	}
	sc, err := l.scan(ctx, &t)
	if err != nil {
		return 0, err
	}
	defer sc.close()
	if err := l.Hooks.before(ctx, "since", StreamWebhooks); err != nil {
		return 0, err
	}
	first := last + 1
	_, err = sc.next(ctx, 1, func(_ nats.Header, seq uint64) { first = seq })
	if err != nil {
		return 0, err
	}
	return first, nil
}

// AdmitFloor is the lowest sequence that admission may still need.
func (l *DeliveryLog) AdmitFloor(ctx context.Context) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	c, err := l.js.Consumer(ctx, StreamWebhooks, ConsumerAdmit)
	if err != nil {
		return 0, fmt.Errorf("inspect consumer %s: %w", ConsumerAdmit, classify(err))
	}
	return c.CachedInfo().AckFloor.Stream + 1, nil
}

// PurgeBelow removes the deliveries below a sequence.
func (l *DeliveryLog) PurgeBelow(ctx context.Context, seq uint64) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := l.stream.Purge(ctx, jetstream.WithPurgeSequence(seq)); err != nil {
		return fmt.Errorf("purge deliveries below %d: %w", seq, classify(err))
	}
	return nil
}

// PurgeInstallation removes an installation's deliveries below a sequence.
func (l *DeliveryLog) PurgeInstallation(ctx context.Context, installation int64, below uint64) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	subject := Key("webhook", num(installation)) + ".>"
	if err := l.stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(below)); err != nil {
		return fmt.Errorf("purge deliveries of installation %d: %w", installation, classify(err))
	}
	return nil
}

// Entomb replaces a record at revision rev by its tombstone, for ttl.
func (s *TaskStore) Entomb(ctx context.Context, tomb task.Record, rev uint64, ttl time.Duration) error {
	b, err := encodeRecord(tomb)
	if err != nil {
		return err
	}
	_, err = s.b.Update(ctx, TaskKey(tomb.InstallationID, tomb.ID), b, rev, ttl)
	return err
}

// CreateTombstone writes a tombstone where there is no record.
func (s *TaskStore) CreateTombstone(ctx context.Context, tomb task.Record, ttl time.Duration) error {
	b, err := encodeRecord(tomb)
	if err != nil {
		return err
	}
	_, err = s.b.Create(ctx, TaskKey(tomb.InstallationID, tomb.ID), b, ttl)
	return err
}

// DropPointer removes a supersede pointer if it still names the task.
func (s *TaskStore) DropPointer(ctx context.Context, k task.SupersedeKey, id task.ID) error {
	p, rev, err := s.Pointer(ctx, k)
	if err != nil || p == nil || p.Task != id {
		return err
	}
	err = s.b.Purge(ctx, SupersedeKey(k), rev)
	if errors.Is(err, ErrConflict) {
		return nil // moved on meanwhile
	}
	return err
}

// InstallationTasks lists the ids of all records of an installation, as the
// leader has them now.
func (s *TaskStore) InstallationTasks(ctx context.Context, installation int64) ([]task.ID, error) {
	keys, err := s.keys(ctx, Key(PrefixTask, num(installation))+".>")
	if err != nil {
		return nil, err
	}
	out := make([]task.ID, 0, len(keys))
	for _, k := range keys {
		out = append(out, task.ID(k[strings.LastIndexByte(k, '.')+1:]))
	}
	return out, nil
}

// PurgeInstallation removes an installation's supersede pointers, slots and
// daily count.
func (s *TaskStore) PurgeInstallation(ctx context.Context, installation int64) error {
	for _, filter := range []string{Key(PrefixSupersede, num(installation)) + ".>", SlotsKey(installation), QuotaKey(installation)} {
		keys, err := s.keys(ctx, filter)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := s.b.Purge(ctx, k, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *TaskStore) keys(ctx context.Context, filter string) ([]string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := s.b.stream.Info(ctx, jetstream.WithSubjectFilter(kvPrefix+filter))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", filter, classify(err))
	}
	out := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		out = append(out, strings.TrimPrefix(subject, kvPrefix))
	}
	return out, nil
}

// pause is the value of a pause switch.
type pause struct {
	V  int       `json:"v"`
	By string    `json:"by"`
	At task.Time `json:"at"`
}

func pauseKey(installation *int64) string {
	if installation == nil {
		return ControlPause
	}
	return ControlPause + "." + num(*installation)
}

// Pause stops claims, of one installation or (nil) of all, until Resume.
// Deliveries are accepted and admitted meanwhile. Pausing twice is harmless.
func (s *TaskStore) Pause(ctx context.Context, installation *int64, by string, at time.Time) error {
	b, err := json.Marshal(pause{V: task.Version, By: by, At: task.At(at)})
	if err != nil {
		return fmt.Errorf("encode pause: %w", err)
	}
	_, err = s.b.Create(ctx, pauseKey(installation), b, 0)
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// PauseError says why the switch that stops all claims cannot be read, nil if
// it can be, or is off. One that cannot be read counts as on (Q27).
func (s *TaskStore) PauseError(ctx context.Context) error {
	e, err := s.b.Get(ctx, ControlPause)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var p pause
	if err := task.Decode(e.Value, &p, &p.V); err != nil {
		return fmt.Errorf("decode %s: %w", ControlPause, err)
	}
	return nil
}

// Resume lets claims go on; resuming what is not paused is harmless.
func (s *TaskStore) Resume(ctx context.Context, installation *int64) error {
	_, err := s.b.Get(ctx, pauseKey(installation))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.b.Purge(ctx, pauseKey(installation), 0)
}
