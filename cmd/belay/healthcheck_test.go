package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthcheckSaysHowBelayIs(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	s := newStub(t, func(w http.ResponseWriter, _ request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"ok":false,"conditions":["view"]}`))
	})
	environ := []string{"BELAY_TOKEN=a-token-of-some-length"}
	require.Equal(t, exitOK, try(t, environ, "healthcheck", "--server", s.URL).code)
	status = http.StatusServiceUnavailable
	got := try(t, environ, "healthcheck", "--ready", "--server", s.URL)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, `/readyz answered 503: {"ok":false,"conditions":["view"]}`)
	for i, path := range []string{"/healthz", "/readyz"} {
		require.Equal(t, path, s.requests()[i].uri)
		require.Empty(t, s.requests()[i].header.Get("Authorization"), "nobody needs a token for it")
	}
	s.Close()
	require.Equal(t, exitError, try(t, environ, "healthcheck", "--server", s.URL).code)
}
