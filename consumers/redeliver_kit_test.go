package consumers

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// redeliverKey is one key for all tests: making one takes longer than they do.
var redeliverKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// hand is a clock that moves when it is told to, and when it is slept on.
type hand struct{ ahead atomic.Int64 }

func (h *hand) Now() time.Time          { return time.Now().Add(time.Duration(h.ahead.Load())) }
func (h *hand) Advance(d time.Duration) { h.ahead.Add(int64(d)) }
func (h *hand) Sleep(ctx context.Context, d time.Duration) error {
	h.Advance(d)
	return ctx.Err()
}

// memory is a log of deliveries whose clock is the test's.
type memory struct {
	mu    sync.Mutex
	began time.Time
	holds map[task.DeliveryID]bool
	looks int
}

func (m *memory) Since() time.Time { return m.began }

func (m *memory) Holds(_ context.Context, _ string, _ time.Time, ids map[task.DeliveryID]bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	for id := range ids {
		ids[id] = m.holds[id]
	}
	return nil
}

func (m *memory) take(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds[task.DeliveryID(id)] = true
}

func (m *memory) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holds[task.DeliveryID(id)]
}

// leads is a process that leads until its context ends.
type leads struct{}

func (leads) Run(ctx context.Context, f func(context.Context)) { f(ctx) }

// redeliverRig is GitHub's stand-in, a webhook that stores what comes, and
// the store of redeliveries.
type redeliverRig struct {
	t      *testing.T
	clock  *hand
	gh     *githubtest.Server
	client *githubapp.Client
	env    *natstest.Env
	mem    *memory
	logs   *logBuffer
	reg    *prometheus.Registry
	hook   *httptest.Server
	status atomic.Int64 // of the webhook's answers; 0 stores and answers 200
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRedeliverRig(t *testing.T) *redeliverRig {
	t.Helper()
	r := &redeliverRig{
		t: t, clock: &hand{}, env: natstest.New(t), logs: &logBuffer{},
		mem: &memory{began: time.Now().AddDate(0, 0, -30), holds: map[task.DeliveryID]bool{}},
	}
	var err error
	r.gh, err = githubtest.New(githubtest.Options{Key: redeliverKey(), Now: r.clock.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.gh.Close()) })
	r.hook = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if n := r.status.Load(); n != 0 {
			w.WriteHeader(int(n))
			return
		}
		r.mem.take(req.Header.Get("X-GitHub-Delivery"))
	}))
	t.Cleanup(r.hook.Close)
	r.gh.SetWebhook(r.hook.URL, "secret")
	r.client, err = githubapp.New(githubapp.Options{
		AppID: r.gh.AppID(), PrivateKey: r.gh.PrivateKey(), APIURL: r.gh.URL(), Now: r.clock.Now, Sleep: r.clock.Sleep,
	})
	require.NoError(t, err)
	t.Cleanup(r.client.Close)
	return r
}

// wantedInTests is what the tests' routing wants.
func wantedInTests(event, action string, installation int64) bool {
	return event == "issues" && action == "labeled" && installation == 7
}

// process is one belay process.
func (r *redeliverRig) process(change ...func(*RedelivererOptions)) *Redeliverer {
	r.t.Helper()
	store, err := kv.OpenRedeliveryStore(r.t.Context(), r.env.JS)
	require.NoError(r.t, err)
	r.reg = prometheus.NewRegistry()
	o := RedelivererOptions{
		Source: "default", GitHub: r.client, Log: r.mem, Store: store, Leader: leads{}, Wants: wantedInTests,
		Now: r.clock.Now, Sleep: r.clock.Sleep, Registerer: r.reg,
		Logger: slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&o)
	}
	return NewRedeliverer(o)
}

// sent records an attempt that was made age ago and answered with status.
func (r *redeliverRig) sent(guid string, status int, age time.Duration, change ...func(*githubtest.Delivery)) {
	d := githubtest.Delivery{
		GUID: guid, Event: "issues", Action: "labeled", InstallationID: 7, StatusCode: status,
		DeliveredAt: r.clock.Now().Add(-age), Payload: json.RawMessage(`{"guid":"` + guid + `"}`),
	}
	for _, f := range change {
		f(&d)
	}
	r.gh.AddDelivery(d)
}

// pass makes a pass and waits for what GitHub was asked for to be listed.
func (r *redeliverRig) pass(p *Redeliverer) {
	r.t.Helper()
	require.NoError(r.t, p.Pass(r.t.Context()))
	r.settled()
}

func (r *redeliverRig) settled() {
	r.t.Helper()
	natstest.Eventually(r.t, "redeliveries to be listed", func() bool {
		n := 0
		for _, d := range r.gh.Deliveries() {
			if d.Redelivery && d.Headers != nil {
				n++
			}
		}
		return n == r.asked()
	})
}

// asked is how often GitHub was asked to deliver something again.
func (r *redeliverRig) asked() int {
	n := 0
	for _, m := range r.gh.Mutations() {
		if m.Op == githubtest.OpRedeliver {
			n++
		}
	}
	return n
}

// metric is the sum of a family's samples that have the label's value, or of
// all; -1 if there are none.
func (r *redeliverRig) metric(name, label string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	require.NoError(r.t, err)
	sum, n := 0.0, 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "belay_redelivery_"+name || label != "" && m.GetLabel()[0].GetValue() != label {
				continue
			}
			n++
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	if n == 0 {
		return -1
	}
	return sum
}
