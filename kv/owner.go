package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// installation is what belay keeps of an installation.
type installation struct {
	V         int       `json:"v"`
	Source    string    `json:"source,omitempty"`
	DeletedAt task.Time `json:"deleted_at,omitzero"`
}

// changeInstallation changes what is kept of an installation, anew from a
// fresh read when another write came between; false leaves it as it is.
func (s *TaskStore) changeInstallation(ctx context.Context, id int64, f func(*installation) (bool, error)) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		err := s.tryInstallation(ctx, id, f)
		retry := errors.Is(err, ErrConflict) || errors.Is(err, ErrExists) || errors.Is(err, ErrUnknown)
		if !retry || !sleep(ctx, wait) {
			return err
		}
	}
}

func (s *TaskStore) tryInstallation(ctx context.Context, id int64, f func(*installation) (bool, error)) error {
	key, in, rev := InstallationKey(id), installation{V: task.Version}, uint64(0)
	e, err := s.b.Get(ctx, key)
	switch {
	case err == nil:
		if err := task.Decode(e.Value, &in, &in.V); err != nil {
			return fmt.Errorf("decode installation %d: %w", id, err)
		}
		rev = e.Revision
	case !errors.Is(err, ErrNotFound):
		return err
	}
	change, err := f(&in)
	if err != nil || !change {
		return err
	}
	b, err := json.Marshal(&in)
	if err != nil {
		return fmt.Errorf("encode installation: %w", err)
	}
	if rev == 0 {
		_, err = s.b.Create(ctx, key, b, 0)
	} else {
		_, err = s.b.Update(ctx, key, b, rev, 0)
	}
	return err
}

// MarkDeleted notes that an installation was deleted; repeating it is harmless.
func (s *TaskStore) MarkDeleted(ctx context.Context, id int64, at time.Time) error {
	return s.changeInstallation(ctx, id, func(in *installation) (bool, error) {
		if !in.DeletedAt.IsZero() {
			return false, nil
		}
		in.DeletedAt = task.At(at)
		return true, nil
	})
}

// maxOwners bounds what Owners remembers.
const maxOwners = 100_000

// Owners says which source each installation belongs to: the first one that
// brought a delivery of it. That is decided once, by a compare-and-set, for
// every process; what is known is not asked again, since it never changes.
type Owners struct {
	store *TaskStore
	log   *DeliveryLog

	mu    sync.RWMutex
	known map[int64]string
}

// NewOwners makes Owners.
func NewOwners(store *TaskStore, log *DeliveryLog) *Owners {
	return &Owners{store: store, log: log, known: map[int64]string{}}
}

// Owner returns the source that an installation belongs to: source itself if
// nobody came before. ErrUnknown: ask again.
func (o *Owners) Owner(ctx context.Context, id int64, source string) (string, error) {
	o.mu.RLock()
	owner, ok := o.known[id]
	o.mu.RUnlock()
	if ok {
		return owner, nil
	}
	err := o.store.changeInstallation(ctx, id, func(in *installation) (bool, error) {
		if in.Source != "" {
			owner = in.Source
			return false, nil
		}
		// Of the time when there was one source alone, only the log tells.
		first, err := o.log.firstSource(ctx, id)
		if err != nil {
			return false, err
		}
		if first == "" {
			first = source
		}
		in.Source, owner = first, first
		return true, nil
	})
	if err != nil {
		return "", fmt.Errorf("find the source of installation %d: %w", id, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.known) >= maxOwners {
		clear(o.known)
	}
	o.known[id] = owner
	return owner, nil
}

// firstSource is the source of the oldest delivery of an installation that is
// kept, "" if none is.
func (l *DeliveryLog) firstSource(ctx context.Context, id int64) (string, error) {
	m, err := l.stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject("webhook."+num(id)+".>"))
	if err != nil {
		if err = classify(err); errors.Is(err, ErrNotFound) {
			return "", nil
		}
		return "", fmt.Errorf("read the first delivery of installation %d: %w", id, err)
	}
	d, err := Decode(m.Data)
	if err != nil {
		return "", nil // of a newer belay, or nobody's: it names no source that is known
	}
	return d.Source, nil
}
