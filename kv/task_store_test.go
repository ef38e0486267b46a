package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

func claim(n int) func(task.Record) (task.Record, error) {
	return func(r task.Record) (task.Record, error) { return r.Claim("w", "boot", fmt.Sprint(n), noon.Time) }
}

func TestTaskStoreCreateUpdate(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, ctx, r := openStore(t, env), t.Context(), record(t, "g1")
	_, _, err := s.Get(ctx, 7, r.ID)
	require.ErrorIs(t, err, kv.ErrNotFound)
	rev, err := s.Create(ctx, r)
	require.NoError(t, err)
	got, grev, err := s.Get(ctx, 7, r.ID)
	require.NoError(t, err)
	require.Equal(t, r, got)
	require.Equal(t, rev, grev)
	_, _, err = s.Get(ctx, 8, r.ID)
	require.ErrorIs(t, err, kv.ErrNotFound, "another installation does not see it")
	_, err = s.Create(ctx, r)
	require.ErrorIs(t, err, kv.ErrExists)
	r.V = 0
	next, err := s.Update(ctx, r, rev)
	require.NoError(t, err)
	_, err = s.Update(ctx, r, rev)
	require.ErrorIs(t, err, kv.ErrConflict)
	got, grev, err = s.Get(ctx, 7, r.ID)
	require.NoError(t, err, "the store stamps its own version")
	require.Equal(t, task.Version, got.V)
	require.Equal(t, next, grev)
}

// DT-68: of eight claimers one gets the task.
func TestDT68EightClaimersOneClaim(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, r := openStore(t, env), record(t, "g1")
	_, err := s.Create(t.Context(), r)
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 8 {
		wg.Go(func() {
			_, _, err := s.Change(context.Background(), 7, r.ID, claim(i), nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, task.ErrState) {
				t.Errorf("claim: %v", err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, won)
	got, _, err := s.Get(t.Context(), 7, r.ID)
	require.NoError(t, err)
	require.Equal(t, 1, got.Attempts)
}

// OT-59 of tasks too: no write is lost, whoever comes between.
func TestChangeRepeatsOnConflict(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, r := openStore(t, env), record(t, "g1")
	_, err := s.Create(t.Context(), r)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				_, _, err := s.Change(context.Background(), 7, r.ID, func(r task.Record) (task.Record, error) {
					r.Number++
					return r, nil
				}, nil)
				if err != nil {
					t.Errorf("change: %v", err)
				}
			}
		})
	}
	wg.Wait()
	got, _, err := s.Get(t.Context(), 7, r.ID)
	require.NoError(t, err)
	require.Equal(t, r.Number+80, got.Number)
}

// An answer that was lost: done finds the own write and it is not made twice.
func TestChangeRecognisesItsOwnLostWrite(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, r := openStore(t, env), record(t, "g1")
	_, err := s.Create(t.Context(), r)
	require.NoError(t, err)
	lose := func(n int) *kv.Hooks {
		return &kv.Hooks{After: func(_ context.Context, op, _ string) error {
			if n--; op == "update" && n >= 0 {
				return kv.ErrUnknown
			}
			return nil
		}}
	}
	s.SetHooks(lose(1))
	got, rev, err := s.Change(t.Context(), 7, r.ID, claim(1), func(r task.Record) bool { return r.Holds(task.Holder{N: 1, Boot: "boot", Nonce: "1"}) })
	require.NoError(t, err)
	require.Equal(t, task.Running, got.State)
	require.Equal(t, 1, got.Attempts)
	require.EqualValues(t, 2, rev)
	s.SetHooks(lose(1))
	_, _, err = s.Change(t.Context(), 7, r.ID, func(r task.Record) (task.Record, error) { return r.Cancel("asked", noon.Time) }, nil)
	require.ErrorIs(t, err, task.ErrState, "without done the own write stands in its own way")
}

