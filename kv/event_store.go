package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/operator"
)

// StreamOperator holds the events of operator tasks, a subject a request.
const StreamOperator = "OPERATOR"

// ErrTorn: a request's events kept coming while they were read.
var ErrTorn = errors.New("request changed at every read")

// ErrPoisoned: a stream carries what is no event of it; nothing is written.
var ErrPoisoned = errors.New("request's stream carries a foreign event")

// Tenancy says which tenant a repository belongs to now.
type Tenancy interface {
	// RepoTenant is the canonical id of the tenant; an answer that is blank,
	// not canonical or missing is an error, never a default (OT-32).
	RepoTenant(ctx context.Context, repo string) (string, error)
}

// EventStore is the only door to operator tasks. Each transition appends one
// event, expecting the last sequence that it was decided on; no write is
// repeated, and none wins because it came last.
type EventStore struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	repo    string
	tenancy Tenancy
	now     func() time.Time
	// Hooks are failpoints for tests: fetch, events, append, resolve.
	Hooks *Hooks
}

// EventStoreOptions are what an EventStore is made of; all are needed.
type EventStoreOptions struct {
	// Repo is the one repository that issues are created in (OT-37).
	Repo    string
	Tenancy Tenancy
	Now     func() time.Time
}

// OpenEventStore binds to stream OPERATOR, which must exist.
func OpenEventStore(ctx context.Context, js jetstream.JetStream, o EventStoreOptions) (*EventStore, error) {
	s, err := js.Stream(ctx, StreamOperator)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", StreamOperator, classify(err))
	}
	return &EventStore{js: js, stream: s, repo: o.Repo, tenancy: o.Tenancy, now: o.Now}, nil
}

// OperatorResult is the answer to an operation. Task is nil for NotFound,
// Forbidden and Uncertain.
type OperatorResult struct {
	Code   operator.Code
	Task   *operator.Task
	begins bool
}

// AuthorizesIssueCreate reports whether the caller, and nobody else, may send
// the one request that creates the issue (OT-15).
func (r OperatorResult) AuthorizesIssueCreate() bool {
	return r.begins && r.Code == operator.Committed
}

// OperatorSubject is where a request's events are.
func OperatorSubject(tenant string, id operator.RequestID) string {
	return Key("operator", tenant, string(id))
}

// everyTenant matches a request's events in whatever tenant.
func everyTenant(id operator.RequestID) string { return "operator.*." + string(id) }

// Propose opens a request. Its id is taken once over all tenants, so that one
// that is proposed again after its repository moved to another tenant finds
// the id taken (OT-89).
func (s *EventStore) Propose(ctx context.Context, o operator.Owner, id operator.RequestID, in operator.Intent) (OperatorResult, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d := operator.Propose(id, o, in, s.now())
	if in.Repo != s.repo || !s.ownerHoldsRepo(ctx, o) {
		return OperatorResult{Code: operator.Forbidden}, nil
	}
	switch err := s.append(ctx, o.Tenant, id, d.Append, 1, jetstream.WithExpectLastSequenceForSubject(0, everyTenant(id))); {
	case err == nil:
		t, err := operator.Task{}.Fold(d.Append)
		return OperatorResult{Code: operator.Committed, Task: &t}, err
	case errors.Is(err, ErrConflict) || mutant("OT-86-collision"):
		return s.taken(ctx, o, id, in)
	case mutant("OT-86-committed"):
		t, err := operator.Task{}.Fold(d.Append)
		return OperatorResult{Code: operator.Committed, Task: &t}, err
	}
	return OperatorResult{Code: operator.Uncertain}, nil
}

// taken answers a proposal whose id another one has. If that is not to be
// seen, nobody knows whose it will be.
func (s *EventStore) taken(ctx context.Context, o operator.Owner, id operator.RequestID, in operator.Intent) (OperatorResult, error) {
	known := false
	err := inFlight(ctx, func() (bool, error) {
		var err error
		_, known, err = s.Tenant(ctx, id)
		return known, err
	})
	switch {
	case err != nil:
		return OperatorResult{}, err
	case !known && !mutant("OT-86-collision"):
		return OperatorResult{Code: operator.Uncertain}, nil
	}
	t, err := s.Read(ctx, o, id)
	if err != nil || t == nil {
		return OperatorResult{Code: operator.NotFound}, err
	}
	r := OperatorResult{Code: t.Proposable(o, in)}
	if r.Code == operator.Existing {
		r.Task = t
	}
	return r, nil
}

