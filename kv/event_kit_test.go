package kv_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
)

// tenants is a resolver that the test steers.
type tenants struct {
	answer atomic.Pointer[string]
	asked  atomic.Int32
}

func (r *tenants) set(s string) { r.answer.Store(&s) }

// RepoTenant implements kv.Tenancy as the app does: by the pure rule.
func (r *tenants) RepoTenant(context.Context, string) (string, error) {
	r.asked.Add(1)
	switch a := *r.answer.Load(); a {
	case "down":
		return "", errors.New("resolver is down")
	case "unmapped":
		return operator.RepoTenant("", false, "invotek", nil)
	default:
		return operator.RepoTenant(a, true, "invotek", nil)
	}
}

// desk is an event store and what the tests of it need.
type desk struct {
	t       *testing.T
	env     *natstest.Env // nil on a cluster
	js      jetstream.JetStream
	more    []jetstream.JetStream // connections to other nodes, if there are any
	turn    atomic.Int32
	store   *kv.EventStore
	tenants *tenants
	ahead   atomic.Int64
	stream  jetstream.Stream
}

var (
	ann    = operator.Owner{Tenant: "invotek", Operator: "ann", Conversation: "c1"}
	wanted = operator.Intent{Repo: "acme/site", Title: "Fix the door", Body: "It squeaks."}
	issue7 = operator.Issue{Number: 7, URL: "https://github.com/acme/site/issues/7"}
)

func newDesk(t *testing.T) *desk {
	t.Helper()
	env := natstest.New(t)
	d := newDeskOn(t, env.JS)
	d.env = env
	return d
}

func newDeskOn(t *testing.T, js jetstream.JetStream) *desk {
	t.Helper()
	d := &desk{t: t, js: js, tenants: &tenants{}}
	d.tenants.set("unmapped")
	d.store = d.open(js)
	var err error
	d.stream, err = js.Stream(t.Context(), kv.StreamOperator)
	require.NoError(t, err)
	return d
}

// open is another process's store of the same stream.
func (d *desk) open(js jetstream.JetStream) *kv.EventStore {
	d.t.Helper()
	s, err := kv.OpenEventStore(d.t.Context(), js, kv.EventStoreOptions{
		Repo: wanted.Repo, Tenancy: d.tenants, Now: func() time.Time { return time.Now().Add(time.Duration(d.ahead.Load())) },
	})
	require.NoError(d.t, err)
	return s
}

// other is a further process's connection, in turn one to each node.
func (d *desk) other() jetstream.JetStream {
	all := append([]jetstream.JetStream{d.js}, d.more...)
	return all[int(d.turn.Add(1))%len(all)]
}

func freshID() operator.RequestID { return operator.RequestID(uuid.NewString()) }

// stored are the raw messages of a request in all tenants, as kinds.
func (d *desk) stored(id operator.RequestID) []string {
	d.t.Helper()
	var out []string
	for seq := uint64(1); ; {
		m, err := d.stream.GetMsg(context.Background(), seq, jetstream.WithGetMsgSubject("operator.*."+string(id)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out
		}
		require.NoError(d.t, err)
		e, rev, err := operator.Decode(m.Data)
		kind := "foreign"
		if err == nil && rev == len(out)+1 { // OT-6: the revision is the place in the stream
			kind = string(e.Kind())
		}
		out = append(out, kind)
		seq = m.Sequence + 1
	}
}

// wantStored asserts the raw messages of a request.
func (d *desk) wantStored(id operator.RequestID, kinds string) {
	d.t.Helper()
	require.Equal(d.t, strings.Fields(kinds), append([]string{}, d.stored(id)...))
}

// plant appends a message that is no event, as another writer could.
func (d *desk) plant(tenant string, id operator.RequestID, data string) {
	d.t.Helper()
	_, err := d.js.PublishMsg(context.Background(), &nats.Msg{Subject: kv.OperatorSubject(tenant, id), Data: []byte(data)})
	require.NoError(d.t, err)
}

// move is one transition of a request, all its arguments right.
type move struct {
	op   string
	from operator.State
	call func(s *kv.EventStore, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error)
}

func evidence() operator.Evidence {
	return operator.Evidence{Owner: operator.Owner{Tenant: "x", Operator: "y", Conversation: "z"}, AttemptID: "a1", Issue: issue7}
}

// moves are all transitions. Each contender may have its own attempt.
func moves() []move {
	ctx := context.Background()
	return []move{
		{"confirm", operator.StateProposed, func(s *kv.EventStore, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error) {
			return s.Confirm(ctx, o, id, rev)
		}},
		{"begin", operator.StateApproved, func(s *kv.EventStore, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error) {
			return s.TryBeginAttempt(ctx, o, id, rev, "a1", "boot")
		}},
		{"unknown", operator.StateAttempting, func(s *kv.EventStore, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error) {
			return s.MarkUnknown(ctx, o, id, rev, "a1", "boot", "unknown")
		}},
		{"verified", operator.StateAttempting, func(s *kv.EventStore, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error) {
			return s.MarkVerified(ctx, o, id, rev, evidence())
		}},
		{"reconcile", operator.StateUnknown, func(s *kv.EventStore, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error) {
			return s.Reconcile(ctx, o, id, rev, evidence())
		}},
		{"delivered", operator.StateSubmitted, func(s *kv.EventStore, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error) {
			return s.MarkDelivered(ctx, o, id, rev, "o1")
		}},
	}
}

// kindsTo are the events that lead to a state, by the longest way.
var kindsTo = map[operator.State]string{
	operator.StateProposed:   "proposed",
	operator.StateApproved:   "proposed approved",
	operator.StateAttempting: "proposed approved attempt_started",
	operator.StateUnknown:    "proposed approved attempt_started outcome_unknown",
	operator.StateSubmitted:  "proposed approved attempt_started outcome_unknown submitted",
	operator.StateDelivered:  "proposed approved attempt_started outcome_unknown submitted delivered",
}

// request is a new one in a state, with its revision.
func (d *desk) request(s operator.State) (operator.RequestID, int) {
	d.t.Helper()
	id := freshID()
	r, err := d.store.Propose(d.t.Context(), ann, id, wanted)
	require.NoError(d.t, err)
	require.Equal(d.t, operator.Committed, r.Code)
	for _, m := range moves() {
		if r.Task.State == s {
			break
		}
		if m.from != r.Task.State || m.op == "verified" {
			continue
		}
		r, err = m.call(d.store, ann, id, r.Task.Revision)
		require.NoError(d.t, err)
		require.Equal(d.t, operator.Committed, r.Code, m.op)
	}
	require.Equal(d.t, s, r.Task.State)
	d.wantStored(id, kindsTo[s])
	return id, r.Task.Revision
}