// DT-18: contention and silence are waited for within bounds.
func TestDT18ChangeIsBounded(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, r := openStore(t, env), record(t, "g1")
	_, err := s.Create(t.Context(), r)
	require.NoError(t, err)
	tries := 0
	s.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, _ string) error {
		if op == "update" {
			tries++
			return kv.ErrUnknown
		}
		return nil
	}})
	_, _, err = s.Change(soon(t, 300*time.Millisecond), 7, r.ID, claim(1), nil)
	require.ErrorIs(t, err, kv.ErrUnknown)
	require.Greater(t, tries, 1)
	require.Less(t, tries, 20, "it does not spin")
	s.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, _ string) error {
		if op == "update" {
			return kv.ErrConflict
		}
		return nil
	}})
	_, _, err = s.Change(soon(t, 50*time.Millisecond), 7, r.ID, claim(1), nil)
	require.Error(t, err)
	s.SetHooks(nil)
	boom := errors.New("boom")
	_, _, err = s.Change(t.Context(), 7, r.ID, func(task.Record) (task.Record, error) { return task.Record{}, boom }, nil)
	require.ErrorIs(t, err, boom)
	_, _, err = s.Change(t.Context(), 7, "nobody", claim(1), nil)
	require.ErrorIs(t, err, kv.ErrNotFound)
}

// DT-20: a newer or unreadable record is refused and stays as it is.
func TestDT20NewerAndCorruptAreLeftAlone(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s := openStore(t, env)
	bucket, err := env.JS.KeyValue(t.Context(), kv.BucketState)
	require.NoError(t, err)
	k := task.SupersedeKey{InstallationID: 7, RepoID: 1, Number: 2, FamiliarID: "f"}
	for text, want := range map[string]error{`{"v":2,"id":{}}`: kv.ErrNewer, `garbage`: kv.ErrCorrupt, `{}`: kv.ErrCorrupt} {
		for _, key := range []string{kv.TaskKey(7, "x"), kv.SupersedeKey(k), kv.SeenKey("default", "h")} {
			_, err := bucket.Put(t.Context(), key, []byte(text))
			require.NoError(t, err)
		}
		_, _, err = s.Get(t.Context(), 7, "x")
		require.ErrorIs(t, err, want)
		called := false
		_, _, err = s.Change(t.Context(), 7, "x", func(r task.Record) (task.Record, error) { called = true; return r, nil }, nil)
		require.ErrorIs(t, err, want)
		require.False(t, called)
		_, _, err = s.Pointer(t.Context(), k)
		require.ErrorIs(t, err, want)
		_, err = s.Seen(t.Context(), "default", "h", "g1", time.Hour)
		require.ErrorIs(t, err, want)
		for _, key := range []string{kv.TaskKey(7, "x"), kv.SupersedeKey(k), kv.SeenKey("default", "h")} {
			e, err := bucket.Get(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, text, string(e.Value()))
		}
	}
}

// DT-107: reopening keeps the records of every state byte for byte.
func TestDT107RecordsSurviveARestart(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s := openStore(t, env)
	for i, st := range task.States {
		r := record(t, task.DeliveryID(fmt.Sprintf("g%d", i)))
		r.State = st
		_, err := s.Create(t.Context(), r)
		require.NoError(t, err)
	}
	before := values(t, env)
	require.Len(t, before, len(task.States))
	env.Restart()
	require.Equal(t, before, values(t, env))
	s = openStore(t, env)
	for i, st := range task.States {
		r, rev, err := s.Get(t.Context(), 7, record(t, task.DeliveryID(fmt.Sprintf("g%d", i))).ID)
		require.NoError(t, err)
		require.Equal(t, st, r.State)
		_, err = s.Update(t.Context(), r, rev)
		require.NoError(t, err)
	}
	require.Equal(t, before, values(t, env), "read and written back it is the same text")
}

