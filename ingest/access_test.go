package ingest

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

const serviceToken = "the-service-token"

func tokenMode(o *Options) {
	o.Access = func() Access { return Access{Mode: ModeToken, ServiceToken: sha256.Sum256([]byte(serviceToken))} }
}

// Whatever is asked for, and however the token is wrong: one answer.
func TestDT99UniformDenial(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t, tokenMode)
	denied := object{"ok": false, "error": "unauthorized"}
	var first answered
	n := 0
	for _, path := range []string{
		"/api/github/tasks", "/api/github/tasks/t-1", "/api/github/tasks/t-9", "/api/github/tasks?limit=x", "/api/github/deliveries", "/api/nothing",
		"/api", "/api/github/tasks/t-1/retry",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer " + serviceToken + "x", "Basic " + serviceToken, serviceToken} {
				req, err := http.NewRequestWithContext(t.Context(), method, d.base+path, nil)
				require.NoError(t, err)
				req.Header.Set("Authorization", auth)
				got := d.do(req)
				require.Equal(t, 401, got.status, "%s %s %q", method, path, auth)
				require.Equal(t, denied, got.json(t))
				got.header.Del("Date")
				if n++; n == 1 {
					first = got
				}
				require.Equal(t, first, got, "%s %s %q", method, path, auth)
			}
		}
	}
	require.Empty(t, f.commands)
	require.Len(t, d.audit.denied, n, "every denial is audited")
	require.Equal(t, "GET /api/github/tasks 127.0.0.1", d.audit.denied[0])
	require.Empty(t, d.audit.reads)
	for _, auth := range []string{"Bearer " + serviceToken, "bearer " + serviceToken} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.base+"/api/github/tasks", nil)
		require.NoError(t, err)
		req.Host = "belay.example.test"
		req.Header.Set("Authorization", auth)
		req.Header.Set("X-Forwarded-For", "192.0.2.1")
		require.Equal(t, 200, d.do(req).status, auth)
	}
	require.Equal(t, []string{"service tasks", "service tasks"}, d.audit.reads)
	require.Equal(t, 200, d.post(hook{event: "issues", guid: "one", body: encode(t, labeled(1))}).status, "the webhook has its own proof")
}

// A rotated token counts from the next request on.
func TestAccessIsAskedEachTime(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[Access]
	now.Store(&Access{Mode: ModeToken, ServiceToken: sha256.Sum256([]byte("old"))})
	d, _ := apiDoor(t, func(o *Options) { o.Access = func() Access { return *now.Load() } })
	get := func(token string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.base+"/api/github/tasks", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		return d.do(req).status
	}
	require.Equal(t, 200, get("old"))
	now.Store(&Access{Mode: ModeToken, ServiceToken: sha256.Sum256([]byte("new"))})
	require.Equal(t, 401, get("old"))
	require.Equal(t, 200, get("new"))
	now.Store(&Access{Mode: ModeToken})
	require.Equal(t, 401, get(""), "no token is no token")
}

// Open mode is for this machine: a page that rebinds its name to 127.0.0.1
// sends its own Host, a tunnel says whom it speaks for.
func TestOpenModeAnswersLoopbackOnly(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	ask := func(host string, header map[string]string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.base+"/api/github/tasks", nil)
		require.NoError(t, err)
		req.Host = host
		for k, v := range header {
			req.Header.Set(k, v)
		}
		return d.do(req).status
	}
	for _, host := range []string{"localhost", "localhost:3000", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:3000", "127.8.9.1:1", "[::1]", "[::1]:3000", "[::ffff:127.0.0.1]:3000"} {
		require.Equal(t, 200, ask(host, nil), host)
	}
	for _, host := range []string{
		"example.test", "evil.test:3000", "localhost.evil.test", "127.0.0.1.nip.io", "192.168.1.2:3000", "0.0.0.0:3000", "[::]:3000", "[fe80::1]", "1270.0.0.1", "2130706433",
	} {
		require.Equal(t, 401, ask(host, nil), host)
	}
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via", "Cf-Connecting-Ip"} {
		require.Equal(t, 401, ask("localhost", map[string]string{h: "for=127.0.0.1"}), h)
	}
	require.Len(t, d.audit.denied, 17)
	require.Contains(t, d.logs.String(), "open mode answers only this machine")
	// The webhook and health are for the world.
	tunnel := map[string]string{"X-Forwarded-For": "192.0.2.1"}
	r := hook{event: "issues", guid: "one", body: encode(t, labeled(1)), header: tunnel}.request(t, d.base)
	r.Host = "belay.example.test"
	require.Equal(t, 200, d.do(r).status)
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.base+path, nil)
		require.NoError(t, err)
		req.Host = "belay.example.test"
		require.Equal(t, 200, d.do(req).status, path)
	}
	_ = f
}

