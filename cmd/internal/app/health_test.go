package app

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/natstest"
)

// DT-106.
func TestDT106HealthzProbesTheStoreForAnybody(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.cfg.API.Mode, r.cfg.API.ServiceToken = config.ModeToken, "a-service-token-of-some-length"
	}).start()
	for _, base := range []string{r.app.URL(), r.app.AdminURL()} {
		a := r.do(http.MethodGet, base+"/healthz", "", "Host", "belay.example.com")
		require.Equal(t, http.StatusOK, a.status)
		require.JSONEq(t, `{"ok":true}`, a.body)
	}
	require.NoError(t, r.app.ns.Shutdown(t.Context()))
	natstest.Eventually(t, "healthz to notice", func() bool { return r.get("/healthz").status == http.StatusServiceUnavailable })
	require.JSONEq(t, `{"ok":false}`, r.get("/healthz").body, "it says nothing more")
	require.Equal(t, http.StatusServiceUnavailable, r.get("/readyz").status)
	require.Equal(t, http.StatusOK, r.get("/livez").status)
}

// behind starts a process whose NATS is a server of the test, behind a proxy.
func behind(t *testing.T, opts ...natstest.Option) (*rig, *natstest.Env, *natstest.Proxy) {
	t.Helper()
	env := natstest.New(t, append(opts, natstest.WithListener())...)
	p := natstest.NewProxy(t, env.URL())
	r := newRig(t, func(r *rig) { r.cfg.NATS.URL, r.cfg.NATS.Config = p.URL(), "" })
	return r, env, p
}

// J16: a full store takes no webhook, says so, and goes on once there is room.
func TestJ16FullStore(t *testing.T) {
	t.Parallel()
	r, env, _ := behind(t, natstest.WithMaxFileStore(4<<20))
	r.start()
	id := r.accept(1)
	r.await(id, "done")
	fill(t, env)
	a := r.post("issues", "full", issue(2))
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.Equal(t, "storage unavailable", a.text("error"))
	require.Equal(t, "30", a.header.Get("Retry-After"))
	natstest.Eventually(t, "readyz to be red", func() bool { return r.get("/readyz").status == http.StatusServiceUnavailable })
	require.Contains(t, r.do(http.MethodGet, r.app.AdminURL()+"/readyz", "").body, "the store takes no write")
	natstest.Eventually(t, "healthz to be red", func() bool { return r.get("/healthz").status == http.StatusServiceUnavailable })
	require.Equal(t, "done", r.task(id).Status, "reads go on")

	s, err := env.JS.Stream(t.Context(), "WEBHOOKS")
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), purgeFiller))
	natstest.Eventually(t, "readyz to be green again", func() bool { return r.get("/readyz").status == http.StatusOK })
	again := r.post("issues", "full", issue(2))
	require.Equal(t, http.StatusOK, again.status, again.body)
	require.Nil(t, again.field("duplicate"), "nothing of it was stored")
	r.awaitAll(2, "done")
}

// G31: a store that does not answer costs the client 8 s and no more, and what
// was sent to it is stored at most once.
func TestG31StalledStore(t *testing.T) {
	t.Parallel()
	r, _, p := behind(t)
	r.opts.BeatEvery = 10 * time.Second // nobody is taken for dead meanwhile
	r.start()
	body := issue(1)
	p.Stall()
	began := time.Now()
	a := r.post("issues", "g31", body)
	took := time.Since(began)
	p.Resume()
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.Greater(t, took, 6*time.Second, "it was tried again as long as there was time")
	require.Less(t, took, 10*time.Second, "GitHub's patience")

	natstest.Eventually(t, "the store to answer", func() bool { return r.post("issues", "g31", body).status == http.StatusOK })
	require.Equal(t, true, r.post("issues", "g31", body).field("duplicate"))
	r.awaitAll(1, "done")
	require.Len(t, r.deliveries(), 1)
}

// G31: a client that hangs up leaves no half.
func TestG31ClientThatHangsUp(t *testing.T) {
	t.Parallel()
	r, _, p := behind(t)
	r.opts.BeatEvery = 10 * time.Second
	r.start()
	body := issue(1)
	p.Stall()
	patient := r.web.Timeout
	r.web.Timeout = 300 * time.Millisecond
	_, err := r.tryPost("issues", "cut", body)
	p.Resume()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	r.web.Timeout = patient
	natstest.Eventually(t, "the delivery to be stored", func() bool { return len(r.deliveries()) == 1 })
	require.Equal(t, true, r.post("issues", "cut", body).field("duplicate"))
	r.awaitAll(1, "done")
}

// J30: a stop is bounded though the store is gone, with a task running.
func TestJ30StopWithoutAStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.command(gated); r.cfg.Worker.DrainTimeout = time.Second }).start()
	r.await(r.accept(1), "running")
	require.NoError(t, r.app.ns.Shutdown(t.Context()))
	began := time.Now()
	require.ErrorContains(t, r.app.Stop(t.Context()), "stop worker: ")
	require.Less(t, time.Since(began), 45*time.Second)
}
