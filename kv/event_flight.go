package kv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/operator"
)

// Remapped lists the requests in flight that were proposed under another
// tenant than the repository has now, and that tenant. They are refused where
// they would go on, and no new one can take their place (OT-91).
func (s *EventStore) Remapped(ctx context.Context) (tenant string, moved []operator.Task, err error) {
	if tenant, err = s.tenancy.RepoTenant(ctx, s.repo); err != nil {
		return "", nil, fmt.Errorf("find tenant of %s: %w", s.repo, err)
	}
	all, err := s.InFlight(ctx)
	for _, t := range all {
		if t.Owner.Tenant != tenant {
			moved = append(moved, t)
		}
	}
	return tenant, moved, err
}

// InFlight lists the requests that can still come to something, by subject.
// Those that cannot be read as operator tasks are left out. It looks at every
// request there ever was, so it is for starts and for people.
func (s *EventStore) InFlight(ctx context.Context) ([]operator.Task, error) {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(operator.SubjectPrefix+">"))
	if err != nil {
		return nil, fmt.Errorf("list requests: %w", classify(err))
	}
	var out []operator.Task
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		tenant, id, ok := ParseOperatorSubject(subject)
		if !ok || s.delivered(ctx, subject) {
			continue
		}
		switch t, err := s.Load(ctx, tenant, id); {
		case errors.Is(err, ErrPoisoned):
		case err != nil:
			return nil, err
		case t != nil && t.InFlight(s.now()):
			out = append(out, *t)
		}
	}
	return out, nil
}

// delivered reports whether a request's last event is the last there can be:
// most are at their end, and need no more than this one read.
func (s *EventStore) delivered(ctx context.Context, subject string) bool {
	m, err := s.stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return false
	}
	e, _, err := operator.Decode(m.Data)
	return err == nil && e.Kind() == operator.KindDelivered
}

// wakePrefix begins the subjects of wake-ups; no stream keeps them.
const wakePrefix = "belay.wake.operator"

// Wake tells every process that a person wants a request looked at again. It
// is a hint: one that nobody hears loses nothing, and may be given again.
func (s *EventStore) Wake(_ context.Context, tenant string, id operator.RequestID) error {
	if err := s.js.Conn().Publish(Key("belay", "wake", "operator", tenant, string(id)), nil); err != nil {
		return fmt.Errorf("wake request %s: %w", id, classify(err))
	}
	return nil
}

// OnWake calls f for every Wake, of whatever process, until stop is called.
func (s *EventStore) OnWake(f func(tenant string, id operator.RequestID)) (stop func() error, err error) {
	sub, err := s.js.Conn().Subscribe(wakePrefix+".*.*", func(m *nats.Msg) {
		if tenant, id, ok := ParseOperatorSubject(strings.TrimPrefix(m.Subject, "belay.wake.")); ok {
			f(tenant, id)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for wake-ups: %w", err)
	}
	return sub.Unsubscribe, nil
}
