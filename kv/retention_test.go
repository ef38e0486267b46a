package kv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// acceptIgnored stores ignored deliveries of these ids.
func acceptIgnored(t *testing.T, l *kv.DeliveryLog, ids ...task.DeliveryID) {
	t.Helper()
	for _, id := range ids {
		_, err := l.Accept(context.Background(), ignored(id, task.Ping))
		require.NoError(t, err)
	}
}

func TestSeqSince(t *testing.T) {
	t.Parallel()
	l := openLog(t, natstest.New(t).JS)
	future := time.Now().Add(time.Hour)
	seq, err := l.SeqSince(t.Context(), future)
	require.NoError(t, err)
	require.Equal(t, uint64(1), seq, "an empty log")
	acceptIgnored(t, l, "a", "b")
	seq, err = l.SeqSince(t.Context(), time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Equal(t, uint64(1), seq)
	seq, err = l.SeqSince(t.Context(), future)
	require.NoError(t, err)
	require.Equal(t, uint64(3), seq, "all are older")
}

// What retention purges is below the answer: a delivery that comes while it is
// found out must not be.
func TestSeqSinceIsNotAboveWhatComesMeanwhile(t *testing.T) {
	t.Parallel()
	l := openLog(t, natstest.New(t).JS)
	acceptIgnored(t, l, "a")
	l.Hooks = &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
		if op == "since" {
			acceptIgnored(t, l, "b")
		}
		return nil
	}}
	seq, err := l.SeqSince(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.NoError(t, l.PurgeBelow(t.Context(), seq))
	_, err = l.Get(t.Context(), 1)
	require.ErrorIs(t, err, kv.ErrNotFound)
	_, err = l.Get(t.Context(), 2)
	require.NoError(t, err)
}

// A look that breaks off has found nothing out: taken for an empty log it
// would let retention purge everything.
func TestSeqSinceThatBreaksOffIsAnError(t *testing.T) {
	t.Parallel()
	for name, breakOff := range map[string]func(*natstest.Env) error{
		"connection lost": func(e *natstest.Env) error { e.NC.Close(); return nil },
		"stream deleted":  func(e *natstest.Env) error { return e.JS.DeleteStream(context.Background(), kv.StreamWebhooks) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			l := openLog(t, env.JS)
			acceptIgnored(t, l, "a")
			l.Hooks = &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
				if op != "since" {
					return errors.New("unexpected step " + op)
				}
				return breakOff(env)
			}}
			_, err := l.SeqSince(t.Context(), time.Now().Add(-time.Hour))
			require.Error(t, err)
		})
	}
}