func TestMutationsFromBrowsersAreRefused(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	const path = "/api/github/tasks/t-1/retry"
	for _, ct := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonx", ";"} {
		got := d.mutate(path, "{}", map[string]string{"Content-Type": ct})
		require.Equal(t, 415, got.status, ct)
		require.Equal(t, object{"error": "content type must be application/json"}, got.json(t))
	}
	for k, v := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.test"} {
		got := d.mutate(path, "{}", map[string]string{k: v})
		require.Equal(t, 403, got.status, k)
		require.Equal(t, object{"error": "cross-site request"}, got.json(t))
	}
	require.Equal(t, 403, d.mutate(path, "{}", map[string]string{"Sec-Fetch-Site": "same-site"}).status)
	require.Empty(t, f.commands)
	require.Equal(t, 202, d.mutate(path, "{}", map[string]string{"Content-Type": "application/json; charset=utf-8", "Sec-Fetch-Site": "same-origin", "Origin": d.base}).status)
	require.Len(t, f.commands, 1)
}

// The seam of tenant tokens: a scope is applied inside every query, and what
// is outside of it reads as what does not exist.
func TestDT99ScopeIsAppliedInside(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	mine, other := int64(7), int64(8)
	f.deliveries = []kv.Logged{{Delivery: task.Delivery{ID: "d-1", InstallationID: 7, Repo: "acme/api", Routing: task.ToTask("t-1")}}}
	as := func(sc Scope, method, path string) int {
		r, err := http.NewRequestWithContext(context.WithValue(t.Context(), callerKey{}, Caller{Name: "tenant", Scope: sc}), method, path, http.NoBody)
		require.NoError(t, err)
		rec := serve(d.scoped(), r)
		return rec.Code
	}
	inRepo, outRepo := Scope{&mine, []string{"acme/api"}}, Scope{&mine, []string{"acme/web"}}
	for name, c := range map[string]struct {
		scope Scope
		want  int
	}{"all": {Scope{}, 200}, "installation": {Scope{Installation: &mine}, 200}, "repo": {inRepo, 200}, "other": {Scope{Installation: &other}, 404}, "other repo": {outRepo, 404}, "no repos": {Scope{&mine, []string{}}, 404}} {
		require.Equal(t, c.want, as(c.scope, http.MethodGet, "/tasks/t-1"), name)
		require.Equal(t, c.want, as(c.scope, http.MethodGet, "/deliveries/d-1"), name)
		before := len(f.commands)
		cancel := as(c.scope, http.MethodPost, "/tasks/t-1/retry")
		if c.want == 404 {
			require.Equal(t, 404, cancel, name)
			require.Len(t, f.commands, before, name)
		} else {
			require.Equal(t, 202, cancel, name)
		}
	}
	require.Equal(t, 200, as(inRepo, http.MethodGet, "/tasks?repo=acme/api"))
	require.Equal(t, &mine, f.query.Installation)
	require.Equal(t, []string{"acme/api"}, f.query.Repos)
	require.Equal(t, 200, as(inRepo, http.MethodGet, "/deliveries"))
	require.Equal(t, &mine, f.asked.Installation)
	require.Equal(t, []string{"acme/api"}, f.asked.Repos)
	// Another installation than one's own is an empty list, and nobody is asked.
	f.query.Limit = -1
	require.Equal(t, 200, as(inRepo, http.MethodGet, "/tasks?installation=8"))
	require.Equal(t, -1, f.query.Limit)
}

func TestCheckBind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr, mode  string
		allowPublic bool
		ok          bool
	}{
		{"127.0.0.1:3000", ModeOpen, false, true},
		{"localhost:3000", ModeOpen, false, true},
		{"[::1]:3000", ModeOpen, false, true},
		{":3000", ModeOpen, false, false},
		{"0.0.0.0:3000", ModeOpen, false, false},
		{"[::]:3000", ModeOpen, false, false},
		{"192.168.1.2:3000", ModeOpen, false, false},
		{"belay.example.test:3000", ModeOpen, false, false},
		{"0.0.0.0:3000", ModeOpen, true, true},
		{"0.0.0.0:3000", ModeToken, false, true},
		{"3000", ModeToken, true, false},
	} {
		err := CheckBind(c.addr, c.mode, c.allowPublic)
		require.Equal(t, c.ok, err == nil, "%v: %v", c, err)
	}
	err := CheckBind(":3000", ModeOpen, false)
	require.ErrorContains(t, err, "[server] listen")
	require.ErrorContains(t, err, "next: ")
	require.ErrorContains(t, err, "allow_public")
}
