package executor

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

// shortDir is a folder in which a socket's path is short enough.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// nothing is a broker that serves nothing.
func nothing(string, int, func(redact.Secret)) (io.Closer, error) { return closer(nil), nil }

type closer func() error

// Close implements io.Closer.
func (c closer) Close() error {
	if c == nil {
		return nil
	}
	return c()
}

// TestG41TheBrokerLivesAsLongAsTheCommand, in the attempt's own folder, and
// what it hands out is redacted from then on.
func TestG41TheBrokerLivesAsLongAsTheCommand(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	e := newExecutor(t, func(c *Config) { c.WorkspaceDir = dir })
	var at string
	closed := false
	j := job(`cat "$BELAY_TOKEN_SOCKET"; ` + writes(good, 0))
	j.Broker = func(path string, uid int, learn func(redact.Secret)) (io.Closer, error) {
		at = path
		require.Zero(t, uid)
		learn("a-fresh-token")
		require.NoError(t, os.WriteFile(path, []byte("got a-fresh-token"), 0o600))
		return closer(func() error {
			closed = true
			require.FileExists(t, path, "the folder outlives it")
			return nil
		}), nil
	}
	r := e.Run(t.Context(), j)
	require.Equal(t, Done, r.Class, r.Detail)
	require.Equal(t, "got [redacted-token]", strings.TrimSpace(r.Tail))
	require.Equal(t, filepath.Join(e.workspacePath(j.Task.ID, 1), "token.sock"), at)
	require.True(t, closed)
	require.NoFileExists(t, at)

	j.Broker = func(string, int, func(redact.Secret)) (io.Closer, error) { return nil, errors.New("no room") }
	r = e.Run(t.Context(), j)
	require.ErrorContains(t, r.Err, "open token socket: no room")

	e = newExecutor(t, func(c *Config) { c.WorkspaceDir = filepath.Join(dir, strings.Repeat("x", 100)) })
	j.Broker = nothing
	j.Familiar.Command[2] = `echo "socket=$BELAY_TOKEN_SOCKET"`
	require.Equal(t, "socket=\n", e.Run(t.Context(), j).Tail, "no path that cannot be opened")
}
