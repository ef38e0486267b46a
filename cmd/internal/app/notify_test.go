package app

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// J19: a Type=notify service asks for time while it starts, says when it is
// ready, and says that it stops.
func TestJ19ServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	next := func() string {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		buf := make([]byte, 1024)
		n, err := conn.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
	r := newRig(t, func(r *rig) { r.opts.NotifySocket = path }).start()
	var seen []string
	for len(seen) == 0 || seen[len(seen)-1] != "READY=1" {
		seen = append(seen, next())
	}
	require.True(t, strings.HasPrefix(seen[0], "EXTEND_TIMEOUT_USEC="), seen[0])
	r.stop()
	got := next()
	for strings.HasPrefix(got, "EXTEND_TIMEOUT_USEC=") {
		got = next()
	}
	require.True(t, strings.HasPrefix(got, "STOPPING=1\nEXTEND_TIMEOUT_USEC="), got)
}

func TestNoServiceManagerIsNoError(t *testing.T) {
	t.Parallel()
	require.NoError(t, notifier{}.send(notifyReady))
	require.Error(t, notifier{socket: filepath.Join(t.TempDir(), "none")}.send(notifyReady))
}