func values(t testing.TB, env *natstest.Env) map[string]string {
	t.Helper()
	bucket, err := env.JS.KeyValue(t.Context(), kv.BucketState)
	require.NoError(t, err)
	w, err := bucket.WatchAll(t.Context(), jetstream.IgnoreDeletes())
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Stop()) }()
	out := map[string]string{}
	for e := range w.Updates() {
		if e == nil {
			return out
		}
		out[e.Key()] = string(e.Value())
	}
	return out
}

func TestPointerMovesByCAS(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, ctx := openStore(t, env), t.Context()
	k := task.SupersedeKey{InstallationID: 7, RepoID: 11, Number: 5, FamiliarID: "fam"}
	p, rev, err := s.Pointer(ctx, k)
	require.NoError(t, err)
	require.Nil(t, p)
	require.Zero(t, rev)
	want := task.Pointer{V: 1, Task: "t1", Head: "A", Order: task.Order{UpdatedAt: noon, Seq: 1}, Older: []string{"X"}}
	require.NoError(t, s.SetPointer(ctx, k, want, 0))
	require.ErrorIs(t, s.SetPointer(ctx, k, want, 0), kv.ErrConflict, "somebody else created it")
	p, rev, err = s.Pointer(ctx, k)
	require.NoError(t, err)
	require.Equal(t, want, *p)
	want.Task = "t2"
	require.NoError(t, s.SetPointer(ctx, k, want, rev))
	require.ErrorIs(t, s.SetPointer(ctx, k, want, rev), kv.ErrConflict)
	k.FamiliarID = "other"
	p, _, err = s.Pointer(ctx, k)
	require.NoError(t, err)
	require.Nil(t, p, "two familiars on one pull are independent")
}

// G44: a body is held by the first delivery id that brought it.
func TestG44SeenBodyIsHeldByTheFirst(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s := openStore(t, env)
	seen := func(source, sum string, id task.DeliveryID) task.DeliveryID {
		t.Helper()
		got, err := s.Seen(t.Context(), source, sum, id, 96*time.Hour)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, task.DeliveryID("g1"), seen("default", "h", "g1"))
	require.Equal(t, task.DeliveryID("g1"), seen("default", "h", "g1"), "admitted again")
	require.Equal(t, task.DeliveryID("g1"), seen("default", "h", "g2"), "a replay")
	require.Equal(t, task.DeliveryID("g3"), seen("default", "other", "g3"))
	require.Equal(t, task.DeliveryID("g4"), seen("ghes", "h", "g4"))
	// A lost answer: the claim is found to be the own one.
	s.SetHooks(&kv.Hooks{After: func(context.Context, string, string) error { return kv.ErrUnknown }})
	_, err := s.Seen(t.Context(), "default", "lost", "g5", time.Hour)
	require.ErrorIs(t, err, kv.ErrUnknown)
	s.SetHooks(nil)
	require.Equal(t, task.DeliveryID("g5"), seen("default", "lost", "g5"))
}

func TestBeatsAndProbe(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, b := openStore(t, env), openBucket(t, env)
	one, err := s.Beat(t.Context(), "boot", "name")
	require.NoError(t, err)
	two, err := s.Beat(t.Context(), "boot", "name")
	require.NoError(t, err)
	require.Greater(t, two, one)
	e, err := b.Get(t.Context(), "worker.boot")
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"name":"name"}`, string(e.Value))
	stream, err := env.JS.Stream(t.Context(), kv.StreamState)
	require.NoError(t, err)
	m, err := stream.GetMsg(t.Context(), two)
	require.NoError(t, err)
	require.Equal(t, "1m30s", m.Header.Get("Nats-TTL"))
	require.NoError(t, s.EndBeats(t.Context(), "boot"))
	_, err = b.Get(t.Context(), "worker.boot")
	require.ErrorIs(t, err, kv.ErrNotFound)
	require.NoError(t, s.Probe(t.Context(), "boot"))
	require.NoError(t, env.JS.DeleteStream(t.Context(), kv.StreamState))
	require.Error(t, s.Probe(t.Context(), "boot"))
}
