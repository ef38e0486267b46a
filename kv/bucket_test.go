package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
)

func TestBucketCreateUpdateGet(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b, ctx := openBucket(t, env), t.Context()
	_, err := b.Get(ctx, "lease.a")
	require.ErrorIs(t, err, kv.ErrNotFound)
	_, err = b.Update(ctx, "lease.a", []byte("0"), 7, 0)
	require.ErrorIs(t, err, kv.ErrConflict)
	rev, err := b.Create(ctx, "lease.a", []byte("1"), 0)
	require.NoError(t, err)
	_, err = b.Create(ctx, "lease.a", []byte("2"), 0)
	require.ErrorIs(t, err, kv.ErrExists)
	require.NotErrorIs(t, err, kv.ErrConflict)
	_, err = b.Update(ctx, "lease.a", []byte("3"), rev+1, 0)
	require.ErrorIs(t, err, kv.ErrConflict)
	next, err := b.Update(ctx, "lease.a", []byte("3"), rev, 0)
	require.NoError(t, err)
	e, err := b.Get(ctx, "lease.a")
	require.NoError(t, err)
	require.Equal(t, kv.Entry{Value: []byte("3"), Revision: next}, e)
	require.Greater(t, next, rev)
}

func TestBucketPurgeAndCreateAgain(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b, ctx := openBucket(t, env), t.Context()
	rev, err := b.Create(ctx, "lease.a", []byte("1"), 0)
	require.NoError(t, err)
	require.ErrorIs(t, b.Purge(ctx, "lease.a", rev+5), kv.ErrConflict)
	require.NoError(t, b.Purge(ctx, "lease.a", rev))
	_, err = b.Get(ctx, "lease.a")
	require.ErrorIs(t, err, kv.ErrNotFound, "a marker is no value")
	require.EqualValues(t, 1, messages(t, env, kv.StreamState), "the marker alone is kept")
	rev, err = b.Create(ctx, "lease.a", []byte("2"), 0)
	require.NoError(t, err, "create on top of the marker")
	e, err := b.Get(ctx, "lease.a")
	require.NoError(t, err)
	require.Equal(t, kv.Entry{Value: []byte("2"), Revision: rev}, e)
	require.NoError(t, b.Purge(ctx, "lease.a", 0))
	require.NoError(t, b.Purge(ctx, "lease.never", 0))
}

func TestBucketTTLExpires(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b, ctx := openBucket(t, env), t.Context()
	_, err := b.Create(ctx, "seen.default.a", []byte("1"), time.Second)
	require.NoError(t, err)
	_, err = b.Create(ctx, "seen.default.a", []byte("2"), time.Second)
	require.ErrorIs(t, err, kv.ErrExists)
	_, err = b.Create(ctx, "seen.default.keep", []byte("1"), 96*time.Hour)
	require.NoError(t, err)
	natstest.Eventually(t, "the key to expire", func() bool {
		_, err := b.Get(ctx, "seen.default.a")
		return errors.Is(err, kv.ErrNotFound)
	})
	_, err = b.Create(ctx, "seen.default.a", []byte("3"), time.Second)
	require.NoError(t, err)
	_, err = b.Get(ctx, "seen.default.keep")
	require.NoError(t, err)
}

// J15: of eight racers on one Create, or one Update, one wins.
func TestJ15OneOfEightRacersWins(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	buckets := make([]*kv.Bucket, 8)
	for i := range buckets {
		buckets[i] = openBucket(t, env)
	}
	race := func(write func(i int) error, lost error) {
		t.Helper()
		var wg sync.WaitGroup
		start, errs := make(chan struct{}), make([]error, len(buckets))
		for i, b := range buckets {
			ready := make(chan struct{})
			b.Hooks = &kv.Hooks{Before: func(context.Context, string, string) error { // all are held before their write
				select {
				case <-ready:
				default:
					close(ready)
				}
				<-start
				return nil
			}}
			wg.Go(func() { errs[i] = write(i) })
			<-ready
		}
		close(start)
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				require.ErrorIs(t, err, lost)
			}
		}
		require.Equal(t, 1, won)
	}
	for round := range 20 {
		key := fmt.Sprintf("lease.%d", round)
		race(func(i int) error {
			_, err := buckets[i].Create(context.Background(), key, []byte{byte(i)}, 0)
			return err
		}, kv.ErrExists)
		e, err := openBucket(t, env).Get(t.Context(), key)
		require.NoError(t, err)
		race(func(i int) error {
			_, err := buckets[i].Update(context.Background(), key, []byte{byte(i)}, e.Revision, 0)
			return err
		}, kv.ErrConflict)
	}
}

func TestBucketHooks(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b, ctx := openBucket(t, env), t.Context()
	boom := errors.New("boom")
	b.Hooks = &kv.Hooks{Before: func(_ context.Context, op, key string) error { return fmt.Errorf("%s %s: %w", op, key, boom) }}
	_, err := b.Create(ctx, "lease.a", nil, 0)
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, "create lease.a")
	_, err = b.Get(ctx, "lease.a")
	require.ErrorIs(t, err, boom)
	require.ErrorIs(t, b.Purge(ctx, "lease.a", 0), boom)
	require.Zero(t, messages(t, env, kv.StreamState), "nothing was written")
	b.Hooks = &kv.Hooks{After: func(context.Context, string, string) error { return kv.ErrUnknown }}
	_, err = b.Create(ctx, "lease.a", []byte("1"), 0)
	require.ErrorIs(t, err, kv.ErrUnknown)
	b.Hooks = nil
	_, err = b.Get(ctx, "lease.a")
	require.NoError(t, err, "it was written though its answer was lost")
}

// DT-17: every call has a deadline, also when nobody answers.
func TestDT17CallsEndWithoutAServer(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := openBucket(t, env)
	require.NoError(t, env.JS.DeleteStream(t.Context(), kv.StreamState))
	_, err := b.Create(t.Context(), "lease.a", nil, 0)
	require.ErrorIs(t, err, kv.ErrUnknown)
	_, err = b.Get(t.Context(), "lease.a")
	require.ErrorIs(t, err, kv.ErrUnknown)
	_, err = kv.OpenBucket(t.Context(), env.JS)
	require.ErrorIs(t, err, kv.ErrUnknown)
}

func TestBucketTooLarge(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	_, err := openBucket(t, env).Create(t.Context(), "lease.a", make([]byte, 9<<20), 0)
	require.ErrorIs(t, err, kv.ErrTooLarge)
}
