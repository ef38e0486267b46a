package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// boxClock is a clock that tests move.
type boxClock struct{ offset atomic.Int64 }

func (c *boxClock) now() time.Time      { return noon.Add(time.Duration(c.offset.Load())) }
func (c *boxClock) add(d time.Duration) { c.offset.Add(int64(d)) }

func openOutbox(t testing.TB, env *natstest.Env, c *boxClock) *kv.OutboxStore {
	t.Helper()
	s, err := kv.OpenOutboxStore(context.Background(), env.JS, c.now)
	require.NoError(t, err)
	return s
}

// box is a store with one pending record, "r".
func box(t *testing.T) (*natstest.Env, *kv.OutboxStore, *boxClock) {
	t.Helper()
	env, c := natstest.New(t), &boxClock{}
	s := openOutbox(t, env, c)
	_, err := s.Create(t.Context(), reply(t, "r"))
	require.NoError(t, err)
	return env, s, c
}

func reply(t testing.TB, id outbox.ID) outbox.Record {
	t.Helper()
	r, err := outbox.New(id, "callback:ci", "https://ci.example/hook", []byte(`{"text":"<done> & dusted"}`), noon.Time)
	require.NoError(t, err)
	r.TaskID, r.SessionID, r.InstallationID, r.Repo = "t", "t", 7, "acme/api"
	return r
}

func find(t testing.TB, s *kv.OutboxStore, id outbox.ID) outbox.Record {
	t.Helper()
	r, err := s.Find(context.Background(), id)
	require.NoError(t, err)
	require.NotNil(t, r, id)
	return *r
}

