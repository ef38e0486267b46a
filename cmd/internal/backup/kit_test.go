package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// owner is whose operator tasks the tests make.
var owner = operator.Owner{Tenant: "invotek", Operator: "ann", Conversation: "c1"}

// shop is a store with the parts of it that the tests use.
type shop struct {
	t      *testing.T
	env    *natstest.Env
	log    *kv.DeliveryLog
	tasks  *kv.TaskStore
	outbox *kv.OutboxStore
	events *kv.EventStore
}

func open(t *testing.T, env *natstest.Env) *shop {
	t.Helper()
	s := &shop{t: t, env: env}
	var err error
	s.log, err = kv.OpenDeliveryLog(t.Context(), env.JS)
	require.NoError(t, err)
	s.tasks, err = kv.OpenTaskStore(t.Context(), env.JS)
	require.NoError(t, err)
	s.outbox, err = kv.OpenOutboxStore(t.Context(), env.JS, time.Now)
	require.NoError(t, err)
	s.events, err = kv.OpenEventStore(t.Context(), env.JS, kv.EventStoreOptions{Repo: "acme/site", Tenancy: everybody{}, Now: time.Now})
	require.NoError(t, err)
	return s
}

// everybody's repository is one tenant's.
type everybody struct{}

func (everybody) RepoTenant(context.Context, string) (string, error) { return owner.Tenant, nil }

// delivery is a webhook that asks for work.
func delivery(n int) task.Delivery {
	return task.Delivery{
		V: task.Version, Source: task.DefaultSource, ID: task.DeliveryID(fmt.Sprintf("d-%d", n)), Event: "issues", Action: "opened",
		InstallationID: 7, RepoID: 11, Repo: "acme/api", Number: n, PayloadHash: fmt.Sprintf("hash-%d", n), ReceivedAt: task.At(noon),
		Task: &task.Spec{FamiliarID: "fam", CloneURL: "https://github.com/acme/api.git", Kind: task.Kind{Name: task.FixIssue, IssueNumber: n, IssueTitle: "Fix"}},
	}
}

// accept stores a delivery.
func (s *shop) accept(n int) kv.Accepted {
	s.t.Helper()
	a, err := s.log.Accept(s.t.Context(), delivery(n))
	require.NoError(s.t, err)
	return a
}

// admit stores a delivery and makes its task's record, in a state.
func (s *shop) admit(n int, state task.State, intents ...task.Intent) task.Record {
	s.t.Helper()
	a := s.accept(n)
	d := delivery(n)
	d.Task.ID = kv.TaskID(d.Source, string(d.ID))
	r, err := task.New(d, a.Seq, task.At(noon))
	require.NoError(s.t, err)
	r.State, r.Intents = state, intents
	if state == task.Running {
		r.Attempts = 1
		r.AttemptLog = []task.Attempt{{N: 1, Boot: "gone", Worker: "w", Nonce: "n", StartedAt: task.At(noon)}}
	}
	_, err = s.tasks.Create(s.t.Context(), r)
	require.NoError(s.t, err)
	return r
}

// admitted acknowledges everything in the log, as admission does.
func (s *shop) admitted() {
	s.t.Helper()
	c, err := s.env.JS.Consumer(s.t.Context(), kv.StreamWebhooks, kv.ConsumerAdmit)
	require.NoError(s.t, err)
	for {
		batch, err := c.FetchNoWait(100)
		require.NoError(s.t, err)
		n := 0
		for m := range batch.Messages() {
			require.NoError(s.t, m.DoubleAck(s.t.Context()))
			n++
		}
		if n == 0 {
			return
		}
	}
}

// request is an operator task brought to a state.
func (s *shop) request(state operator.State) operator.RequestID {
	s.t.Helper()
	id := operator.RequestID(uuid.NewString())
	r, err := s.events.Propose(s.t.Context(), owner, id, operator.Intent{Repo: "acme/site", Title: "t"})
	require.NoError(s.t, err)
	require.Equal(s.t, operator.Committed, r.Code)
	if state == operator.StateProposed {
		return id
	}
	r, err = s.events.Confirm(s.t.Context(), owner, id, 1)
	require.NoError(s.t, err)
	require.Equal(s.t, operator.Committed, r.Code)
	return id
}

// take takes a backup of a server into a file.
func take(t *testing.T, env *natstest.Env, o TakeOptions) string {
	t.Helper()
	o.Now = time.Now
	path := filepath.Join(t.TempDir(), "backup")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer f.Close()
	_, err = Take(t.Context(), env.NC, f, o)
	require.NoError(t, err)
	return path
}

func opened(t *testing.T, path string) *Archive {
	t.Helper()
	a, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// elsewhere restores a backup to a fresh server.
func elsewhere(t *testing.T, path string, o RestoreOptions) (*shop, kv.Held) {
	t.Helper()
	env := natstest.New(t, natstest.WithoutStreams())
	o.Hold.Now = time.Now
	held, err := Restore(t.Context(), env.NC, opened(t, path), o)
	require.NoError(t, err)
	return open(t, env), held
}

func count(t *testing.T, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	return s.CachedInfo().State.Msgs
}

func jetstreamOf(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

// through connects to a test server's listener, as to that of a running belay.
func through(env *natstest.Env) Connect {
	return func(*config.Config, string) (*nats.Conn, error) { return nats.Connect(env.URL()) }
}
