package natsserver_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/natstest"
)

// refused starts a server that must not start, and returns the error: of the
// kind, and one line.
func refused(t *testing.T, kind error, o natsserver.Options) error {
	t.Helper()
	_, err := natsserver.Start(t.Context(), o)
	require.ErrorIs(t, err, kind)
	require.NotContains(t, err.Error(), "\n")
	return err
}

// held opens a port of 127.0.0.1 for the length of the test.
func held(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	const own = "in a nats.conf of your own (--nats-config, or `config` under [nats])"
	for name, c := range map[string]struct{ conf, want string }{
		"client": {
			"host: 127.0.0.1\nport: %d",
			"nats client port 127.0.0.1:%d: address already in use: stop the process that uses it, or change `port` (or `listen`) " + own,
		},
		"monitoring": {
			"listen: 127.0.0.1:-1\nhttp: 127.0.0.1:%d",
			"nats monitoring port 127.0.0.1:%d: address already in use: stop the process that uses it, or change `http` " + own,
		},
		"cluster": {
			"server_name: a\nlisten: 127.0.0.1:-1\ncluster { name: c, listen: '127.0.0.1:%d' }",
			"nats cluster port 127.0.0.1:%d: address already in use: stop the process that uses it, or change `port` (or `listen`) of `cluster` " + own,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := held(t)
			o := natsserver.Options{Dir: t.TempDir(), ConfigFile: file(t, fmt.Sprintf(c.conf, port)+"\njetstream: enabled")}
			err := refused(t, natsserver.ErrPortTaken, o)
			require.EqualError(t, err, fmt.Sprintf(c.want, port))
			require.ErrorIs(t, err, syscall.EADDRINUSE)

			o.ConfigFile, o.Listen = "", natsserver.ListenNone
			start(t, o) // the failed start gave the directory back
		})
	}
}

func TestForeignAddress(t *testing.T) {
	t.Parallel()
	err := refused(t, natsserver.ErrConfig, natsserver.Options{
		Dir: t.TempDir(), ConfigFile: file(t, "listen: 192.0.2.1:4222\njetstream: enabled"),
	})
	require.EqualError(t, err, "nats client port 192.0.2.1:4222: cannot assign requested address: "+
		"change `port` (or `listen`) in a nats.conf of your own (--nats-config, or `config` under [nats])")
}

// nats-server reports what it only finds while starting as a fatal error, at
// which its own binary exits.
func TestFatalErrorOfServerIsReturned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	err := refused(t, natsserver.ErrStore, natsserver.Options{
		Dir: dir, ConfigFile: file(t, "listen: 127.0.0.1:-1\npid_file: /proc/none/pid\njetstream: enabled"),
	})
	require.EqualError(t, err, "nats-server did not start on "+dir+
		"/jetstream: Could not write pidfile: open /proc/none/pid: no such file or directory")
	start(t, natsserver.Options{Dir: dir, Listen: natsserver.ListenNone})
}

// A belay that was killed while it started a command leaves its lock to that
// until its exec: a start right after the kill waits for it.
func TestLockOfAKilledBelayIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
	time.AfterFunc(200*time.Millisecond, func() { _ = held.Close() })
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir, Listen: natsserver.ListenNone})
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(t.Context()))
}

func TestDirTaken(t *testing.T) {
	t.Parallel()
	o := natsserver.Options{Dir: t.TempDir(), Listen: natsserver.ListenNone}
	s := start(t, o)
	require.EqualError(t, refused(t, natsserver.ErrDirTaken, o), fmt.Sprintf(
		"storage.dir %s is in use by another belay (process %d): stop that one, or set another storage.dir", o.Dir, os.Getpid()))
	shutdown(t, s)
	start(t, o)
}

func TestDirUnusable(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	dir := filepath.Join(plain, "data")
	err := refused(t, natsserver.ErrDisk, natsserver.Options{Dir: dir})
	require.EqualError(t, err, "storage.dir "+dir+" cannot be written: mkdir "+plain+
		": not a directory: check its path and permissions, or set another storage.dir")

	err = refused(t, natsserver.ErrConfig, natsserver.Options{})
	require.EqualError(t, err, "storage.dir is empty: set it to a directory for belay's data")
}

func TestPasswordDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "nats.password")
	require.NoError(t, os.WriteFile(path, []byte("12345678"), 0o600))
	err := refused(t, natsserver.ErrConfig, natsserver.Options{Dir: dir})
	require.EqualError(t, err, path+" does not hold a password that belay made (b and 32 hex digits): remove the file, and belay makes a new one")
}

func TestStoreUnusable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600))
	err := refused(t, natsserver.ErrStore, natsserver.Options{Dir: dir, Listen: natsserver.ListenNone})
	require.ErrorContains(t, err, "nats-server did not start on "+dir+"/jetstream: Can't start JetStream: ")
}

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	const dir = "DIR"
	for name, c := range map[string]struct{ conf, want string }{
		"no JetStream": {
			"port: -1",
			"FILE does not enable JetStream: add `jetstream { sync_interval: always }`",
		},
		"other store": {
			"jetstream { store_dir: /elsewhere }",
			"FILE sets store_dir to /elsewhere but storage.dir is DIR: remove store_dir from the file, or set storage.dir to that directory",
		},
		"unknown key": {
			"jetstream: enabled\nprot: 4222",
			`nats configuration: FILE:2:1: unknown field "prot"`,
		},
		"syntax": {
			"jetstream {",
			"nats configuration: FILE: ",
		},
		"hashed password": {
			"jetstream: enabled\nauthorization { user: ops, password: '$2a$11$W2zko751KUvVy59mUTWmpOdWjpEm5qhcCZRd05GjI/sSOT.xtiHyG' }",
			"FILE has no user that belay can log in as: add {user: belay, password: $BELAY_NATS_PASSWORD} to its users",
		},
		"other users": {
			"jetstream: enabled\nauthorization { users: [{user: belay, password: mine}] }",
			"FILE has no user that belay can log in as: add {user: belay, password: $BELAY_NATS_PASSWORD} to its users",
		},
		"cluster without a name": {
			"jetstream: enabled\nlisten: 127.0.0.1:-1\ncluster { name: c, listen: '127.0.0.1:-1' }",
			"FILE cannot work: jetstream cluster requires `server_name` to be set",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := natsserver.Options{Dir: t.TempDir(), ConfigFile: file(t, c.conf), Listen: natsserver.ListenRandom}
			err := refused(t, natsserver.ErrConfig, o)
			want := strings.NewReplacer("FILE", o.ConfigFile, dir, o.Dir).Replace(c.want)
			if strings.HasSuffix(want, ": ") {
				require.ErrorContains(t, err, want)
				return
			}
			require.EqualError(t, err, want)
		})
	}
}

func TestConfigFileMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.conf")
	err := refused(t, natsserver.ErrConfig, natsserver.Options{Dir: t.TempDir(), ConfigFile: path})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.EqualError(t, err, "nats configuration: open "+path+": no such file or directory: check --nats-config (or `config` under [nats])")
}

// hang makes a nats.conf at which nats-server's Start on dir hangs until the
// test's end: it writes its process id to a pipe that nobody reads.
func hang(t *testing.T, dir string) string {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	t.Cleanup(func() {
		f, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0)
		require.NoError(t, err)
		defer f.Close()
		// The server now starts, and stops; until then it writes to dir.
		lock, err := os.Open(filepath.Join(dir, "lock"))
		require.NoError(t, err)
		defer lock.Close()
		natstest.Eventually(t, "the server to leave "+dir, func() bool {
			return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
		})
	})
	return file(t, "listen: 127.0.0.1:-1\npid_file: '"+pipe+"'\njetstream: enabled")
}

// A damaged record can keep nats-server's Start busy for ever.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := natsserver.Options{Dir: dir, ConfigFile: hang(t, dir), StartTimeout: 50 * time.Millisecond}
	err := refused(t, natsserver.ErrStore, o)
	require.EqualError(t, err, "nats-server did not come up within 50ms on "+dir+
		"/jetstream: the store there may be damaged; move it away to start empty, or restore a backup")
	refused(t, natsserver.ErrDirTaken, o) // what hangs may still write
}

func TestStartIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	dir := t.TempDir()
	_, err := natsserver.Start(ctx, natsserver.Options{Dir: dir, ConfigFile: hang(t, dir)})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, natsserver.ErrStore)
	require.EqualError(t, err, "start nats-server: context deadline exceeded")
}
