package kv_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
)

// OT-4, OT-6, OT-9: a whole life is one message a transition; the server itself
// refuses a seventh.
func TestOT4OneEventATransition(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, rev := d.request(operator.StateDelivered)
	require.Equal(t, operator.MaxEvents, rev)
	got, err := d.store.Read(t.Context(), ann, id)
	require.NoError(t, err)
	require.Equal(t, rev, got.Revision)
	require.Equal(t, issue7, got.Issue)
	require.Equal(t, ann, got.Owner)
	_, err = d.js.Publish(t.Context(), kv.OperatorSubject("invotek", id), []byte("{}"))
	require.ErrorContains(t, err, "maximum messages per subject")
	for _, m := range moves() {
		r, err := m.call(d.store, ann, id, rev)
		require.NoError(t, err)
		require.Equal(t, operator.Existing, r.Code, m.op)
		require.False(t, r.AuthorizesIssueCreate(), "OT-16: %s", m.op)
	}
	d.wantStored(id, kindsTo[operator.StateDelivered])
	require.Error(t, d.stream.Purge(t.Context()), "nobody can purge the stream")
	require.Error(t, d.stream.DeleteMsg(t.Context(), 1), "nor delete from it")
}

// OT-15…19: only Committed of TryBeginAttempt licenses the creation.
func TestOT15OnlyACommittedBeginAuthorizes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, m := range moves() {
		id, rev := d.request(m.from)
		r, err := m.call(d.store, ann, id, rev)
		require.NoError(t, err)
		require.Equal(t, operator.Committed, r.Code)
		require.Equal(t, m.op == "begin", r.AuthorizesIssueCreate(), m.op)
	}
	id, rev := d.request(operator.StateAttempting)
	for _, s := range []*kv.EventStore{d.store, d.open(d.js)} { // a restart
		r, err := s.TryBeginAttempt(t.Context(), ann, id, rev, "a1", "boot")
		require.NoError(t, err)
		require.Equal(t, operator.Existing, r.Code, "OT-23: also for its own attempt")
		require.False(t, r.AuthorizesIssueCreate())
	}
	d.ahead.Store(int64(operator.AttemptLease) * 2)
	r, err := d.store.TryBeginAttempt(t.Context(), ann, id, rev, "a2", "other")
	require.NoError(t, err)
	require.Equal(t, operator.Existing, r.Code, "OT-20: an expired lease licenses nothing")
	d.wantStored(id, kindsTo[operator.StateAttempting])
}

// OT-12, OT-14, OT-66: another tenant, operator or conversation learns
// nothing: not by any operation, and not from a poisoned stream.
func TestOT14OthersLearnNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, poisoned := range []bool{false, true} {
		for _, m := range moves() {
			id, rev := d.request(m.from)
			want := kindsTo[m.from]
			if poisoned {
				d.plant("invotek", id, `{"kind":"of_another_writer"}`)
				want += " foreign"
			}
			for _, other := range []operator.Owner{
				{Tenant: "invotek", Operator: "Ann", Conversation: "c1"}, {Tenant: "invotek", Operator: "ann", Conversation: "C1"},
				{Tenant: "invotek", Operator: "bob", Conversation: "c1"}, {Tenant: "invotek", Operator: "ann", Conversation: ""},
			} {
				r, err := m.call(d.store, other, id, rev)
				require.NoError(t, err, "%s by %+v", m.op, other)
				require.Equal(t, kv.OperatorResult{Code: operator.NotFound}, withoutBegins(r), "%s by %+v", m.op, other)
				got, err := d.store.Read(t.Context(), other, id)
				require.NoError(t, err)
				require.Nil(t, got)
			}
			d.wantStored(id, want)
		}
	}
	got, err := d.store.Read(t.Context(), ann, freshID())
	require.NoError(t, err)
	require.Nil(t, got)
}

// withoutBegins is a result as a caller of another package sees it.
func withoutBegins(r kv.OperatorResult) kv.OperatorResult {
	return kv.OperatorResult{Code: r.Code, Task: r.Task}
}

// OT-53, OT-64: a foreign event fails closed for the owner: an error, and
// nothing is written.
func TestOT64ForeignEventsFailClosed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	approved, err := operator.Encode(&operator.Approved{}, 1)
	require.NoError(t, err)
	for name, data := range map[string]string{
		"another type": `{"v":1,"kind":"heartbeat","rev":2,"data":{}}`, "no JSON": "x", "another rev": string(approved), "empty": "",
	} {
		for _, m := range moves() {
			id, rev := d.request(m.from)
			if rev == operator.MaxEvents {
				continue
			}
			d.plant("invotek", id, data)
			_, err := m.call(d.store, ann, id, rev)
			require.ErrorIs(t, err, kv.ErrPoisoned, "%s: %s", m.op, name)
			_, err = d.store.Read(t.Context(), ann, id)
			require.ErrorIs(t, err, kv.ErrPoisoned)
			require.Len(t, d.stored(id), rev+1, "nothing was written")
		}
	}
}

// OT-65: a foreign event that comes between the read and the write fails the
// write's version check.
func TestOT65ForeignEventAfterTheReadLosesTheWrite(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, m := range moves() {
		id, rev := d.request(m.from)
		s := d.open(d.js)
		s.Hooks = &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
			if op == "append" {
				d.plant("invotek", id, "x")
			}
			return nil
		}}
		_, err := m.call(s, ann, id, rev)
		require.ErrorIs(t, err, kv.ErrPoisoned, "%s: its conflict rereads, and finds the stream poisoned", m.op)
		d.wantStored(id, kindsTo[m.from]+" foreign")
	}
}

// OT-84, OT-57: whatever is not a collision is uncertain, carries nothing, and
// licenses nothing, though the event may be there; it is not tried again.
func TestOT57OtherFailuresAreUncertain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, lost := range []bool{false, true} {
		for _, m := range append(moves(), move{"propose", operator.None, func(s *kv.EventStore, o operator.Owner, id operator.RequestID, _ int) (kv.OperatorResult, error) {
			return s.Propose(context.Background(), o, id, wanted)
		}}) {
			id, rev := freshID(), 0
			if m.from != operator.None {
				id, rev = d.request(m.from)
			}
			tries := 0
			fail := func(_ context.Context, op, _ string) error {
				if op != "append" {
					return nil
				}
				tries++
				return kv.ErrUnknown
			}
			s := d.open(d.js)
			s.Hooks = &kv.Hooks{Before: fail}
			n := rev
			if lost {
				s.Hooks, n = &kv.Hooks{After: fail}, rev+1
			}
			r, err := m.call(s, ann, id, rev)
			require.NoError(t, err)
			require.Equal(t, kv.OperatorResult{Code: operator.Uncertain}, withoutBegins(r), "%s, answer lost: %v", m.op, lost)
			require.False(t, r.AuthorizesIssueCreate(), "OT-18: %s", m.op)
			require.Equal(t, 1, tries, "OT-58: %s", m.op)
			require.Len(t, d.stored(id), n, m.op)
		}
	}
	// A store that takes nothing: its own refusal is no collision either.
	gone := natstest.New(t)
	s := d.open(gone.JS)
	require.NoError(t, gone.JS.DeleteStream(t.Context(), kv.StreamOperator))
	r, err := s.Propose(t.Context(), ann, freshID(), wanted)
	require.NoError(t, err)
	require.Equal(t, operator.Uncertain, r.Code, "OT-44")
}
