package githubapp

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// appKey is one key for all tests: making one takes longer than most of them.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// clock is a time that only moves when it is told to, or slept on.
type clock struct {
	mu    sync.Mutex
	at    time.Time
	slept []time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.slept = c.at.Add(d), append(c.slept, d)
	return ctx.Err()
}

// kit is a stand-in of GitHub with one installation and repository, and a
// client of it.
type kit struct {
	*githubtest.Server
	clock  *clock
	client *Client
	reg    *prometheus.Registry
	logs   *syncBuffer
	repo   Repo
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

const bob = "bob"

func newKit(t *testing.T, change ...func(*githubtest.Options, *Options)) *kit {
	t.Helper()
	k := &kit{
		clock: &clock{at: time.Now().Truncate(time.Second)}, reg: prometheus.NewRegistry(), logs: &syncBuffer{},
		repo: Repo{Installation: 10, ID: 100, Owner: "acme", Name: "api"},
	}
	so := githubtest.Options{Key: appKey(), Now: k.clock.Now}
	co := Options{
		Now: k.clock.Now, Sleep: k.clock.Sleep, Registerer: k.reg, Timeout: 10 * time.Second,
		Logger: slog.New(slog.NewJSONHandler(k.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&so, &co)
	}
	var err error
	k.Server, err = githubtest.New(so)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	k.AddInstallation(10, "acme")
	k.AddRepo(10, githubtest.Repo{ID: 100, Owner: "acme", Name: "api"})
	k.AddIssue(100, githubtest.Issue{Number: 7, Title: "It is broken", Login: bob})
	k.AddPull(100, githubtest.Pull{Number: 8, Title: "Mend it", Login: bob, Branch: "mend", HeadSHA: githubtest.SHA("h1"), Files: []string{"a.go"}})
	co.AppID, co.PrivateKey, co.APIURL = k.AppID(), k.PrivateKey(), k.URL()
	k.client = k.another(t, co)
	return k
}

// another makes a client as another process would have it.
func (k *kit) another(t *testing.T, o Options) *Client {
	t.Helper()
	if o.AppID == 0 {
		o = Options{AppID: k.AppID(), PrivateKey: k.PrivateKey(), APIURL: k.URL(), Now: k.clock.Now, Sleep: k.clock.Sleep, Timeout: 10 * time.Second}
	}
	o.Transport = &http.Transport{MaxIdleConnsPerHost: 16}
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func (k *kit) head() string { return githubtest.SHA("acme/api") } // of main

func (k *kit) thread(number int) Thread { return Thread{Repo: k.repo, Number: number, Familiar: "fam"} }

func (k *kit) check(id string) CheckSpec {
	return CheckSpec{Head: k.head(), ExternalID: id, Name: CheckName("fam")}
}

// fix is the record of a task on issue 7.
func (k *kit) fix(id string) task.Record {
	return task.Record{
		ID: task.ID(id), InstallationID: 10, RepoID: 100, Repo: "acme/api", DefaultBranch: "main", FamiliarID: "fam", State: task.Running,
		Kind:  task.Kind{Name: task.FixIssue, IssueNumber: 7, IssueTitle: "It is broken"},
		Title: "It is broken", Number: 7,
	}
}

// review is the record of a review of pull request 8.
func (k *kit) review(id, head string) task.Record {
	r := k.fix(id)
	r.Kind = task.Kind{Name: task.ReviewPullRequest, PRNumber: 8, PRTitle: "Mend it", Reason: "opened"}
	r.Title, r.Number, r.HeadSHA = r.Kind.Title(), 8, head
	return r
}

func (k *kit) surfaces(t *testing.T, o SurfacesOptions) *Surfaces {
	t.Helper()
	if o.Client == nil {
		o.Client = k.client
	}
	s, err := NewSurfaces(o)
	require.NoError(t, err)
	return s
}

// gauge reads a metric of the kit's registry; false if it is not there.
func (k *kit) gauge(t *testing.T, name string, labels ...string) (float64, bool) {
	t.Helper()
	families, err := k.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metric:
		for _, m := range f.GetMetric() {
			for i, l := range m.GetLabel() {
				if i < len(labels) && l.GetValue() != labels[i] {
					continue metric
				}
			}
			if m.GetCounter() != nil {
				return m.GetCounter().GetValue(), true
			}
			return m.GetGauge().GetValue(), true
		}
	}
	return 0, false
}

// waiting counts who holds or wants a key.
func (k *keyed) waiting(key string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.of[key]; l != nil {
		return l.waiting
	}
	return 0
}
