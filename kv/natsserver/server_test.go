package natsserver_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
)

// patience bounds every wait of these tests; it is only spent by failing ones.
const patience = 30 * time.Second

// start starts a server that the test's end stops.
func start(t testing.TB, o natsserver.Options) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { shutdown(t, s) })
	return s
}

// shutdown stops a server.
func shutdown(t testing.TB, s *natsserver.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
}

// connect connects in-process.
func connect(t testing.TB, s *natsserver.Server) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect("", s.ConnectOptions()...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return nc, js
}

// file writes a nats.conf.
func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestBuiltInConfiguration(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, natsserver.Options{Dir: dir, Listen: natsserver.ListenRandom, Version: "1.2.3"})

	nc, js := connect(t, s)
	require.EqualValues(t, 8<<20, nc.MaxPayload())
	require.Equal(t, "belay", s.Name())
	require.Equal(t, "belay", nc.ConnectedServerName())
	_, err := js.AccountInfo(t.Context())
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(dir, "jetstream"))

	_, err = nats.Connect(s.ClientURL())
	require.ErrorIs(t, err, nats.ErrAuthorization)
	other, err := nats.Connect(s.ClientURL(), nats.UserInfo("belay", s.Password()))
	require.NoError(t, err)
	other.Close()

	resp, err := http.Get(s.MonitorURL() + "/varz")
	require.NoError(t, err)
	defer resp.Body.Close()
	varz, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(varz), `"belay:1.2.3"`)
	require.Contains(t, string(varz), `"sync_always": true`)
}

// J01: without sync_interval: always a power cut loses acknowledged messages.
func TestSyncAlways(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		want bool
	}{
		"built in":         {"", true},
		"file says always": {"jetstream { sync_interval: always }", true},
		"file is silent":   {"jetstream: enabled", true},
		"file says 2m":     {"jetstream { sync_interval: 2m }", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := natsserver.Options{Dir: t.TempDir(), Listen: natsserver.ListenNone}
			if c.file != "" {
				o.ConfigFile = file(t, c.file)
			}
			require.Equal(t, c.want, start(t, o).SyncAlways())
		})
	}
}

func TestPrivateFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	o := natsserver.Options{Dir: dir, Listen: natsserver.ListenNone}
	s := start(t, o)
	mode := func(name string) os.FileMode {
		fi, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		return fi.Mode().Perm()
	}
	require.Equal(t, os.FileMode(0o700), mode("."))
	require.Equal(t, os.FileMode(0o600), mode("nats.password"))
	require.Regexp(t, regexp.MustCompile(`^b[0-9a-f]{32}$`), s.Password())
	kept, err := os.ReadFile(filepath.Join(dir, "nats.password"))
	require.NoError(t, err)
	require.Equal(t, s.Password(), string(kept))

	shutdown(t, s)
	require.Equal(t, s.Password(), start(t, o).Password(), "made once")
	require.Empty(t, os.Getenv("BELAY_NATS_PASSWORD"), "tasks inherit the environment")
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left, "temporary files")
}

func TestUserFiles(t *testing.T) {
	t.Parallel()
	const js = "\njetstream { sync_interval: always }\n"
	for name, text := range map[string]string{
		"no authorization":  "host: 127.0.0.1\nport: -1" + js,
		"belay's password":  "authorization { user: belay, password: $BELAY_NATS_PASSWORD }" + js,
		"another user":      "authorization { user: ops, password: hunter2hunter2 }" + js,
		"token":             "authorization { token: hunter2hunter2 }" + js,
		"users":             "authorization { users: [{user: ops, password: x}, {user: belay, password: $BELAY_NATS_PASSWORD}] }" + js,
		"no_auth_user":      "authorization { users: [{user: ops, password: x}] }\nno_auth_user: ops" + js,
		"user and TLS free": "server_name: mine\nmax_payload: 1MB" + js,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, natsserver.Options{Dir: t.TempDir(), ConfigFile: file(t, text), Listen: natsserver.ListenNone})
			_, js := connect(t, s)
			_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
			require.NoError(t, err)
		})
	}
}

func TestListenNone(t *testing.T) {
	t.Parallel()
	s := start(t, natsserver.Options{Dir: t.TempDir(), Listen: natsserver.ListenNone})
	require.Empty(t, s.ClientURL())
	require.Empty(t, s.MonitorURL())
}

func TestStoreDirOfFileMayAgree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := file(t, "jetstream { store_dir: '"+dir+"/' }")
	start(t, natsserver.Options{Dir: dir, ConfigFile: conf, Listen: natsserver.ListenNone})
	require.DirExists(t, filepath.Join(dir, "jetstream"))
}

func TestShutdownFromManyGoroutines(t *testing.T) {
	t.Parallel()
	o := natsserver.Options{Dir: t.TempDir(), Listen: natsserver.ListenRandom}
	for range 5 {
		s := start(t, o)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { shutdown(t, s) })
		}
		wg.Wait()
	}
}

func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, natsserver.Options{Dir: t.TempDir(), Listen: natsserver.ListenNone})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
}

// A start in ten goroutines on one directory: one of them gets it.
func TestOneServerPerDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	var started []*natsserver.Server
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir, Listen: natsserver.ListenNone})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				started = append(started, s)
				return
			}
			require.ErrorIs(t, err, natsserver.ErrDirTaken)
		})
	}
	wg.Wait()
	require.Len(t, started, 1)
	shutdown(t, started[0])
}
