package githubapp

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

// socket is a short path: a socket's has 107 bytes.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "s")
}

// TestG41ALongRunFetchesFreshTokens over 75 minutes: each token that the run
// gets has time left, and is known for redaction before the run has it.
func TestG41ALongRunFetchesFreshTokens(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	known := redact.New()
	path := socket(t)
	b, err := NewTokenBroker(BrokerOptions{
		Path: path, Issued: func(s redact.Secret) { known.Add(s.Reveal()) },
		Token: func(ctx context.Context) (Token, error) { return k.client.TokenFor(ctx, k.repo, Agent, 30*time.Minute) },
	})
	require.NoError(t, err)
	var seen []redact.Secret
	for range 3 {
		got, err := FetchToken(t.Context(), path)
		require.NoError(t, err)
		require.GreaterOrEqual(t, got.ExpiresAt.Sub(k.clock.Now()), 30*time.Minute)
		require.True(t, known.Contains(got.Value.Reveal()))
		require.NotContains(t, seen, got.Value)
		seen = append(seen, got.Value)
		k.clock.Advance(75 * time.Minute)
	}
	require.Equal(t, map[string]string{"contents": "write", "metadata": "read"}, k.Grants()[0].Permissions)

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "only the run's user")
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.NoFileExists(t, path)
	_, err = FetchToken(t.Context(), path)
	require.Error(t, err)
}

// TestABrokerSaysWhyThereIsNoToken without a secret in it.
func TestABrokerSaysWhyThereIsNoToken(t *testing.T) {
	t.Parallel()
	path := socket(t)
	var fail error
	b, err := NewTokenBroker(BrokerOptions{Path: path, Token: func(context.Context) (Token, error) { return Token{}, fail }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	fail = &RateLimitError{Scope: Primary, Until: time.Unix(0, 0)}
	_, err = FetchToken(t.Context(), path)
	require.ErrorContains(t, err, "429: primary rate limit of github until 1970")
	fail = errors.New("no installation")
	_, err = FetchToken(t.Context(), path)
	require.ErrorContains(t, err, "502: no installation")
	_, err = NewTokenBroker(BrokerOptions{Path: path, Token: b.o.Token})
	require.Error(t, err, "a socket has one broker")
	_, err = NewTokenBroker(BrokerOptions{Path: path})
	require.Error(t, err)
}

// TestABrokerClosesUnderUse: what waits for a token is ended with it.
func TestABrokerClosesUnderUse(t *testing.T) {
	t.Parallel()
	path := socket(t)
	asked := make(chan struct{}, 4)
	b, err := NewTokenBroker(BrokerOptions{Path: path, Token: func(ctx context.Context) (Token, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return Token{}, ctx.Err()
	}})
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := FetchToken(t.Context(), path); err == nil {
				t.Error("there is no token")
			}
		})
	}
	for range 4 {
		<-asked
	}
	for range 10 {
		all.Go(func() { _ = b.Close() })
	}
	all.Wait()
}

// TestOtherProtocolsOnTheSocketGetNothing.
func TestOtherProtocolsOnTheSocketGetNothing(t *testing.T) {
	t.Parallel()
	path := socket(t)
	b, err := NewTokenBroker(BrokerOptions{Path: path, Token: func(context.Context) (Token, error) { return Token{Value: "secret-token"}, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	for _, text := range []string{"POST /token HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "hello\r\n\r\n"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
		require.NoError(t, err)
		_, err = conn.Write([]byte(text))
		require.NoError(t, err)
		buf := make([]byte, 4096)
		n, _ := conn.Read(buf)
		require.NotContains(t, string(buf[:n]), "secret-token")
		require.NoError(t, conn.Close())
	}
}
