package app

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
)

// refusals are starts that fail: what is wrong and what the one line says.
var refusals = map[string]struct {
	wrong func(t *testing.T, r *rig)
	want  string
}{
	"port taken": {
		func(t *testing.T, r *rig) { r.cfg.Server.Listen = taken(t) }, `^listen on 127\.0\.0\.1:\d+: .*address already in use; next: change \[server\] listen$`,
	},
	"admin port taken": {
		func(t *testing.T, r *rig) { r.cfg.Server.AdminListen = taken(t) }, `^listen on 127\.0\.0\.1:\d+: .*address already in use; next: change \[server\] admin_listen$`,
	},
	"open to the network": {
		func(_ *testing.T, r *rig) { r.cfg.Server.Listen = "0.0.0.0:0" }, `\[api\] mode = "open".*allow_public`,
	},
	"NATS port taken": {
		func(t *testing.T, r *rig) {
			r.opts.NATSListen = natsserver.ListenConfigured
			r.natsConf("listen: \"" + taken(t) + "\"\njetstream {}\n")
		}, "^nats client port .*address already in use.*`port` \\(or `listen`\\).*--nats-config",
	},
	"broken nats.conf": {
		func(_ *testing.T, r *rig) { r.natsConf("jetstream {\nport: ]\n") }, `^nats configuration: .*nats\.conf`,
	},
	"no nats.conf": {
		func(_ *testing.T, r *rig) { r.cfg.NATS.Config = "nowhere.conf" }, `nowhere\.conf.*--nats-config`,
	},
	"directory is a file": {
		func(_ *testing.T, r *rig) { r.cfg.Storage.Dir = r.file("plain", "") }, `^storage\.dir .*plain.*not a directory`,
	},
	"creds file missing": {
		func(_ *testing.T, r *rig) { r.cfg.NATS.URL, r.cfg.NATS.CredsFile = "nats://127.0.0.1:1", "no.creds" },
		`^read \[nats\] creds_file: .*no such file.*next: correct the path$`,
	},
	"unknown user to run as": {
		func(_ *testing.T, r *rig) { r.cfg.Worker.RunAs = "nobody-of-that-name" }, `nobody-of-that-name.*run_as|run_as.*nobody-of-that-name`,
	},
}

func TestStartThatFailsSaysWhyAndUndoesEverything(t *testing.T) {
	t.Parallel()
	for name, row := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			good, opts := *r.cfg, r.opts
			row.wrong(t, r)
			a, err := New(r.opts)
			require.NoError(t, err)
			oneLine(t, a.Start(t.Context()), row.want)
			require.NoError(t, a.Stop(t.Context()), "there is nothing left to stop")

			// All that it took is free again.
			r.opts, r.opts.Config, r.cfg = opts, &good, &good
			r.natsConf("jetstream {}\n")
			r.start()
		})
	}
}

// oneLine requires an error of one line that matches.
func oneLine(t *testing.T, err error, want string) {
	t.Helper()
	require.Error(t, err)
	require.Regexp(t, want, err.Error())
	require.NotContains(t, err.Error(), "\n")
}

// taken is an address on which the test listens.
func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestSecondProcessOnOneDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	id := r.accept(1)
	second, err := New(r.opts)
	require.NoError(t, err)
	oneLine(t, second.Start(t.Context()), `^storage\.dir .*data.*(in use|another)`)
	r.await(id, "done") // the first one is not disturbed
	r.restart()
	require.Equal(t, "done", r.task(id).Status)
}

func TestStoreOfANewerBelayIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	id := r.await(r.accept(1), "done").ID
	stamp := func(version string) {
		s, err := r.app.js.Stream(t.Context(), "WEBHOOKS")
		require.NoError(t, err)
		c := s.CachedInfo().Config
		c.Metadata["belay_version"] = version
		_, err = r.app.js.UpdateStream(t.Context(), c)
		require.NoError(t, err)
	}
	stamp("99")
	r.stop()
	a, err := New(r.opts)
	require.NoError(t, err)
	oneLine(t, a.Start(t.Context()), `WEBHOOKS.*(newer|version).*99|99.*(newer|version).*WEBHOOKS`)
	require.DirExists(t, filepath.Join(r.cfg.Storage.Dir, "jetstream"))
	entries, err := os.ReadDir(filepath.Join(r.cfg.Storage.Dir, "jetstream", "$G", "streams", "WEBHOOKS", "msgs"))
	require.NoError(t, err)
	require.NotEmpty(t, entries, "%s is still there", id)
}

func TestExternalNATSIsWaitedForUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.cfg.NATS.URL = "nats://" + freePort(t) })
	a, err := New(r.opts)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	err = a.Start(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	oneLine(t, err, `^connect to NATS at `+strings.TrimPrefix(r.cfg.NATS.URL, "nats://")+`: .*start it, or change \[nats\] url$`)
	require.Less(t, time.Since(began), 10*time.Second)
}

// Each process starts and stops on its own, and each Stop may be called from
// several places.
func TestStartAndStopFromTenGoroutines(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 10 {
		r := newRig(t)
		wg.Go(func() {
			for range 2 {
				a, err := New(r.opts)
				if err == nil {
					err = a.Start(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				var stops sync.WaitGroup
				for range 3 {
					stops.Go(func() {
						if err := a.Stop(context.Background()); err != nil {
							t.Error(err)
						}
					})
				}
				stops.Wait()
			}
		})
	}
	wg.Wait()
}
