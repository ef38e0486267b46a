package relay

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/streams"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		child(url)
	}
	goleak.VerifyTestMain(m)
}

// secret is a secret of Standard Webhooks, as people write it down.
func secret(fill byte) redact.Secret {
	return redact.Secret(secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(fill)), 24))))
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// channel is a way out that the test plays.
type channel struct {
	f          func(ctx context.Context, m Message) Answer
	idempotent bool
	mu         sync.Mutex
	sent       []outbox.ID
}

func (c *channel) Deliver(ctx context.Context, m Message) Answer {
	c.mu.Lock()
	c.sent = append(c.sent, m.ID)
	c.mu.Unlock()
	if c.f == nil {
		return Answer{Verdict: Delivered}
	}
	return c.f(ctx, m)
}

func (c *channel) Idempotent() bool { return c.idempotent }

// times counts the tries of a record, all counts all.
func (c *channel) times(id outbox.ID) (n int) {
	for _, s := range c.order() {
		if s == id {
			n++
		}
	}
	return n
}

func (c *channel) order() []outbox.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]outbox.ID(nil), c.sent...)
}

// rig is a process: its own connection, store, view and channels.
type rig struct {
	t        testing.TB
	env      *natstest.Env
	js       jetstream.JetStream
	store    *kv.OutboxStore
	tasks    *kv.TaskStore
	view     *view.View
	channels sync.Map
	offset   *atomic.Int64
	stopView func()
}

func (g *rig) now() time.Time { return time.Now().Add(time.Duration(g.offset.Load())) }

func newRig(t testing.TB, env *natstest.Env) *rig {
	t.Helper()
	g := &rig{t: t, env: env, offset: &atomic.Int64{}}
	ctx := context.Background()
	var err error
	g.js, err = jetstream.New(env.Connect())
	require.NoError(t, err)
	g.store, err = kv.OpenOutboxStore(ctx, g.js, g.now)
	require.NoError(t, err)
	g.tasks, err = kv.OpenTaskStore(ctx, g.js)
	require.NoError(t, err)
	g.view = view.New(quiet, g.now)
	vctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); g.view.Run(vctx, g.js) }()
	g.stopView = func() { cancel(); <-done }
	t.Cleanup(g.stopView)
	natstest.Eventually(t, "the view to catch up", g.view.Synced)
	return g
}

func (g *rig) restore(ctx context.Context, _, _ string) error {
	set, err := natstest.Set()
	if err == nil {
		_, err = streams.Reconcile(ctx, g.js, set, streams.Options{})
	}
	return err
}

func (g *rig) options() Options {
	return Options{
		Store: g.store, View: g.view, JS: g.js, Restore: g.restore, Logger: quiet, Now: g.now, Registerer: prometheus.NewRegistry(),
		Boot: task.BootID(uuid.NewString()), Alone: true, Waits: []time.Duration{0, time.Millisecond, time.Millisecond},
		Derive: Deriver(g.view, g.tasks, g.store),
		Channel: func(name string) (Channel, bool) {
			c, ok := g.channels.Load(name)
			if !ok {
				return nil, false
			}
			return c.(Channel), true
		},
	}
}

// start runs a relay until the test ends.
func (g *rig) start(change ...func(*Options)) *Relay {
	g.t.Helper()
	o := g.options()
	for _, f := range change {
		f(&o)
	}
	r, err := New(o)
	require.NoError(g.t, err)
	r.Start()
	g.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = r.Stop(ctx)
	})
	return r
}

// play registers a channel that the test plays.
func (g *rig) play(name string, f func(ctx context.Context, m Message) Answer) *channel {
	c := &channel{f: f}
	g.channels.Store(name, c)
	return c
}

// callback registers a callback to a receiver.
func (g *rig) callback(name, url string, change ...func(*CallbackOptions)) *Callback {
	g.t.Helper()
	o := CallbackOptions{Name: name, URL: url, Secrets: []redact.Secret{secret('a')}, AllowPrivate: true, Timeout: 5 * time.Second}
	for _, f := range change {
		f(&o)
	}
	c, err := NewCallback(o)
	require.NoError(g.t, err)
	g.channels.Store(CallbackChannel(name), c)
	return c
}

// put records a message: id may be `task-n`.
func (g *rig) put(id outbox.ID, channel string, change ...func(*outbox.Record)) outbox.Record {
	g.t.Helper()
	r, err := outbox.New(id, channel, "to", []byte(`{"id":"`+string(id)+`"}`), g.now())
	require.NoError(g.t, err)
	for _, f := range change {
		f(&r)
	}
	r, err = g.store.Create(context.Background(), r)
	require.NoError(g.t, err)
	return r
}

func of(taskID string, n int) func(*outbox.Record) {
	return func(r *outbox.Record) { r.TaskID, r.Index = taskID, n }
}

func toward(who string) func(*outbox.Record) { return func(r *outbox.Record) { r.To = who } }

func (g *rig) find(id outbox.ID) outbox.Record {
	g.t.Helper()
	r, err := g.store.Find(context.Background(), id)
	require.NoError(g.t, err)
	require.NotNil(g.t, r, id)
	return *r
}

// reaches waits until the record is in a status and returns it.
func (g *rig) reaches(id outbox.ID, s outbox.Status) (rec outbox.Record) {
	g.t.Helper()
	natstest.Eventually(g.t, fmt.Sprintf("%s to be %s", id, s), func() bool {
		r, err := g.store.Find(context.Background(), id)
		if err == nil && r != nil {
			rec = *r
		}
		return rec.Status == s
	})
	return rec
}

// seen waits until the view shows the record in a status.
func (g *rig) seen(id outbox.ID, s outbox.Status) {
	g.t.Helper()
	natstest.Eventually(g.t, fmt.Sprintf("the view to show %s as %s", id, s), func() bool {
		it, ok := g.view.FindOutbox(id)
		return ok && it.Status == s
	})
}

// receiver is a third party that counts what it got.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  map[string]int
	reqs []*http.Request
	body [][]byte
}

func newReceiver(t testing.TB, answer http.HandlerFunc) *receiver {
	r := &receiver{got: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got[req.Header.Get(HeaderID)]++
		r.reqs, r.body = append(r.reqs, req), append(r.body, body)
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) times(id outbox.ID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[string(id)]
}

// total is how many requests came.
func (r *receiver) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.reqs)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
