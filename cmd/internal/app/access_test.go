package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
)

// apiPaths are one of each kind under /api.
var apiPaths = []string{"/api/github/tasks", "/api/github/tasks/x", "/api/github/tasks/x/log", "/api/github/deliveries", "/api/github/outbox", "/api/nothing"}

func TestTokenMode(t *testing.T) {
	t.Parallel()
	const token = "a-service-token-of-some-length"
	r := newRig(t, func(r *rig) { r.cfg.API.Mode, r.cfg.API.ServiceToken = config.ModeToken, token }).start()
	for _, path := range apiPaths {
		for name, headers := range map[string][]string{
			"none": nil, "wrong": {"Authorization", "Bearer nope"}, "basic": {"Authorization", "Basic " + token},
			"cut": {"Authorization", "Bearer " + token[:10]}, "empty": {"Authorization", "Bearer "},
		} {
			a := r.get(path, headers...)
			require.Equal(t, http.StatusUnauthorized, a.status, "%s %s", path, name)
			require.JSONEq(t, `{"ok":false,"error":"unauthorized"}`, a.body, "%s %s", path, name)
		}
		require.NotEqual(t, http.StatusUnauthorized, r.get(path, "Authorization", "Bearer "+token).status, path)
	}
	// A tunnel is no obstacle to who has the token.
	a := r.get("/api/github/tasks", "Authorization", "Bearer "+token, "Host", "belay.example.com", "X-Forwarded-For", "203.0.113.9")
	require.Equal(t, http.StatusOK, a.status)
	require.NotContains(t, r.log.String(), token)
}

func TestOpenModeAnswersThisMachineOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	port := r.app.URL()[strings.LastIndex(r.app.URL(), ":"):]
	for _, host := range []string{"127.0.0.1" + port, "localhost" + port, "LOCALHOST", "[::1]" + port, "127.9.9.9"} {
		require.Equal(t, http.StatusOK, r.get("/api/github/tasks", "Host", host).status, host)
	}
	for name, headers := range map[string][]string{
		"name":       {"Host", "belay.example.com"},
		"rebound":    {"Host", "127.0.0.1.nip.example"},
		"suffix":     {"Host", "localhost.example.com"},
		"address":    {"Host", "192.0.2.1" + port},
		"forwarded":  {"Forwarded", "for=203.0.113.9"},
		"tunnel":     {"X-Forwarded-For", "203.0.113.9"},
		"loopback":   {"X-Forwarded-For", "127.0.0.1"},
		"empty":      {"X-Forwarded-For", ""},
		"cloudflare": {"CF-Connecting-IP", "203.0.113.9"},
	} {
		for _, path := range apiPaths {
			a := r.get(path, headers...)
			require.Equal(t, http.StatusUnauthorized, a.status, "%s %s", name, path)
			require.JSONEq(t, `{"ok":false,"error":"unauthorized"}`, a.body)
		}
	}
	// Webhooks and health come through the tunnel.
	require.Equal(t, http.StatusOK, r.post("issues", "d1", issue(1), "Host", "belay.example.com", "X-Forwarded-For", "203.0.113.9").status)
	require.Equal(t, http.StatusOK, r.get("/healthz", "Host", "belay.example.com").status)
}

func TestMutationsOfOtherPagesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	id := r.await(r.accept(1), "done").ID
	url := r.app.URL() + "/api/github/tasks/" + id + "/retry"
	require.Equal(t, http.StatusUnsupportedMediaType, r.do(http.MethodPost, url, "{}").status)
	require.Equal(t, http.StatusUnsupportedMediaType, r.do(http.MethodPost, url, "{}", "Content-Type", "text/plain").status)
	require.Equal(t, http.StatusForbidden, r.do(http.MethodPost, url, "{}", "Content-Type", "application/json", "Sec-Fetch-Site", "cross-site").status)
	require.Len(t, r.task(id).Attempts, 1)
}
