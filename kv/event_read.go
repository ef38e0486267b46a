package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/operator"
)

// maxFetches is one more than the events that can come while a request is
// read: each torn fetch needs a new one (OT-10, 62).
const maxFetches = operator.MaxEvents + 1

// fetched is a request as two steps of reading found it: how many events it
// has, and then the events.
type fetched struct {
	version  int    // how many messages its subject had
	events   int    // how many were read then
	last     uint64 // sequence of the last one read
	task     operator.Task
	owned    bool
	poisoned error
}

// torn reports that an event came between the two steps.
func (f *fetched) torn() bool { return f.events > f.version }

// Read returns a request of the owner's, nil if there is none: whether it does
// not exist, is another's, or is another's and poisoned looks the same (OT-66).
func (s *EventStore) Read(ctx context.Context, o operator.Owner, id operator.RequestID) (*operator.Task, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for range maxFetches {
		f, err := s.fetch(ctx, o, id)
		switch {
		case err != nil:
			return nil, err
		case !f.owned:
			return nil, nil
		case f.torn() && !mutant("OT-77-returned"):
			continue
		case f.poisoned != nil && !mutant("OT-78-foreign"):
			return nil, f.poisoned
		}
		return &f.task, nil
	}
	return nil, fmt.Errorf("read request %s: %w", id, ErrTorn)
}

// Load reads a request for belay's own parts, which act for its owner.
func (s *EventStore) Load(ctx context.Context, tenant string, id operator.RequestID) (*operator.Task, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := s.next(ctx, OperatorSubject(tenant, id), 1)
	if err != nil || m == nil {
		return nil, err
	}
	e, _, err := operator.Decode(m.Data)
	p, ok := e.(*operator.Proposed)
	if err != nil || !ok {
		return nil, fmt.Errorf("load request %s: %w", id, ErrPoisoned)
	}
	return s.Read(ctx, p.Owner, id)
}

// Tenant returns the tenant that a request was proposed under, which binds
// every later call, wherever its repository belongs by then (OT-89).
func (s *EventStore) Tenant(ctx context.Context, id operator.RequestID) (tenant string, ok bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := s.stream.GetLastMsgForSubject(ctx, everyTenant(id))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("find tenant of request %s: %w", id, classify(err))
	}
	tenant, _, ok = strings.Cut(strings.TrimPrefix(m.Subject, operator.SubjectPrefix), ".")
	return tenant, ok, nil
}

// fetch reads the number of events, then the events, from the stream's leader.
// Ownership is looked at first: of a stream that is not the owner's nothing
// else is said.
func (s *EventStore) fetch(ctx context.Context, o operator.Owner, id operator.RequestID) (fetched, error) {
	subject := OperatorSubject(o.Tenant, id)
	var f fetched
	if err := s.Hooks.before(ctx, "fetch", subject); err != nil {
		return f, err
	}
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return f, fmt.Errorf("read request %s: %w", id, classify(err))
	}
	f.version = int(info.State.Subjects[subject]) //nolint:gosec // at most six
	if err := s.Hooks.before(ctx, "events", subject); err != nil {
		return f, err
	}
	for f.events < 2*operator.MaxEvents { // the server keeps half of that
		m, err := s.next(ctx, subject, f.last+1)
		if err != nil {
			return f, err
		}
		if m == nil {
			break
		}
		f.events, f.last = f.events+1, m.Sequence
		f.take(m.Data, id)
		if f.events == 1 && !f.checkOwner(o) {
			return f, nil
		}
	}
	if f.poisoned == nil && f.task.Revision < f.version {
		f.poisoned = fmt.Errorf("read request %s: %w: %d of %d events are known", id, ErrPoisoned, f.task.Revision, f.version)
	}
	return f, nil
}

func (f *fetched) checkOwner(o operator.Owner) bool {
	f.owned = f.task.State != operator.None && (f.task.Owner.Is(o) || mutant("OT-78-owner"))
	return f.owned
}

// take folds a message; one that is no event, or not the next one, poisons.
func (f *fetched) take(data []byte, id operator.RequestID) {
	if f.poisoned != nil {
		return
	}
	e, rev, err := operator.Decode(data)
	if err == nil && rev != f.events {
		err = fmt.Errorf("event says it is number %d, is %d", rev, f.events)
	}
	if err == nil {
		f.task, err = f.task.Fold(e)
	}
	if err == nil && f.task.ID != id {
		err = fmt.Errorf("event is of request %s", f.task.ID)
	}
	if err != nil {
		if mutant("OT-78-foreign") {
			return
		}
		f.poisoned = fmt.Errorf("read request %s: %w: %w", id, ErrPoisoned, err)
	}
}

// next is the first message of a subject at a sequence or after it, nil if
// there is none.
func (s *EventStore) next(ctx context.Context, subject string, seq uint64) (*jetstream.RawStreamMsg, error) {
	m, err := s.stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", subject, classify(err))
	}
	return m, nil
}
