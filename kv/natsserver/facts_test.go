package natsserver_test

import (
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
)

// The facts about nats-server that this package exists for. A test that fails
// after an update of nats-server says which precaution may go.

// raw starts a nats-server as its own users do.
func raw(t *testing.T, dir string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(patience))
	return s
}

func TestFactNoLockOnStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.True(t, raw(t, dir).JetStreamEnabled())
	require.True(t, raw(t, dir).JetStreamEnabled(), "a second server on the same store")
}

func TestFactParsedConfigTakesSignals(t *testing.T) {
	t.Parallel()
	opts, err := server.ProcessConfigFile(file(t, "port: -1"))
	require.NoError(t, err)
	require.False(t, opts.NoSigs)
}

func TestFactDefaults(t *testing.T) {
	t.Parallel()
	s := raw(t, t.TempDir())
	require.False(t, s.JetStreamConfig().SyncAlways)
	require.Equal(t, 2*time.Minute, s.JetStreamConfig().SyncInterval)
	nc, err := nats.Connect("", nats.InProcessServer(s))
	require.NoError(t, err)
	defer nc.Close()
	require.EqualValues(t, 1<<20, nc.MaxPayload())
}

// Hence the letter b.
func TestFactPasswordOfDigitsIsANumber(t *testing.T) {
	const name = "BELAY_TEST_DIGITS"
	conf := file(t, "authorization { user: belay, password: $"+name+" }")
	t.Setenv(name, "01234567890123456789012345678901")
	_, err := server.ProcessConfigFile(conf)
	require.Error(t, err)
	t.Setenv(name, "b0123456789012345678901234567890")
	opts, err := server.ProcessConfigFile(conf)
	require.NoError(t, err)
	require.Equal(t, os.Getenv(name), opts.Password)
}

// Hence connections are closed before the server.
func TestFactConnectionOutlivesServer(t *testing.T) {
	t.Parallel()
	s := start(t, natsserver.Options{Dir: t.TempDir(), Listen: natsserver.ListenNone})
	nc, _ := connect(t, s)
	changed := nc.StatusChanged(nats.RECONNECTING)
	shutdown(t, s)
	select {
	case <-changed:
	case <-time.After(patience):
		require.Fail(t, "not reconnecting", nc.Status().String())
	}
	nc.Close()
	require.True(t, nc.IsClosed())
}
