package kv_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// What a restored store could send twice counts as unknown, whether it had its
// record already or not; it may be held twice.
func TestHoldKeepsRepliesFromLeaving(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	now := noon.Time
	box, err := kv.OpenOutboxStore(t.Context(), env.JS, func() time.Time { return now })
	require.NoError(t, err)
	ended := func(r *task.Record) {
		r.State, r.Intents = task.Completed, []task.Intent{{N: 0, Channel: "callback:ci", To: "x", Payload: []byte(`{}`)}}
	}
	derived, underived := stored(t, env, "a", ended), stored(t, env, "b", ended)
	require.NoError(t, box.Derive(t.Context(), derived))
	sent := stored(t, env, "c", ended)
	require.NoError(t, box.Derive(t.Context(), sent))
	_, won, err := box.Claim(t.Context(), outbox.DerivedID(string(sent.ID), 0), "boot")
	require.NoError(t, err)
	require.True(t, won)
	_, err = box.MarkDelivered(t.Context(), outbox.DerivedID(string(sent.ID), 0))
	require.NoError(t, err)
	stored(t, env, "d", nil)

	o := kv.HoldOptions{Now: func() time.Time { return now }}
	held, err := kv.Hold(t.Context(), env.JS, o)
	require.NoError(t, err)
	require.Equal(t, kv.Held{Replies: 2, Live: 1}, held)
	for _, r := range []task.Record{derived, underived} {
		id := outbox.DerivedID(string(r.ID), 0)
		rec, err := box.Find(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, outbox.Delivering, rec.Status)
		require.Contains(t, rec.LastError, "restored from a backup")
		require.True(t, rec.Unknown(now.Add(outbox.Lease)))
		_, won, err := box.Claim(t.Context(), id, "boot")
		require.NoError(t, err)
		require.False(t, won, "nobody sends it")
	}
	rec, err := box.Find(t.Context(), outbox.DerivedID(string(sent.ID), 0))
	require.NoError(t, err)
	require.Equal(t, outbox.Delivered, rec.Status, "what is settled stays")
	_, err = openBucket(t, env).Get(t.Context(), kv.ControlPause)
	require.NoError(t, err, "no task runs")

	held, err = kv.Hold(t.Context(), env.JS, o)
	require.NoError(t, err)
	require.Equal(t, kv.Held{Live: 1}, held)
	now = now.Add(outbox.Lease)
	_, next, err := box.Resolve(t.Context(), outbox.DerivedID(string(derived.ID), 0), outbox.ResolveResend, "it never came", "ann")
	require.NoError(t, err)
	require.Equal(t, outbox.Pending, next.Status, "a person decides")
}

// A restored store licenses no creation of an issue, and tells of none twice.
func TestHoldLicensesNothing(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	now := noon.Time
	clock := func() time.Time { return now }
	events, err := kv.OpenEventStore(t.Context(), env.JS, kv.EventStoreOptions{Repo: "acme/site", Tenancy: fixed("invotek"), Now: clock})
	require.NoError(t, err)
	owner := operator.Owner{Tenant: "invotek", Operator: "ann", Conversation: "c1"}
	request := func(upTo int) operator.RequestID {
		id := operator.RequestID(uuid.NewString())
		for i, step := range []func() (kv.OperatorResult, error){
			func() (kv.OperatorResult, error) {
				return events.Propose(t.Context(), owner, id, operator.Intent{Repo: "acme/site", Title: "t"})
			},
			func() (kv.OperatorResult, error) { return events.Confirm(t.Context(), owner, id, 1) },
			func() (kv.OperatorResult, error) {
				return events.TryBeginAttempt(t.Context(), owner, id, 2, "a1", "boot")
			},
			func() (kv.OperatorResult, error) {
				return events.MarkVerified(t.Context(), owner, id, 3, operator.Evidence{Owner: owner, AttemptID: "a1", Issue: operator.Issue{Number: 1, URL: "u"}})
			},
		} {
			if i < upTo {
				r, err := step()
				require.NoError(t, err)
				require.Equal(t, operator.Committed, r.Code)
			}
		}
		return id
	}
	proposed, approved, attempting, submitted := request(1), request(2), request(3), request(4)
	tell := func(r operator.Task) (*outbox.Record, error) {
		rec, err := outbox.New(outbox.ID("operator-"+string(r.ID)), "callback:ci", "x", []byte(`{}`), now)
		return &rec, err
	}
	held, err := kv.Hold(t.Context(), env.JS, kv.HoldOptions{Now: clock, Tell: tell})
	require.NoError(t, err)
	require.Equal(t, kv.Held{Requests: 2, Replies: 1}, held)
	for id, want := range map[operator.RequestID]operator.State{
		proposed: operator.StateUnknown, approved: operator.StateUnknown, attempting: operator.StateAttempting, submitted: operator.StateSubmitted,
	} {
		r, err := events.Read(t.Context(), owner, id)
		require.NoError(t, err)
		require.Equal(t, want, r.State)
		begun, err := events.TryBeginAttempt(t.Context(), owner, id, r.Revision, "a2", "boot")
		require.NoError(t, err)
		require.False(t, begun.AuthorizesIssueCreate(), want)
	}
	box, err := kv.OpenOutboxStore(t.Context(), env.JS, clock)
	require.NoError(t, err)
	rec, err := box.Find(t.Context(), outbox.ID("operator-"+string(submitted)))
	require.NoError(t, err)
	require.Equal(t, outbox.Delivering, rec.Status)
	held, err = kv.Hold(t.Context(), env.JS, kv.HoldOptions{Now: clock, Tell: tell})
	require.NoError(t, err)
	require.Equal(t, kv.Held{}, held, "once")
}

// fixed is the tenant of every repository.
type fixed string

// RepoTenant implements kv.Tenancy.
func (f fixed) RepoTenant(context.Context, string) (string, error) { return string(f), nil }
