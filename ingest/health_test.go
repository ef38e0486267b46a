package ingest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type proberFake struct {
	err    atomic.Pointer[error]
	ready  []Condition
	probes atomic.Int32
	wait   chan struct{}
}

func (p *proberFake) Store(context.Context) error {
	p.probes.Add(1)
	if p.wait != nil {
		<-p.wait
	}
	if e := p.err.Load(); e != nil {
		return *e
	}
	return nil
}

func (p *proberFake) Ready(context.Context) []Condition { return p.ready }

func TestDT106HealthProbesTheStoreAndLeaksNothing(t *testing.T) {
	t.Parallel()
	c, p := newClock(), &proberFake{}
	d := newDoor(t, tokenMode, func(o *Options) { o.Prober, o.Now = p, c.now })
	for _, base := range []string{d.base, d.admin} {
		got := d.get(base + "/healthz")
		require.Equal(t, 200, got.status)
		require.JSONEq(t, `{"ok":true}`, got.text)
	}
	require.EqualValues(t, 1, p.probes.Load(), "an answer stands for a moment")
	c.move(probeEvery)
	secret := errors.New("nats://user:password@10.0.0.1:4222: no responders")
	p.err.Store(&secret)
	for _, base := range []string{d.base, d.admin} {
		got := d.get(base + "/healthz")
		require.Equal(t, 503, got.status)
		require.JSONEq(t, `{"ok":false}`, got.text)
		require.Equal(t, 200, d.get(base+"/livez").status, "the process lives (J19)")
	}
	require.EqualValues(t, 2, p.probes.Load())
	require.Empty(t, d.audit.denied)
}

// Many who ask at once cost the store one probe.
func TestHealthProbesOneAtATime(t *testing.T) {
	t.Parallel()
	p := &proberFake{wait: make(chan struct{})}
	d := newDoor(t, func(o *Options) { o.Prober, o.Now = p, newClock().now })
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			r, err := http.NewRequest(http.MethodGet, "/healthz", nil)
			if err == nil {
				serve(d.Public(), r)
			}
		})
	}
	close(p.wait)
	wg.Wait()
	require.EqualValues(t, 1, p.probes.Load())
}

func TestReadyNamesWhatFails(t *testing.T) {
	t.Parallel()
	p := &proberFake{}
	d := newDoor(t, tokenMode, func(o *Options) { o.Prober = p })
	for _, base := range []string{d.base, d.admin} {
		got := d.get(base + "/readyz")
		require.Equal(t, 200, got.status)
		require.JSONEq(t, `{"ok":true}`, got.text)
	}
	p.ready = []Condition{{Name: "store", Message: "10.0.0.1 has no room", Next: "free some space"}}
	d.SetDraining(true)
	got := d.get(d.base + "/readyz")
	require.Equal(t, 503, got.status)
	require.JSONEq(t, `{"ok":false,"conditions":["draining","store"]}`, got.text)
	got = d.get(d.admin + "/readyz")
	require.Equal(t, 503, got.status)
	list := got.json(t)["conditions"].([]any)
	require.Len(t, list, 2)
	require.Equal(t, object{"name": "store", "message": "10.0.0.1 has no room", "next": "free some space"}, list[1])
	require.NotEmpty(t, list[0].(object)["next"])
	p.ready = nil
	d.SetDraining(false)
	require.Equal(t, 200, d.get(d.base+"/readyz").status)
}

func TestHealthAnswersHEADAndHasTimeouts(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, d.base+path, nil)
		require.NoError(t, err)
		require.Equal(t, 200, d.do(req).status, path)
	}
	srv := d.HTTPServer(d.Public())
	for _, timeout := range []time.Duration{srv.ReadHeaderTimeout, srv.ReadTimeout, srv.WriteTimeout, srv.IdleTimeout} {
		require.Positive(t, timeout)
	}
	require.Greater(t, srv.WriteTimeout, DefaultIntakeDeadline)
	require.Positive(t, srv.MaxHeaderBytes)
}
