package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clock is the time at which tests run.
var clock = time.Date(2026, 3, 4, 5, 6, 7, 891011000, time.UTC)

// result is what a command line did.
type result struct {
	code     int
	out, err string
}

// try runs a command line in an environment that has nothing but environ.
func try(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	return tryInput(t, "", environ, args...)
}

func tryInput(t *testing.T, input string, environ []string, args ...string) result {
	t.Helper()
	var out, errs strings.Builder
	c := &cli{
		in: strings.NewReader(input), out: &out, err: &errs, environ: environ,
		now: func() time.Time { return clock }, client: newHTTPClient(), poll: time.Millisecond,
	}
	code := c.execute(context.Background(), args)
	return result{code, out.String(), errs.String()}
}

// request is one that a stub got.
type request struct {
	method, uri string
	header      http.Header
	body        string
}

// stub is a server that answers what it is told to.
type stub struct {
	*httptest.Server
	mu   sync.Mutex
	seen []request
}

// newStub answers every request with handler, and remembers it.
func newStub(t *testing.T, handler func(w http.ResponseWriter, r request)) *stub {
	t.Helper()
	s := &stub{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		_, _ = io.Copy(body, r.Body)
		req := request{r.Method, r.URL.RequestURI(), r.Header, body.String()}
		s.mu.Lock()
		s.seen = append(s.seen, req)
		s.mu.Unlock()
		handler(w, req)
	}))
	t.Cleanup(s.Close)
	return s
}

// requests returns what the stub got so far.
func (s *stub) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.seen...)
}

// says makes a handler of one answer.
func says(status int, body string) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, _ request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// configFile writes a configuration and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "belay.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const someFamiliar = `
[[familiars]]
id = "cody"
bot_username = "coven-cody[bot]"
trigger_labels = ["bug", "coven:fix"]
`

func TestUsage(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		args string
		want string
	}{
		"unknown command":    {"nope", `unknown command "nope"`},
		"unknown subcommand": {"tasks nope", `unknown command "nope"`},
		"no subcommand":      {"tasks", "needs a subcommand: ls, show, logs, retry, cancel"},
		"unknown flag":       {"version --nope", "unknown flag"},
		"bad output":         {"version -o yaml", "write table or json"},
		"no id":              {"tasks show", "needs the id of one task"},
		"no delivery":        {"deliveries show", "needs the id of one delivery"},
		"no event":           {"send", "needs one event"},
		"bad server":         {"tasks ls --server ftp://x", "write an address such as"},
		"bad limit":          {"tasks ls --server x --limit 0", "--limit 0"},
		"limit and all":      {"tasks ls --limit 1 --all", "none of the others can be"},
		"count":              {"send ping --count 0", "--count 0"},
		"raw without file":   {"send ping --raw", "--raw needs --file"},
		"missing config":     {"config print --config /nonexistent/b.toml", "no such file"},
		"extra argument":     {"version 1", "unknown command"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := try(t, nil, strings.Fields(row.args)...)
			require.Equal(t, exitUsage, got.code, "%s%s", got.out, got.err)
			require.Contains(t, got.err, row.want)
			require.Empty(t, got.out)
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"help"}, {"--help"}, {"help", "send"}, {"tasks", "--help"}} {
		got := try(t, nil, args...)
		require.Equal(t, exitOK, got.code, got.err)
		require.Contains(t, got.out, "Usage:")
	}
	for _, event := range builtin() {
		require.Contains(t, try(t, nil, "help", "send").out, event)
	}
}

func TestConfigPrint(t *testing.T) {
	t.Parallel()
	path := configFile(t, "[github]\nwebhook_secrets = [\"hunter2hunter2\"]\n"+someFamiliar)
	got := try(t, []string{"BELAY_CONFIG=" + path, "BELAY_WORKER_CONCURRENCY=2"}, "config", "print")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "# file: "+path)
	require.Contains(t, got.out, "concurrency = 2 # env BELAY_WORKER_CONCURRENCY")
	require.Contains(t, got.out, `webhook_secrets = ["[set]"] # file`)
	require.NotContains(t, got.out, "hunter2")
}

func TestConfigErrorsEndWithTwo(t *testing.T) {
	t.Parallel()
	path := configFile(t, "[server]\nlisen = 1\n[worker]\nconcurrency = 0\n"+someFamiliar)
	got := try(t, nil, "config", "print", "--config", path)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "server.lisen: unknown key: did you mean server.listen?")
	require.Contains(t, got.err, "worker.concurrency = 0")
	for line := range strings.Lines(got.err) {
		require.True(t, strings.HasPrefix(line, "belay: "), line)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := "[storage]\ndir = \"" + dir + "\"\n[github]\nwebhook_secrets = [\"0123456789abcdef\"]\n" + someFamiliar
	got := try(t, nil, "doctor", "--config", configFile(t, good))
	require.Equal(t, exitOK, got.code, got.out)
	require.Contains(t, got.out, "warning: api.mode")

	got = try(t, nil, "doctor", "--config", configFile(t, "[worker]\nconcurrency = 0\n"+good), "-o", "json")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.out, `"field": "worker.concurrency"`)
	require.Empty(t, got.err)

	got = try(t, nil, "doctor", "--config", configFile(t, "[worker\n"))
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "line 1")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	got := try(t, nil, "version")
	require.Equal(t, exitOK, got.code)
	require.Regexp(t, `^belay \S+( \(\S+\))?, go1\.\d+\S*, nats-server \S+, nats\.go \S+\n$`, got.out)
	require.Contains(t, try(t, nil, "version", "-o", "json").out, `"natsServer": "`)
}
