package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	h := newHost(t, `drain_timeout = "1m"`, gated)
	p := h.serve()
	id := h.accept(1)
	h.await(id, "running")
	p.signal(syscall.SIGTERM)
	natstest.Eventually(t, "the doors to close", func() bool { return h.get("/readyz") == http.StatusServiceUnavailable })
	require.Equal(t, http.StatusOK, h.get("/livez"))
	require.Empty(t, h.post(2), "no more webhooks")
	h.release()
	require.Equal(t, exitOK, p.exit(), "%s", p.out)

	p = h.serve()
	got := h.show(id)
	require.Equal(t, "done", got.Status)
	require.Len(t, got.Attempts, 1)
	p.stop()
}

func TestSecondSIGTERMIsImmediate(t *testing.T) {
	t.Parallel()
	h := newHost(t, "drain_timeout = \"10m\"\nmax_retries = 0", gated)
	p := h.serve()
	id := h.accept(1)
	h.await(id, "running")
	p.signal(syscall.SIGTERM)
	natstest.Eventually(t, "the doors to close", func() bool { return h.get("/readyz") == http.StatusServiceUnavailable })
	began := time.Now()
	p.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, p.exit(), "%s", p.out)
	require.Less(t, time.Since(began), 10*time.Second)

	p = h.serve()
	h.release()
	got := h.await(id, "done")
	require.Len(t, got.Attempts, 2)
	require.Equal(t, "released", got.Attempts[0].Outcome, "the try is free")
	p.stop()
}

func TestSIGTERMWhileStartingIsNoFailure(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	h.external("nats://someone:a-password@" + freePort(t))
	p := h.launch()
	natstest.Eventually(t, "the listeners", func() bool { return h.get("/livez") == http.StatusOK })
	require.Equal(t, http.StatusServiceUnavailable, h.get("/readyz"))
	p.stop()
	require.NotContains(t, p.out.String(), "belay: ")
	require.NotContains(t, p.out.String(), "a-password")
}

// One belay's NATS may be that of another: the two then share all work, and
// nobody prints the password.
func TestServeOnTheNATSOfAnother(t *testing.T) {
	t.Parallel()
	first := newHost(t, "", "")
	p := first.serve()
	password, err := os.ReadFile(filepath.Join(first.dir, "data", "nats.password"))
	require.NoError(t, err)
	second := newHost(t, "", "")
	second.external("nats://belay:" + string(password) + "@" + first.nats)
	q := second.serve()
	id := second.accept(1)
	second.await(id, "done")
	require.Equal(t, id, first.await(id, "done").ID)
	require.Contains(t, q.out.String(), first.nats)
	for _, said := range []string{p.out.String(), q.out.String(), second.ok("config", "print"), second.try("doctor").out} {
		require.NotContains(t, said, string(password))
	}
	q.stop()
	p.stop()
}

// DT-2: what was accepted is there after kill -9, whenever it comes.
func TestDT2KillLosesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, "concurrency = 2\nmax_retries = 9", `sleep 0.05; `+succeed)
	var ids []string
	for round := range 3 {
		p := h.serve()
		for range 3 {
			ids = append(ids, h.accept(len(ids)+1))
		}
		if round == 1 {
			natstest.Eventually(t, "one to run", func() bool { return h.show(ids[len(ids)-1]).Status != "queued" })
		}
		p.kill()
	}
	p := h.serve()
	for _, id := range ids {
		h.await(id, "done")
	}
	require.Equal(t, len(ids), strings.Count(h.ok("tasks", "ls", "-o", "json"), `"id":`))
	p.stop()
}

// complains requires one line and an exit code.
func complains(t *testing.T, got result, code int, want string) {
	t.Helper()
	require.Equal(t, code, got.code, got.err)
	var lines []string
	for line := range strings.Lines(got.err) {
		if !strings.HasPrefix(line, "{") { // the log
			lines = append(lines, line)
		}
	}
	require.Len(t, lines, 1, got.err)
	require.Regexp(t, want, lines[0])
	require.Empty(t, got.out)
}

func TestServeThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	p := h.serve()
	other := newHost(t, "", "")
	other.environ = []string{"BELAY_STORAGE_DIR=" + filepath.Join(h.dir, "data")}
	complains(t, other.try("serve"), exitError, `^belay: storage\.dir `+h.dir+`/data `)

	for key, want := range map[string]string{
		"BELAY_SERVER_LISTEN=" + h.public:      `^belay: listen on ` + h.public + `: .*change \[server\] listen\n$`,
		"BELAY_SERVER_ADMIN_LISTEN=" + h.admin: `^belay: listen on ` + h.admin + `: .*change \[server\] admin_listen\n$`,
	} {
		taken := newHost(t, "", "")
		taken.environ = []string{key}
		complains(t, taken.try("serve"), exitError, want)
	}
	l, err := net.Listen("tcp", other.nats)
	require.NoError(t, err)
	defer l.Close()
	other.environ = nil
	complains(t, other.try("serve"), exitError, "^belay: nats client port "+other.nats+": address already in use: .*`port`.*--nats-config")
	require.Equal(t, http.StatusOK, h.get("/readyz"), "the first is not disturbed")
	p.stop()
}

func TestServeWithAWrongConfiguration(t *testing.T) {
	t.Parallel()
	h := newHost(t, "concurency = 3", "")
	complains(t, h.try("serve"), exitUsage, `belay\.toml: line \d+: worker\.concurency: unknown key: did you mean worker\.concurrency\?`)
	require.NoDirExists(t, filepath.Join(h.dir, "data"))

	h = newHost(t, "", "")
	h.environ = []string{"BELAY_WORKER_CONCURENCY=3"}
	complains(t, h.try("serve"), exitUsage, `BELAY_WORKER_CONCURENCY.*BELAY_WORKER_CONCURRENCY`)
	complains(t, h.try("serve", "--log-level", "loud"), exitUsage, `BELAY_WORKER_CONCURENCY|--log-level`)
}

// A first start without a configuration: loopback, a secret that is made once,
// an example familiar.
func TestServeWithoutAConfiguration(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	require.NoError(t, os.Remove(filepath.Join(h.dir, "belay.toml")))
	h.environ = []string{"BELAY_SERVER_LISTEN=" + h.public, "BELAY_SERVER_ADMIN_LISTEN=" + h.admin, "BELAY_NATS_CONFIG=nats.conf"}
	p := h.serve()
	require.Equal(t, "done", h.await(h.send(), "done").Status)
	files, err := filepath.Glob(filepath.Join(h.dir, "data", "*secret*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Contains(t, p.out.String(), "in "+filepath.Join("data", filepath.Base(files[0])))
	info, err := os.Stat(files[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(h.dir, "data"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	made, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.NotContains(t, p.out.String(), strings.TrimSpace(string(made)))
	p.stop()

	p = h.serve()
	again, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Equal(t, made, again)
	h.await(h.send(), "done")
	p.stop()
}

func TestServeRole(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	complains(t, h.try("serve", "--role", "cook"), exitUsage, `^belay: --role "cook": write one of all, ingest, worker, relay\n$`)
	complains(t, h.try("serve", "--role", "relay"), exitUsage, `server\.role \(\$BELAY_SERVER_ROLE\) = "relay": is one part of a fleet, and without nats\.url this process is alone`)
	p := h.serve()
	password, err := os.ReadFile(filepath.Join(h.dir, "data", "nats.password"))
	require.NoError(t, err)
	other := newHost(t, "", "")
	other.external("nats://belay:" + string(password) + "@" + h.nats)
	q := other.serve("--role", "worker")
	require.Contains(t, q.out.String(), "role       worker")
	require.NotContains(t, q.out.String(), "/webhook")
	require.Zero(t, other.get("/livez"), "a worker has no doors")
	q.stop()
	p.stop()
}
