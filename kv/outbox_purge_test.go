package kv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// ended is a terminal record with two intents.
func ended(t testing.TB) task.Record {
	t.Helper()
	r := record(t, "d")
	r.State = task.Completed
	r.Intents = []task.Intent{
		{N: 1, Channel: "callback:ci", To: "u", Payload: []byte(`{"n":1}`)},
		{N: 2, Channel: "callback:ci", To: "u", Payload: []byte(`nonsense`)},
	}
	return r
}

func TestOB38DeriveMakesEachRecordOnce(t *testing.T) {
	t.Parallel()
	env, c := natstest.New(t), &boxClock{}
	s := openOutbox(t, env, c)
	r := ended(t)
	live := r
	live.State = task.Running
	require.NoError(t, s.Derive(t.Context(), live))
	require.Zero(t, messages(t, env, kv.StreamState), "a live task sends nothing")
	for range 3 {
		require.NoError(t, s.Derive(t.Context(), r))
	}
	require.EqualValues(t, 2, messages(t, env, kv.StreamState))
	one := outbox.DerivedID(string(r.ID), 1)
	_, _, err := s.Claim(t.Context(), one, "b")
	require.NoError(t, err)
	require.NoError(t, s.Derive(t.Context(), r))
	require.Equal(t, outbox.Delivering, find(t, s, one).Status, "deriving again changes nothing")
}

func TestOB54PurgeOfATaskRemovesEveryStatus(t *testing.T) {
	t.Parallel()
	_, s, _ := everyStatus(t)
	n, err := s.PurgeTask(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, 4, n)
	for _, st := range outbox.Statuses {
		gone, err := s.Find(t.Context(), outbox.ID("t-"+string(st)))
		require.NoError(t, err)
		require.Nil(t, gone)
	}
	find(t, s, "other")
	n, err = s.PurgeInstallation(t.Context(), 8)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = s.PurgeInstallation(t.Context(), 8)
	require.NoError(t, err)
	require.Zero(t, n, "a purge may be repeated")
}

// everyStatus has one record in each status for task t, named after it, and
// one of another task and installation.
func everyStatus(t *testing.T) (*natstest.Env, *kv.OutboxStore, *boxClock) {
	t.Helper()
	env, c := natstest.New(t), &boxClock{}
	s := openOutbox(t, env, c)
	for _, st := range outbox.Statuses {
		id := outbox.ID("t-" + string(st))
		_, err := s.Create(t.Context(), reply(t, id))
		require.NoError(t, err)
		if st != outbox.Pending {
			_, _, err = s.Claim(t.Context(), id, "b")
			require.NoError(t, err)
		}
		switch st {
		case outbox.Delivered:
			_, err = s.MarkDelivered(t.Context(), id)
		case outbox.Failed:
			_, err = s.MarkFailed(t.Context(), id, "no")
		}
		require.NoError(t, err)
	}
	o := reply(t, "other")
	o.TaskID, o.SessionID, o.InstallationID = "o", "o", 8
	_, err := s.Create(t.Context(), o)
	require.NoError(t, err)
	return env, s, c
}

func TestOB53RetireEndsOnlyWhatIsDone(t *testing.T) {
	t.Parallel()
	_, s, c := everyStatus(t)
	c.add(time.Hour)
	released := map[outbox.ID]int{}
	release := func(_ context.Context, r outbox.Record) error { released[r.ID]++; return nil }
	for _, st := range outbox.Statuses {
		id := outbox.ID("t-" + string(st))
		done, err := s.Retire(t.Context(), id, noon.Time, release)
		require.NoError(t, err)
		require.False(t, done, "%s is not old enough", st)
		done, err = s.Retire(t.Context(), id, c.now(), release)
		require.NoError(t, err)
		require.Equal(t, st.Terminal(), done, st)
	}
	require.Equal(t, map[outbox.ID]int{"t-delivered": 1, "t-failed": 1}, released, "intents go first, of these only")
	done, err := s.Retire(t.Context(), "t-failed", c.now(), release)
	require.NoError(t, err)
	require.False(t, done)
}

