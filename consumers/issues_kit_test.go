package consumers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/streams"
)

var issuesKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// tenancy answers one tenant for every repository.
type tenancy string

func (t tenancy) RepoTenant(context.Context, string) (string, error) { return string(t), nil }

// counter is an office: a stand-in of GitHub, a store, and a clock that can
// be set forward. Processes come and go.
type counter struct {
	t     *testing.T
	env   *natstest.Env
	gh    *githubtest.Server
	ahead atomic.Int64
	store *kv.EventStore // the routes'
}

var (
	ann    = operator.Owner{Tenant: "invotek", Operator: "ann", Conversation: "c1"}
	wanted = operator.Intent{Repo: "acme/site", Title: "Fix the door", Body: "It squeaks."}
)

func newCounter(t *testing.T) *counter {
	t.Helper()
	c := &counter{t: t, env: natstest.New(t)}
	var err error
	c.gh, err = githubtest.New(githubtest.Options{Key: issuesKey(), RateLimit: 1 << 30, Now: c.now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.gh.Close()) })
	c.gh.AddInstallation(10, "acme")
	c.gh.AddRepo(10, githubtest.Repo{ID: 100, Owner: "acme", Name: "site"})
	c.store = c.open(c.env.JS)
	return c
}

func (c *counter) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// later sets the clock forward.
func (c *counter) later(d time.Duration) { c.ahead.Add(int64(d)) }

func (c *counter) open(js jetstream.JetStream) *kv.EventStore {
	c.t.Helper()
	s, err := kv.OpenEventStore(c.t.Context(), js, kv.EventStoreOptions{Repo: wanted.Repo, Tenancy: tenancy("invotek"), Now: c.now})
	require.NoError(c.t, err)
	return s
}

// approved is a new request that was confirmed.
func (c *counter) approved() operator.RequestID {
	c.t.Helper()
	id := operator.RequestID(uuid.NewString())
	r, err := c.store.Propose(c.t.Context(), ann, id, wanted)
	require.NoError(c.t, err)
	require.Equal(c.t, operator.Committed, r.Code)
	r, err = c.store.Confirm(c.t.Context(), ann, id, 1)
	require.NoError(c.t, err)
	require.Equal(c.t, operator.Committed, r.Code)
	return id
}

func (c *counter) read(id operator.RequestID) operator.Task {
	c.t.Helper()
	t, err := c.store.Read(c.t.Context(), ann, id)
	require.NoError(c.t, err)
	require.NotNil(c.t, t)
	return *t
}

func (c *counter) await(id operator.RequestID, s operator.State) operator.Task {
	c.t.Helper()
	natstest.Eventually(c.t, "request to be "+string(s), func() bool { return c.read(id).State == s })
	return c.read(id)
}

func (c *counter) posts() int { return c.gh.Requests(githubtest.OpCreateIssue) }

// desk is one process at it.
type desk struct {
	*Issues
	c      *counter
	events *kv.EventStore
	outbox *kv.OutboxStore
	mu     sync.Mutex
	audits []string
}

func (d *desk) audited(kind string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.audits {
		if strings.HasPrefix(a, kind+" ") {
			return a
		}
	}
	return ""
}

// desk makes a process, which start starts.
func (c *counter) desk(change ...func(*IssuesOptions)) *desk {
	c.t.Helper()
	js, err := jetstream.New(c.env.Connect())
	require.NoError(c.t, err)
	d := &desk{c: c, events: c.open(js)}
	d.outbox, err = kv.OpenOutboxStore(c.t.Context(), js, c.now)
	require.NoError(c.t, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	client, err := githubapp.New(githubapp.Options{
		AppID: c.gh.AppID(), PrivateKey: c.gh.PrivateKey(), APIURL: c.gh.URL(), Transport: transport, Now: c.now,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	require.NoError(c.t, err)
	o := IssuesOptions{
		JS: js, Events: d.events, GitHub: client, Outbox: d.outbox, Repo: wanted.Repo, Boot: NewBoot(),
		Restore: func(ctx context.Context, _, _ string) error {
			set, err := natstest.Set()
			if err == nil {
				_, err = streams.Reconcile(ctx, js, set, streams.Options{})
			}
			return err
		},
		Audit: func(kind, repo, detail string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.audits = append(d.audits, kind+" "+repo+" "+detail)
		},
		Logger: slog.New(slog.DiscardHandler), Now: c.now, Registerer: prometheus.NewRegistry(), Keep: 30 * 24 * time.Hour,
		SweepEvery: time.Hour, SearchFirst: 5 * time.Millisecond, SearchLongest: 20 * time.Millisecond,
	}
	for _, f := range change {
		f(&o)
	}
	d.Issues, err = NewIssues(o)
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = d.Stop(ctx)
		client.Close()
	})
	return d
}

func (d *desk) start() *desk {
	d.Start()
	return d
}

// outage is a store's step that the test lets fail, as a server that is away
// (before) or whose answer is lost (after) does.
type outage struct {
	step, when string
	left       atomic.Int32
}

var errAway = errors.New("no answer")

func (o *outage) hooks() *kv.Hooks {
	fail := func(when string) func(context.Context, string, string) error {
		return func(_ context.Context, op, key string) error {
			if o.when == when && op+" "+key == o.step && o.left.Add(-1) >= 0 {
				return errAway
			}
			return nil
		}
	}
	return &kv.Hooks{Before: fail("before"), After: fail("after")}
}
