package kv_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
)

func openQuota(t *testing.T, env *natstest.Env, now func() time.Time) *kv.Quota {
	t.Helper()
	q, err := kv.OpenQuota(t.Context(), env.JS, now)
	require.NoError(t, err)
	return q
}

// takes takes n times and counts how often it could.
func takes(t *testing.T, q *kv.Quota, n, limit int) (could int) {
	t.Helper()
	for range n {
		_, ok, err := q.Take(t.Context(), 7, limit)
		require.NoError(t, err)
		if ok {
			could++
		}
	}
	return could
}

// DT-96: contenders of two processes, held before their first write and then
// let go together, get exactly what there is.
func TestDT96ExactlyTheLimitIsTaken(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	const contenders, limit = 16, 5
	var held sync.WaitGroup
	held.Add(contenders)
	var arrived atomic.Int32
	hooks := &kv.Hooks{Before: func(context.Context, string, string) error {
		if arrived.Add(1) <= contenders {
			held.Done()
			held.Wait()
		}
		return nil
	}}
	qs := []*kv.Quota{openQuota(t, env, time.Now), openQuota(t, env, time.Now)}
	for _, q := range qs {
		q.SetHooks(hooks)
	}
	var all sync.WaitGroup
	var could atomic.Int32
	for i := range contenders {
		q := qs[i%2]
		all.Go(func() {
			_, ok, err := q.Take(context.Background(), 7, limit)
			if err != nil {
				t.Error(err)
			}
			if ok {
				could.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, limit, could.Load())
	require.Zero(t, takes(t, qs[0], 1, limit))
	_, ok, err := qs[0].Take(t.Context(), 8, limit)
	require.NoError(t, err)
	require.True(t, ok, "another installation has its own")
}

func TestDT96TheDayRolls(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	at := time.Date(2026, 5, 1, 12, 5, 0, 0, time.UTC)
	q := openQuota(t, env, func() time.Time { return at })
	require.Equal(t, 2, takes(t, q, 2, 3))
	at = at.Add(12 * time.Hour)
	require.Equal(t, 1, takes(t, q, 3, 3))
	at = at.Add(12*time.Hour - time.Minute)
	require.Zero(t, takes(t, q, 1, 3), "not a day ago")
	at = at.Add(12 * time.Minute)
	require.Equal(t, 2, takes(t, q, 3, 3), "the first two are")
	at = at.Add(48 * time.Hour)
	require.Equal(t, 3, takes(t, q, 5, 3))
	require.Zero(t, takes(t, q, 1, 1), "a cap that was lowered")
}

func TestDT96GivenBackIsFreeAgain(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	q := openQuota(t, env, time.Now)
	giveBack, ok, err := q.Take(t.Context(), 7, 1)
	require.NoError(t, err)
	require.True(t, ok)
	require.Zero(t, takes(t, q, 1, 1))
	require.NoError(t, giveBack(t.Context()))
	require.Equal(t, 1, takes(t, q, 2, 1))
	require.NoError(t, giveBack(t.Context()))
	require.NoError(t, giveBack(t.Context()), "less than nothing is nothing")
	require.Equal(t, 1, takes(t, q, 2, 1))
}

// A write whose answer is lost may count twice, and never not at all.
func TestDT96LostAnswersCountTooMuch(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	q := openQuota(t, env, time.Now)
	lose := true
	q.SetHooks(&kv.Hooks{After: func(context.Context, string, string) error {
		if lose {
			lose = false
			return kv.ErrUnknown
		}
		return nil
	}})
	require.Equal(t, 1, takes(t, q, 1, 3))
	require.Equal(t, 1, takes(t, q, 5, 3), "one was counted twice")
}

// What cannot be read lets nobody through, and is left alone.
func TestDT96UnreadableCountIsAnError(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	q := openQuota(t, env, time.Now)
	for _, text := range []string{"garbage", `{"v":99,"taken":[]}`} {
		_, err := env.JS.Publish(t.Context(), "$KV.STATE."+kv.QuotaKey(7), []byte(text))
		require.NoError(t, err)
		_, ok, err := q.Take(t.Context(), 7, 100)
		require.Error(t, err)
		require.False(t, ok)
		b, err := kv.OpenBucket(t.Context(), env.JS)
		require.NoError(t, err)
		e, err := b.Get(t.Context(), kv.QuotaKey(7))
		require.NoError(t, err)
		require.Equal(t, text, string(e.Value))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	q.SetHooks(&kv.Hooks{Before: func(_ context.Context, _, key string) error {
		if strings.HasPrefix(key, "quota.") {
			return kv.ErrUnknown
		}
		return nil
	}})
	_, ok, err := q.Take(ctx, 8, 100)
	require.Error(t, err, "a store that does not answer")
	require.False(t, ok)
}

// Nobody knows whether a give-back whose answer is lost was written. It is not
// repeated: given back twice, it would let one through too many.
func TestDT96LostAnswerOfAGiveBackLetsNobodyThrough(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	q := openQuota(t, env, time.Now)
	require.Equal(t, 2, takes(t, q, 2, 3)) // these two stand
	giveBack, ok, err := q.Take(t.Context(), 7, 3)
	require.NoError(t, err)
	require.True(t, ok)
	lose := true
	q.SetHooks(&kv.Hooks{After: func(context.Context, string, string) error {
		if lose {
			lose = false
			return kv.ErrUnknown
		}
		return nil
	}})
	require.ErrorIs(t, giveBack(t.Context()), kv.ErrUnknown)
	require.Equal(t, 1, takes(t, q, 5, 3), "with the two that stand these are three")
}
