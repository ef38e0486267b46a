package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

func TestGateAnswersForWhatIsNotUp(t *testing.T) {
	t.Parallel()
	a, err := New(newRig(t).opts)
	require.NoError(t, err)
	door := a.gate(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		door.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	closed := func() {
		for _, path := range []string{"/webhook", "/readyz", "/healthz", "/metrics", "/api/github/tasks", "/livez/", "/"} {
			got := ask(path)
			require.Equal(t, http.StatusServiceUnavailable, got.Code, path)
			require.JSONEq(t, `{"ok":false,"error":"not serving"}`, got.Body.String())
			require.Equal(t, "application/json", got.Header().Get("Content-Type"))
			require.NotEmpty(t, got.Header().Get("Retry-After"))
		}
		require.Equal(t, http.StatusTeapot, ask("/livez").Code)
	}
	closed()
	a.openDoors(true)
	require.Equal(t, http.StatusTeapot, ask("/webhook").Code)
	require.NoError(t, a.closeDoors(t.Context()))
	closed()
}

func TestDoorsWaitForRequestsThatAreBeingAnswered(t *testing.T) {
	t.Parallel()
	a, err := New(newRig(t).opts)
	require.NoError(t, err)
	a.openDoors(true)
	inside, leave := make(chan struct{}), make(chan struct{})
	door := a.gate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(inside); <-leave }))
	go door.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/x", nil))
	<-inside
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = a.closeDoors(short)
	require.ErrorContains(t, err, "wait for requests")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(leave)
	require.NoError(t, a.closeDoors(t.Context()))
}

// J19, J26: while NATS is not there, only /livez is well.
func TestListenersAnswerWhileStarting(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.cfg.Server.Listen, r.cfg.Server.AdminListen = freePort(t), freePort(t)
		r.cfg.NATS.URL = "nats://" + freePort(t)
	})
	a, err := New(r.opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- a.Start(ctx) }()
	for _, addr := range []string{r.cfg.Server.Listen, r.cfg.Server.AdminListen} {
		natstest.Eventually(t, "livez", func() bool {
			got, err := r.try(http.MethodGet, "http://"+addr+"/livez", "")
			return err == nil && got.status == http.StatusOK
		})
		for _, path := range []string{"/readyz", "/healthz"} {
			require.Equal(t, http.StatusServiceUnavailable, r.do(http.MethodGet, "http://"+addr+path, "").status)
		}
	}
	require.Equal(t, http.StatusServiceUnavailable, r.do(http.MethodPost, "http://"+r.cfg.Server.Listen+"/webhook", "{}").status)
	cancel()
	require.ErrorIs(t, <-started, context.Canceled)
	_, err = r.try(http.MethodGet, "http://"+r.cfg.Server.Listen+"/livez", "")
	require.Error(t, err, "the listeners are gone")
}

func TestListenersAnswerWhileDraining(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.command(gated) }).start()
	id := r.accept(1)
	r.await(id, "running")
	require.Equal(t, http.StatusOK, r.get("/readyz").status)
	stopped := make(chan error, 1)
	go func() { stopped <- r.app.Stop(t.Context()) }()
	natstest.Eventually(t, "the doors to close", func() bool { return r.get("/readyz").status == http.StatusServiceUnavailable })
	late, body := 0, issue(2) // the doors close a moment after /readyz says so
	natstest.Eventually(t, "webhooks to be refused", func() bool {
		a := r.post("issues", "late", body)
		if a.status == http.StatusOK {
			late = 1
		}
		return a.status == http.StatusServiceUnavailable
	})
	require.Equal(t, http.StatusOK, r.get("/livez").status)
	select {
	case err := <-stopped:
		require.Fail(t, "it did not drain", "%v", err)
	default:
	}
	r.release()
	require.NoError(t, <-stopped)
	r.start()
	require.Equal(t, "done", r.task(id).Status, "it finished while the process drained")
	require.Len(t, r.task(id).Attempts, 1)
	require.Len(t, r.deliveries(), 1+late, "what was refused is not stored")
}