// ownerHoldsRepo asks the resolver anew; whatever goes wrong is a no.
func (s *EventStore) ownerHoldsRepo(ctx context.Context, o operator.Owner) bool {
	if s.Hooks.before(ctx, "resolve", s.repo) != nil {
		return mutant("OT-85")
	}
	tenant, err := s.tenancy.RepoTenant(ctx, s.repo)
	if err != nil {
		return mutant("OT-85")
	}
	return tenant == o.Tenant
}

// Confirm approves a proposal that the caller saw at revision rev.
func (s *EventStore) Confirm(ctx context.Context, o operator.Owner, id operator.RequestID, rev int) (OperatorResult, error) {
	return s.transition(ctx, "confirm", true, o, id, rev, func(t operator.Task, rev int) operator.Decision {
		return t.Confirm(o, rev, s.now())
	})
}

// TryBeginAttempt starts the one attempt at creating the issue. Only its
// Committed licenses that.
func (s *EventStore) TryBeginAttempt(ctx context.Context, o operator.Owner, id operator.RequestID, rev int, attemptID, holder string) (OperatorResult, error) {
	r, err := s.transition(ctx, "begin", true, o, id, rev, func(t operator.Task, rev int) operator.Decision {
		return t.Begin(o, rev, attemptID, holder, s.now())
	})
	r.begins = true
	return r, err
}

// MarkUnknown records that an attempt ended without the issue's address.
func (s *EventStore) MarkUnknown(ctx context.Context, o operator.Owner, id operator.RequestID, rev int, attemptID, holder, reason string) (OperatorResult, error) {
	return s.transition(ctx, "unknown", mutant("OT-81-unknown"), o, id, rev, func(t operator.Task, rev int) operator.Decision {
		return t.MarkUnknown(o, rev, attemptID, holder, reason, s.now())
	})
}

// MarkVerified records GitHub's own answer to the attempt's request.
func (s *EventStore) MarkVerified(ctx context.Context, o operator.Owner, id operator.RequestID, rev int, ev operator.Evidence) (OperatorResult, error) {
	return s.transition(ctx, "verified", false, o, id, rev, func(t operator.Task, rev int) operator.Decision {
		return t.MarkVerified(o, rev, ev, s.now())
	})
}

// Reconcile records an issue that was found by its marker. It binds the
// trusted caller and never what the evidence says of itself (OT-50).
func (s *EventStore) Reconcile(ctx context.Context, o operator.Owner, id operator.RequestID, rev int, ev operator.Evidence) (OperatorResult, error) {
	if mutant("OT-80") {
		o = ev.Owner
	}
	return s.transition(ctx, "reconcile", mutant("OT-81-reconcile"), o, id, rev, func(t operator.Task, rev int) operator.Decision {
		return t.Reconcile(o, rev, ev, s.now())
	})
}

// MarkDelivered records that the operator was told.
func (s *EventStore) MarkDelivered(ctx context.Context, o operator.Owner, id operator.RequestID, rev int, outboxID string) (OperatorResult, error) {
	return s.transition(ctx, "delivered", false, o, id, rev, func(t operator.Task, rev int) operator.Decision {
		return t.MarkDelivered(o, rev, outboxID, s.now())
	})
}

// transition reads, decides and appends, once.
func (s *EventStore) transition(ctx context.Context, op string, resolve bool, o operator.Owner, id operator.RequestID, rev int,
	decide func(t operator.Task, rev int) operator.Decision,
) (OperatorResult, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if resolve && !s.ownerHoldsRepo(ctx, o) {
		return OperatorResult{Code: operator.Forbidden}, nil
	}
	f, err := s.fetch(ctx, o, id)
	switch {
	case err != nil:
		return OperatorResult{}, err
	case !f.owned:
		return OperatorResult{Code: operator.NotFound}, nil
	case f.torn() && mutant("OT-77-throws"):
		return OperatorResult{}, ErrTorn
	case f.torn() && !mutant("OT-77-decides"):
		return s.lost(ctx, o, id, f.version, nil)
	case f.poisoned != nil && !mutant("OT-78-foreign"):
		return OperatorResult{}, f.poisoned
	}
	if mutant("OT-76-" + op) {
		rev = f.task.Revision
	}
	d := decide(f.task, rev)
	if d.Append == nil {
		r := OperatorResult{Code: d.Code}
		if d.Code != operator.NotFound {
			r.Task = &f.task
		}
		return r, nil
	}
	return s.commit(ctx, op, o, id, f, d, decide)
}

