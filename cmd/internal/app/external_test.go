package app

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
)

// purgeFiller removes what fill stored.
func purgeFiller(r *jetstream.StreamPurgeRequest) error {
	r.Subject = "webhook.9.>"
	return nil
}

// fill publishes until the store takes nothing more, not even little.
func fill(t *testing.T, env *natstest.Env) {
	t.Helper()
	for _, size := range []int{256 << 10, 16 << 10, 512, 1} {
		for {
			// Random enough not to be compressed.
			data := []byte(strings.Repeat(time.Now().String(), size/30+1))[:size]
			if _, err := env.JS.Publish(t.Context(), "webhook.9.9.ignored.ping", data, jetstream.WithRetryAttempts(0)); err != nil {
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				break
			}
		}
	}
}

// TestExternalNATSChangesNothingElse plays one scene over both.
func TestExternalNATSChangesNothingElse(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) *rig{
		"embedded": func(t *testing.T) *rig { return newRig(t) },
		"external": func(t *testing.T) *rig { r, _, _ := behind(t); return r },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := make(t)
			r.command(gated)
			r.cfg.Worker.Concurrency, r.cfg.Worker.DrainTimeout = 1, time.Millisecond
			r.start()
			body := issue(1)
			running := r.post("issues", "d1", body).text("task")
			r.await(running, "running")
			queued := r.accept(2)
			require.Equal(t, "unsupported_event", r.post("brand_new", "d3", "{}").text("ignored"))
			require.Equal(t, http.StatusOK, r.get("/readyz").status)

			r.restart()
			require.Equal(t, "released", r.await(running, "running").Attempts[0].Outcome)
			require.Equal(t, true, r.post("issues", "d1", body).field("duplicate"))
			require.Equal(t, http.StatusOK, r.act(queued, "cancel").status)
			r.release()
			require.Len(t, r.await(running, "done").Attempts, 2)
			require.Equal(t, http.StatusAccepted, r.act(queued, "retry").status)
			require.Len(t, r.await(queued, "done").Attempts, 1)
			require.Len(t, r.deliveries(), 3)
			require.Equal(t, name == "external", r.app.NATSURL() == "" && r.app.ns == nil)
		})
	}
}

// Two processes on one NATS share the work, and each shows all of it.
func TestTwoProcessesOnOneNATS(t *testing.T) {
	t.Parallel()
	r, _, p := behind(t)
	other := newRig(t, func(o *rig) { o.cfg.NATS.URL, o.cfg.NATS.Config = p.URL(), "" })
	for _, each := range []*rig{r, other} {
		each.command(`echo x >>"$3/ran"; sleep 0.05; ` + succeed)
		each.cfg.Worker.Name = each.dir
		each.start()
	}
	for n := range 10 {
		r.accept(2*n + 1)
		other.accept(2*n + 2)
	}
	for _, i := range r.awaitAll(20, "done") {
		require.Len(t, r.task(i.ID).Attempts, 1, "one run each")
	}
	other.awaitAll(20, "done")
	require.True(t, exists(r, "ran") && exists(other, "ran"), "both had a part")
}

// J10, J11, J36: the server restarts under a running and a waiting task.
func TestJ11WorkResumesWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	r, env, p := behind(t)
	r.command(gated)
	r.cfg.Worker.Concurrency = 1
	r.opts.BeatEvery = 3 * time.Second
	r.start()
	running := r.accept(1)
	r.await(running, "running")
	waiting := r.accept(2)

	p.Lead("")
	p.Cut()
	natstest.Eventually(t, "readyz to be red", func() bool { return r.get("/readyz").status == http.StatusServiceUnavailable })
	require.Equal(t, http.StatusOK, r.get("/livez").status)
	late := make(chan answer, 1)
	go func() {
		a, _ := r.tryPost("issues", "late", issue(3))
		late <- a
	}()
	env.Restart()
	p.Lead(env.URL())
	a := <-late
	require.Equal(t, http.StatusOK, a.status, "a webhook that came meanwhile is tried until its deadline: %s", a.body)
	natstest.Eventually(t, "readyz to be green", func() bool { return r.get("/readyz").status == http.StatusOK })
	r.release()
	require.Len(t, r.await(running, "done").Attempts, 1, "an outage takes no run away")
	r.await(waiting, "done")
	r.awaitAll(3, "done")
	require.Equal(t, 1, strings.Count(r.log.String(), `"class":"disconnect"`), "one line a class")
}

func TestExternalNATSThatRefusesUs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conf := r.file("other.conf", "authorization { user: belay, password: $BELAY_NATS_PASSWORD }\njetstream {}\n")
	ns, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), ConfigFile: conf, Listen: natsserver.ListenRandom})
	require.NoError(t, err)
	defer func() { require.NoError(t, ns.Shutdown(context.Background())) }()
	r.cfg.NATS.URL = strings.Replace(ns.ClientURL(), "nats://", "nats://belay:wrong-password@", 1)
	a, err := New(r.opts)
	require.NoError(t, err)
	err = a.Start(t.Context())
	oneLine(t, err, `(?i)connect to NATS.*authorization violation; next: check .*\[nats\]`)
	require.NotContains(t, err.Error()+r.log.String(), "wrong-password")

	r.cfg.NATS.URL = strings.Replace(ns.ClientURL(), "nats://", "nats://belay:"+ns.Password()+"@", 1)
	r.start()
	r.await(r.accept(1), "done")
	r.stop()
	require.NotContains(t, r.log.String(), ns.Password())
}

// J12, DT-20: a newer belay changes a durable beside an older one. There stays
// one durable of the name, and both work; an older one that starts then is
// refused, names the versions, and leaves everything as it is.
func TestJ12TwoVersionsSideBySide(t *testing.T) {
	t.Parallel()
	r, env, _ := behind(t)
	r.start()
	r.await(r.accept(1), "done")
	newer, err := natstest.Set()
	require.NoError(t, err)
	for i := range newer.Streams {
		for k := range newer.Streams[i].Consumers {
			if c := &newer.Streams[i].Consumers[k]; c.Durable == "tasks" {
				c.AckWait = 45 * time.Second
			}
		}
	}
	_, err = streams.Reconcile(t.Context(), env.JS, newer, streams.Options{Version: 2})
	require.NoError(t, err)
	r.await(r.accept(2), "done")
	s, err := env.JS.Stream(t.Context(), "WEBHOOKS")
	require.NoError(t, err)
	require.Equal(t, "2", s.CachedInfo().Config.Metadata["belay_version"])
	require.Equal(t, 3, s.CachedInfo().State.Consumers, "one durable of each name")

	r.stop()
	a, err := New(r.opts)
	require.NoError(t, err)
	err = a.Start(t.Context())
	require.ErrorIs(t, err, streams.ErrNewerStore)
	c, err := env.JS.Consumer(t.Context(), "WEBHOOKS", "tasks")
	require.NoError(t, err)
	require.Equal(t, 45*time.Second, c.CachedInfo().Config.AckWait, "left as the newer one has it")
}
