package kv_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
)

var (
	headA = strings.Repeat("a", 40)
	headB = strings.Repeat("b", 40)
)

func openReleases(t *testing.T, env *natstest.Env) *kv.ReleaseStore {
	t.Helper()
	s, err := kv.OpenReleaseStore(t.Context(), env.JS)
	require.NoError(t, err)
	return s
}

// OT-92: a release is of one head, and void for every other.
func TestOT92ReleaseIsOfOneHead(t *testing.T) {
	t.Parallel()
	s := openReleases(t, natstest.New(t))
	got, err := s.Find(t.Context(), 11, 5)
	require.NoError(t, err)
	require.Nil(t, got)
	require.False(t, got.Covers(headA), "none is no consent")

	r, existing, err := s.Approve(t.Context(), 11, 5, headA, ann, noon.Time)
	require.NoError(t, err)
	require.False(t, existing)
	require.Equal(t, kv.Release{V: 1, Head: headA, Owner: ann, At: noon}, r)
	got, err = s.Find(t.Context(), 11, 5)
	require.NoError(t, err)
	require.Equal(t, &r, got)
	require.True(t, got.Covers(headA))
	require.False(t, got.Covers(headB), "a new head voids it")
	require.False(t, got.Covers(""))

	again, existing, err := s.Approve(t.Context(), 11, 5, headA, ann, noon.Add(time.Hour))
	require.NoError(t, err)
	require.True(t, existing)
	require.Equal(t, r, again, "a repeat changes nothing")
	r, existing, err = s.Approve(t.Context(), 11, 5, headB, ann, noon.Add(time.Hour))
	require.NoError(t, err)
	require.False(t, existing)
	require.True(t, r.Covers(headB))
	require.False(t, r.Covers(headA))
	for _, other := range []struct {
		repo   int64
		number int
	}{{12, 5}, {11, 6}} {
		got, err = s.Find(t.Context(), other.repo, other.number)
		require.NoError(t, err)
		require.Nil(t, got)
	}
}

// Of two that approve different heads at once, one wins and the other is told.
func TestOT92ReleaseHasNoLastWriter(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		env := natstest.New(t)
		s := openReleases(t, env)
		if !first {
			_, _, err := s.Approve(t.Context(), 11, 5, strings.Repeat("c", 40), ann, noon.Time)
			require.NoError(t, err)
		}
		// Both are held between their read and their write.
		var both sync.WaitGroup
		both.Add(2)
		hooks := &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
			if op == "create" || op == "update" {
				both.Done()
				both.Wait()
			}
			return nil
		}}
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, head := range []string{headA, headB} {
			own := openReleases(t, env)
			own.SetHooks(hooks)
			wg.Go(func() { _, _, errs[i] = own.Approve(t.Context(), 11, 5, head, ann, noon.Time) })
		}
		wg.Wait()
		winner, head := 0, headA
		if errs[0] != nil {
			winner, head = 1, headB
		}
		require.NoError(t, errs[winner])
		require.ErrorIs(t, errs[1-winner], kv.ErrConflict)
		got, err := s.Find(t.Context(), 11, 5)
		require.NoError(t, err)
		require.True(t, got.Covers(head))
	}
}

// A release of a newer belay is left alone.
func TestReleaseOfANewerVersion(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	_, err := openBucket(t, env).Create(t.Context(), kv.ReleaseKey(11, 5), []byte(`{"v":99}`), 0)
	require.NoError(t, err)
	s := openReleases(t, env)
	_, err = s.Find(t.Context(), 11, 5)
	require.ErrorIs(t, err, kv.ErrNewer)
	_, _, err = s.Approve(t.Context(), 11, 5, headA, ann, time.Now())
	require.True(t, errors.Is(err, kv.ErrNewer), "%v", err)
}
