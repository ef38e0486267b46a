package main

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		status int
		body   string
		args   string
		want   []string
	}{
		"401":          {401, `{"ok":false,"error":"unauthorized"}`, "tasks ls", []string{"unauthorized", "set BELAY_TOKEN"}},
		"404":          {404, `{"error":"unknown task"}`, "tasks show t1", []string{"unknown task", "belay tasks ls"}},
		"404 delivery": {404, `{"error":"unknown delivery"}`, "deliveries show d1", []string{"unknown delivery", "belay deliveries ls"}},
		"404 log":      {404, `{"error":"unknown log"}`, "tasks logs t1", []string{"unknown log", "belay tasks show t1"}},
		"409 retry":    {409, `{"error":"already running"}`, "tasks retry t1", []string{"already running", "only ended tasks"}},
		"409 cancel":   {409, `{"error":"already completed"}`, "tasks cancel t1", []string{"already completed", "only queued and running"}},
		"400":          {400, `{"error":"parameter status must be one of queued"}`, "tasks ls --status x", []string{"parameter status"}},
		"503":          {503, `{"error":"storage unavailable"}`, "tasks ls", []string{"storage unavailable", "in 30 s", "/readyz"}},
		"not belay":    {404, `<html>`, "tasks ls", []string{"answered 404", "check --server"}},
		"redirect":     {302, ``, "tasks ls", []string{"answered 302", "check --server"}},
		"not JSON":     {200, `<html>`, "tasks ls", []string{"read the answer", "check --server"}},
		"other JSON":   {200, `{}`, "tasks ls", []string{"read tasks", "check --server"}},
		"escape":       {400, "{\"error\":\"a\\u001b[31mb\"}", "tasks ls", []string{`a\x1b[31mb`}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r request) {
				w.Header().Set("Retry-After", "30")
				w.Header().Set("Location", "/elsewhere")
				says(row.status, row.body)(w, r)
			})
			got := try(t, nil, append(strings.Fields(row.args), "--server", s.URL)...)
			require.Equal(t, exitError, got.code, got.out)
			require.Empty(t, got.out)
			require.Len(t, s.requests(), 1)
			for _, want := range row.want {
				require.Contains(t, got.err, want)
			}
		})
	}
}

func TestServerDown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	got := try(t, nil, "tasks", "ls", "--server", addr)
	require.Equal(t, exitError, got.code)
	require.Equal(t, "belay: nothing answers at http://"+addr+": start it with `belay serve`, or name its address with --server\n", got.err)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"tasks":[]}`))
	path := configFile(t, "[server]\nlisten = \""+strings.TrimPrefix(s.URL, "http://")+
		"\"\n[api]\nmode = \"token\"\nservice_token = \"from-the-config-file\"\n"+someFamiliar)
	other := newStub(t, says(401, `{"ok":false,"error":"unauthorized"}`))

	require.Equal(t, exitOK, try(t, nil, "tasks", "ls", "--config", path).code)
	require.Equal(t, exitOK, try(t, []string{"BELAY_TOKEN=mine"}, "tasks", "ls", "--config", path).code)
	require.Equal(t, exitError, try(t, nil, "tasks", "ls", "--config", path, "--server", other.URL).code)
	got := try(t, []string{"BELAY_TOKEN=mine"}, "tasks", "ls", "--server", other.URL)
	require.Contains(t, got.err, "the token in BELAY_TOKEN is not one that")

	auth := func(s *stub, i int) string { return s.requests()[i].header.Get("Authorization") }
	require.Equal(t, "Bearer from-the-config-file", auth(s, 0))
	require.Equal(t, "Bearer mine", auth(s, 1))
	require.Empty(t, auth(other, 0), "the configuration's token goes to its own server only")
	require.Equal(t, "Bearer mine", auth(other, 1))
}

func TestServerOf(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:3000": "http://127.0.0.1:3000",
		"0.0.0.0:3000":   "http://127.0.0.1:3000",
		":3000":          "http://127.0.0.1:3000",
		"[::]:3000":      "http://127.0.0.1:3000",
		"[::1]:3000":     "http://[::1]:3000",
		"10.1.2.3:80":    "http://10.1.2.3:80",
	} {
		cfg := config.Default("")
		cfg.Server.Listen = listen
		require.Equal(t, want, serverOf(cfg), listen)
	}
	for flag, want := range map[string]string{
		"x:1": "http://x:1", "http://x:1/": "http://x:1", "https://x/belay/": "https://x/belay",
	} {
		got, err := parseServer(flag)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