// commit appends the decided event where nothing came since the fetch.
func (s *EventStore) commit(ctx context.Context, op string, o operator.Owner, id operator.RequestID, f fetched, d operator.Decision,
	decide func(t operator.Task, rev int) operator.Decision,
) (OperatorResult, error) {
	n, err := f.task.Fold(d.Append)
	if err != nil {
		return OperatorResult{}, fmt.Errorf("%s request %s: %w", op, id, err)
	}
	expect := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(f.last)}
	if mutant("OT-74-" + op) {
		expect = nil
	}
	err = s.append(ctx, o.Tenant, id, d.Append, n.Revision, expect...)
	if errors.Is(err, ErrConflict) && mutant("OT-75-"+op) {
		if f, err = s.fetch(ctx, o, id); err == nil {
			if d = decide(f.task, f.task.Revision); d.Append != nil {
				n, _ = f.task.Fold(d.Append)
				err = s.append(ctx, o.Tenant, id, d.Append, n.Revision, jetstream.WithExpectLastSequencePerSubject(f.last))
			}
		}
	}
	switch {
	case err == nil || mutant("OT-84") && !errors.Is(err, ErrConflict):
		return OperatorResult{Code: operator.Committed, Task: &n}, nil
	case errors.Is(err, ErrConflict):
		return s.lost(ctx, o, id, f.task.Revision, &n)
	}
	return OperatorResult{Code: operator.Uncertain}, nil
}

// lost answers a lost race with what the request says now, which is never
// what the loser wanted to write (OT-55, 56). On several nodes the winner's
// event may still be on its way when the loser is refused: it is waited for.
func (s *EventStore) lost(ctx context.Context, o operator.Owner, id operator.RequestID, seen int, mine *operator.Task) (OperatorResult, error) {
	switch {
	case mutant("OT-83-reread"):
		return OperatorResult{Code: operator.Conflict}, nil
	case mutant("OT-83-claim") && mine != nil:
		return OperatorResult{Code: operator.Conflict, Task: mine}, nil
	}
	var t *operator.Task
	err := inFlight(ctx, func() (bool, error) {
		var err error
		t, err = s.Read(ctx, o, id)
		return t != nil && t.Revision > seen, err
	})
	return OperatorResult{Code: operator.Conflict, Task: t}, err
}

// flightTime is how long a write that is on its way is waited for.
const flightTime = 2 * time.Second

// inFlight looks until what another one writes is to be seen, or has had time
// enough: then it failed.
func inFlight(ctx context.Context, look func() (seen bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, flightTime)
	defer cancel()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if seen, err := look(); seen || err != nil {
			return err
		}
		if !sleep(ctx, wait) {
			return nil
		}
	}
}

// append publishes one event, once: the client does not try again, and a
// message id would make two callers believe that they were first.
func (s *EventStore) append(ctx context.Context, tenant string, id operator.RequestID, e operator.Event, rev int, expect ...jetstream.PublishOpt) error {
	b, err := operator.Encode(e, rev)
	if err != nil {
		return err
	}
	m := nats.NewMsg(OperatorSubject(tenant, id))
	m.Data = b
	if err := s.Hooks.before(ctx, "append", string(e.Kind())); err != nil {
		return err
	}
	_, err = s.js.PublishMsg(ctx, m, append(expect, jetstream.WithRetryAttempts(0))...)
	if err != nil {
		return fmt.Errorf("append %s to request %s: %w", e.Kind(), id, classify(err))
	}
	return s.Hooks.after(ctx, "append", string(e.Kind()))
}