func TestOB14OB16CreateAndFind(t *testing.T) {
	t.Parallel()
	env, s, _ := box(t)
	r := find(t, s, "r")
	require.Equal(t, outbox.Pending, r.Status)
	require.Zero(t, r.Attempts)
	require.Empty(t, r.LastError)
	require.Equal(t, outbox.At(noon.Time), r.CreatedAt)
	require.Equal(t, r.CreatedAt, r.UpdatedAt)
	require.Equal(t, `{"text":"<done> & dusted"}`, string(r.Payload), "byte for byte")

	_, err := env.JS.KeyValue(t.Context(), "STATE")
	require.NoError(t, err)
	require.Equal(t, "outbox.r", kv.OutboxKey("r"))

	_, err = s.Create(t.Context(), reply(t, "r"))
	require.ErrorIs(t, err, kv.ErrExists)

	made, err := s.Create(t.Context(), outbox.Record{Channel: "c", Payload: []byte(`1`)})
	require.NoError(t, err)
	require.Len(t, string(made.ID), 36, "the id defaults to a UUID")
	require.False(t, made.CreatedAt.IsZero())
	got := find(t, s, made.ID)
	require.Empty(t, got.TaskID, "nothing stays nothing")

	none, err := s.Find(t.Context(), "nobody")
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestOB15NonJSONIsRefused(t *testing.T) {
	t.Parallel()
	env, s, _ := box(t)
	before := messages(t, env, kv.StreamState)
	for _, r := range []outbox.Record{
		{Channel: "c", Payload: []byte("hello")}, {Channel: "c"}, {Payload: []byte("1")},
		{Channel: "c", Payload: append(append([]byte{'"'}, make([]byte, outbox.MaxPayload)...), '"')},
	} {
		_, err := s.Create(t.Context(), r)
		require.ErrorIs(t, err, outbox.ErrInvalid)
	}
	require.Equal(t, before, messages(t, env, kv.StreamState), "nothing was written")
}

func TestOB18ClaimOfWhatIsNotPending(t *testing.T) {
	t.Parallel()
	_, s, _ := box(t)
	_, won, err := s.Claim(t.Context(), "nobody", "b")
	require.NoError(t, err)
	require.False(t, won)
	r, won, err := s.Claim(t.Context(), "r", "b")
	require.NoError(t, err)
	require.True(t, won)
	require.Equal(t, outbox.Delivering, r.Status)
	require.Equal(t, r, find(t, s, "r"))
	for range 2 {
		_, won, err = s.Claim(t.Context(), "r", "b")
		require.NoError(t, err)
		require.False(t, won, "not even for the one that won")
	}
	_, err = s.MarkDelivered(t.Context(), "r")
	require.NoError(t, err)
	_, won, err = s.Claim(t.Context(), "r", "b")
	require.NoError(t, err)
	require.False(t, won)
}

// Eight handles, all held before the CAS until the last one is there.
func TestOB17OB56ClaimIsWonOnce(t *testing.T) {
	t.Parallel()
	env, _, c := box(t)
	const contenders = 8
	var arrived sync.WaitGroup
	arrived.Add(contenders)
	var won atomic.Int32
	var all sync.WaitGroup
	for i := range contenders {
		s := openOutbox(t, env, c)
		var once sync.Once
		s.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, _ string) error {
			if op == "update" {
				once.Do(func() { arrived.Done(); arrived.Wait() })
			}
			return nil
		}})
		all.Go(func() {
			_, ok, err := s.Claim(context.Background(), "r", task.BootID(fmt.Sprint(i)))
			if err == nil && ok {
				won.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, won.Load())
}

// The answer of the claim's write is lost: the nonce settles it in the call.
func TestOB19LostAnswerIsSettledByTheNonce(t *testing.T) {
	t.Parallel()
	_, s, _ := box(t)
	var lost atomic.Int32
	s.SetHooks(&kv.Hooks{After: func(context.Context, string, string) error {
		if lost.Add(1) == 1 {
			return kv.ErrUnknown
		}
		return nil
	}})
	r, won, err := s.Claim(t.Context(), "r", "b")
	require.NoError(t, err)
	require.True(t, won)
	require.EqualValues(t, 1, lost.Load(), "it was read, not written again")
	require.Equal(t, find(t, s, "r").Claim.Nonce, r.Claim.Nonce)
}

// No answer ever comes: nobody may send, and the record shows why not.
func TestOB7ClaimWithoutAnAnswerIsNoClaim(t *testing.T) {
	t.Parallel()
	_, s, _ := box(t)
	gone := errors.Join(kv.ErrUnknown, errors.New("no responders"))
	var down atomic.Bool
	s.SetHooks(&kv.Hooks{
		Before: func(context.Context, string, string) error {
			if down.Load() {
				return gone
			}
			return nil
		},
		After: func(context.Context, string, string) error { down.Store(true); return gone },
	})
	_, won, err := s.Claim(soon(t, 200*time.Millisecond), "r", "b")
	require.ErrorIs(t, err, kv.ErrUnknown)
	require.False(t, won)
	down.Store(false)
	require.Equal(t, outbox.Delivering, find(t, s, "r").Status)
}

func TestOB21OB22OB23Marks(t *testing.T) {
	t.Parallel()
	env, s, c := box(t)
	_, _, err := s.Claim(t.Context(), "r", "b")
	require.NoError(t, err)
	c.add(time.Second)
	r, err := s.RecordAttempt(t.Context(), "r", "HTTP 503: try later", time.Time{})
	require.NoError(t, err)
	require.Equal(t, 1, r.Attempts)
	require.Equal(t, outbox.Delivering, r.Status)
	require.Equal(t, "HTTP 503: try later", find(t, s, "r").LastError, "OB-26")

	r, err = s.MarkDelivered(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, 2, r.Attempts)
	require.Empty(t, r.LastError)
	before := sequence(t, env)
	c.add(time.Second)
	again, err := s.MarkDelivered(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, r, again)
	require.Equal(t, before, sequence(t, env), "a repeat writes nothing")
	_, err = s.MarkFailed(t.Context(), "r", "no")
	require.ErrorIs(t, err, outbox.ErrState, "never backwards")
	_, err = s.RecordAttempt(t.Context(), "r", "no", time.Time{})
	require.ErrorIs(t, err, outbox.ErrState)
	require.Equal(t, r, find(t, s, "r"))
}

// An attempt whose answer is lost is counted once.
func TestOB21LostAnswerCountsOnce(t *testing.T) {
	t.Parallel()
	_, s, _ := box(t)
	_, _, err := s.Claim(t.Context(), "r", "b")
	require.NoError(t, err)
	var n atomic.Int32
	s.SetHooks(&kv.Hooks{After: func(context.Context, string, string) error {
		if n.Add(1) <= 2 {
			return kv.ErrUnknown
		}
		return nil
	}})
	_, err = s.RecordAttempt(t.Context(), "r", "503", time.Time{})
	require.NoError(t, err)
	require.Equal(t, 1, find(t, s, "r").Attempts)
	r, err := s.MarkDelivered(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, 2, r.Attempts)
}

func TestOB24UnknownIDs(t *testing.T) {
	t.Parallel()
	_, s, _ := box(t)
	_, err := s.RecordAttempt(t.Context(), "nobody", "x", time.Time{})
	require.ErrorIs(t, err, kv.ErrNotFound)
	_, err = s.MarkDelivered(t.Context(), "nobody")
	require.ErrorIs(t, err, kv.ErrNotFound)
	_, err = s.MarkFailed(t.Context(), "nobody", "x")
	require.ErrorIs(t, err, kv.ErrNotFound)
	_, _, err = s.Resolve(t.Context(), "nobody", outbox.ResolveFailed, "x", "ann")
	require.ErrorIs(t, err, kv.ErrNotFound)
}

func TestOB25OB34PendingInOrderAndNothingElse(t *testing.T) {
	t.Parallel()
	env, c := natstest.New(t), &boxClock{}
	s := openOutbox(t, env, c)
	none, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
	for _, k := range []struct {
		task string
		n    int
	}{{"b", 2}, {"a", 10}, {"b", 1}, {"a", 2}, {"a", 1}} {
		r := reply(t, outbox.DerivedID(k.task, k.n))
		r.TaskID, r.Index = k.task, k.n
		_, err := s.Create(t.Context(), r)
		require.NoError(t, err)
	}
	_, _, err = s.Claim(t.Context(), "a-1", "b")
	require.NoError(t, err)
	pending, err := s.Pending(t.Context())
	require.NoError(t, err)
	var ids []outbox.ID
	for _, r := range pending {
		ids = append(ids, r.ID)
	}
	require.Equal(t, []outbox.ID{"a-2", "a-10", "b-1", "b-2"}, ids)
}

// OB-11, OB-57: fresh, crashed and exhausted records differ.
func TestNewerAndCorruptRecordsAreLeftAlone(t *testing.T) {
	t.Parallel()
	env, s, _ := box(t)
	b := openBucket(t, env)
	for id, v := range map[outbox.ID]string{"new": `{"v":99,"status":"pending"}`, "bad": `{"v":1}`, "odd": `{"v":1,"id":"odd","status":"sent"}`} {
		_, err := b.Create(t.Context(), kv.OutboxKey(id), []byte(v), 0)
		require.NoError(t, err)
		_, won, err := s.Claim(t.Context(), id, "b")
		require.Error(t, err, id)
		require.False(t, won)
		_, err = s.MarkFailed(t.Context(), id, "x")
		require.Error(t, err, id)
		e, err := b.Get(t.Context(), kv.OutboxKey(id))
		require.NoError(t, err)
		require.Equal(t, v, string(e.Value))
	}
	pending, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.Len(t, pending, 1)
}

func sequence(t testing.TB, env *natstest.Env) uint64 {
	t.Helper()
	st, err := env.JS.Stream(context.Background(), kv.StreamState)
	require.NoError(t, err)
	return st.CachedInfo().State.LastSeq
}