// While the task still carries its intents its records stay: they would be
// derived, and sent, again.
func TestOB53IntentsGoFirst(t *testing.T) {
	t.Parallel()
	_, s, c := everyStatus(t)
	c.add(time.Hour)
	held := errors.New("intents are still there")
	done, err := s.Retire(t.Context(), "t-delivered", c.now(), func(context.Context, outbox.Record) error { return held })
	require.ErrorIs(t, err, held)
	require.False(t, done)
	find(t, s, "t-delivered")
}

func TestO04ResolveOfUnknownOnes(t *testing.T) {
	t.Parallel()
	_, s, c := everyStatus(t)
	for _, st := range outbox.Statuses {
		_, _, err := s.Resolve(t.Context(), outbox.ID("t-"+string(st)), outbox.ResolveDelivered, "r", "ann")
		require.ErrorIs(t, err, outbox.ErrState, st)
	}
	c.add(outbox.Lease)
	_, _, err := s.Resolve(t.Context(), "t-delivering", outbox.ResolveDelivered, "", "ann")
	require.ErrorIs(t, err, outbox.ErrInvalid)
	r, next, err := s.Resolve(t.Context(), "t-delivering", outbox.ResolveDelivered, "they have it", "ann")
	require.NoError(t, err)
	require.Nil(t, next)
	require.Equal(t, outbox.Delivered, r.Status)
	require.Equal(t, "they have it", find(t, s, "t-delivering").Resolved.Reason)
	_, _, err = s.Resolve(t.Context(), "t-delivering", outbox.ResolveResend, "again", "ann")
	require.ErrorIs(t, err, outbox.ErrState)
	for _, st := range []outbox.Status{outbox.Pending, outbox.Delivered, outbox.Failed} {
		_, _, err := s.Resolve(t.Context(), outbox.ID("t-"+string(st)), outbox.ResolveResend, "r", "ann")
		require.ErrorIs(t, err, outbox.ErrState, st)
	}
}

// A resend makes one new record, however often and over whatever cut it is asked for.
func TestO04ResendMakesOneRecord(t *testing.T) {
	t.Parallel()
	_, s, c := everyStatus(t)
	c.add(outbox.Lease)
	cut := true
	s.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, _ string) error {
		if op == "create" && cut {
			return kv.ErrUnknown
		}
		return nil
	}})
	old, _, err := s.Resolve(t.Context(), "t-delivering", outbox.ResolveResend, "not there", "ann")
	require.ErrorIs(t, err, kv.ErrUnknown)
	require.NotEmpty(t, old.LinkedTo)
	cut = false
	for range 2 {
		r, next, err := s.Resolve(t.Context(), "t-delivering", outbox.ResolveResend, "not there", "bob")
		require.NoError(t, err)
		require.Equal(t, old, r, "the first resolution stands")
		require.Equal(t, old.LinkedTo, next.ID)
		require.Equal(t, outbox.ID("t-delivering"), next.ResendOf)
		require.Equal(t, outbox.Pending, find(t, s, next.ID).Status)
	}
	pending, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.Len(t, pending, 3, "the resent one, the one that was there, and another task's")
	c.add(2 * time.Hour)
	_, _, err = s.Resolve(t.Context(), "t-delivering", outbox.ResolveResend, "not there", "ann")
	require.ErrorIs(t, err, outbox.ErrState, "later on a missing one may have been retired")
}

func TestReclaimOnlyAfterTheLease(t *testing.T) {
	t.Parallel()
	_, s, c := everyStatus(t)
	_, won, err := s.Reclaim(t.Context(), "t-delivering", "b2")
	require.NoError(t, err)
	require.False(t, won)
	c.add(outbox.Lease)
	r, won, err := s.Reclaim(t.Context(), "t-delivering", "b2")
	require.NoError(t, err)
	require.True(t, won)
	require.Equal(t, "b2", r.Claim.Boot)
	_, won, err = s.Reclaim(t.Context(), "t-delivering", "b3")
	require.NoError(t, err)
	require.False(t, won)
}
