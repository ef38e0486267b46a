package app

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/view"
)

// Q10: the server that a process is connected to freezes, or is cut off from
// its cluster; the connection stays. Another one is found.
func TestQ10AServerThatAnswersNothingIsLeft(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	ways := []*natstest.Proxy{natstest.NewProxy(t, env.URL()), natstest.NewProxy(t, env.URL())}
	r := newRig(t, func(r *rig) { r.cfg.NATS.URL, r.cfg.NATS.Config = ways[0].URL()+","+ways[1].URL(), "" })
	r.start()
	r.await(r.accept(1), "done")
	stuck, other := ways[0], ways[1]
	if strings.Contains(r.app.nc.ConnectedUrl(), other.Addr()) {
		stuck, other = other, stuck
	}
	stuck.Stall()
	defer stuck.Resume()
	natstest.Eventually(t, "the other to be used", func() bool { return strings.Contains(r.app.nc.ConnectedUrl(), other.Addr()) })
	r.await(r.accept(2), "done")
	require.Equal(t, http.StatusOK, r.get("/readyz").status)
	require.Contains(t, r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body, "belay_nats_moves_total 1\n")
}

// A watch that shows nothing any more is opened again, in a process that has no
// beat of its own to miss.
func TestAWatchBehindTheBucketIsOpenedAgain(t *testing.T) {
	t.Parallel()
	r, _, _ := behind(t)
	r.opts.BeatEvery = time.Hour // nobody looks but the test
	r.start()
	counter := func() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{Name: "x"}) }
	look := &reach{app: r.app, every: 5 * time.Second, moved: counter(), reopen: counter()}
	look.look(t.Context())
	require.NoError(t, r.app.view.CatchUp(t.Context(), r.app.js))
	look.look(t.Context())
	require.Zero(t, testutil.ToFloat64(look.reopen), "it shows all there was")
	look.last = r.app.view.Revision() + 100
	look.look(t.Context())
	require.EqualValues(t, 1, testutil.ToFloat64(look.reopen))
	look.last = look.told
	look.look(t.Context())
	require.EqualValues(t, 1, testutil.ToFloat64(look.reopen), "not again for the same")
}

// G36: a server that is cut off from its cluster answers, but nobody leads.
func TestG36AServerWithoutALeaderIsLeft(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	_, err := env.NC.Subscribe("FRONT.STREAM.INFO.KV_STATE", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"config":{"name":"KV_STATE"},"state":{"last_seq":1},"cluster":{"name":"c"}}`))
	})
	require.NoError(t, err)
	nc := env.Connect(nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))
	js, err := jetstream.NewWithAPIPrefix(nc, "FRONT")
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "x"})
	look := &reach{app: &App{nc: nc, js: js, log: log, view: view.New(log, time.Now)}, every: 5 * time.Second, moved: counter}
	for n := range reachMissed {
		require.Zero(t, testutil.ToFloat64(counter), "after %d looks", n)
		look.look(t.Context())
	}
	require.EqualValues(t, 1, testutil.ToFloat64(counter))
	natstest.Eventually(t, "the client to connect anew", func() bool { return nc.Stats().Reconnects == 1 })
}
