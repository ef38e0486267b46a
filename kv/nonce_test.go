package kv_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
)

// A nonce is used up once a key, whoever asks and over restarts.
func TestOT87NonceIsUsedOnce(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, err := kv.OpenNonceStore(t.Context(), env.JS)
	require.NoError(t, err)
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch err := s.Use(t.Context(), "worker", "n-1"); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, kv.ErrExists) && !errors.Is(err, kv.ErrConflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
	require.NoError(t, s.Use(t.Context(), "other", "n-1"), "another key's nonces are its own")
	require.NoError(t, s.Use(t.Context(), "worker", "n-2"))

	bucket, err := env.JS.Stream(t.Context(), kv.StreamState)
	require.NoError(t, err)
	m, err := bucket.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	ttl, err := time.ParseDuration(m.Header.Get("Nats-TTL"))
	require.NoError(t, err)
	require.Equal(t, 11*time.Minute, ttl, "longer than a signature is good for")

	env.Restart()
	s, err = kv.OpenNonceStore(t.Context(), env.JS)
	require.NoError(t, err)
	require.ErrorIs(t, s.Use(t.Context(), "worker", "n-1"), kv.ErrExists)
}
