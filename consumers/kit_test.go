package consumers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// fakeRunner runs what the test says; by default everything completes at once.
type fakeRunner struct {
	mu   sync.Mutex
	f    func(ctx context.Context, job executor.Job) executor.Report
	runs []string // task/attempt, in order of start
}

func (r *fakeRunner) Run(ctx context.Context, job executor.Job) executor.Report {
	r.mu.Lock()
	r.runs = append(r.runs, fmt.Sprintf("%s/%d", job.Task.ID, job.Attempt))
	f := r.f
	r.mu.Unlock()
	if f == nil {
		return completed()
	}
	return f(ctx, job)
}

func (r *fakeRunner) started() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.runs...)
}

func completed() executor.Report {
	return executor.Report{
		Class: executor.Done, Outcome: task.OutcomeCompleted,
		Result: task.Result{State: task.Completed, Status: task.ResultSuccess, Summary: "done"},
	}
}

func retryable(detail string) executor.Report {
	return executor.Report{Class: executor.Retryable, Outcome: task.OutcomeFailed, Detail: detail}
}

// hold returns a runner function that blocks until release is closed or its
// context ends.
func hold(release <-chan struct{}) func(context.Context, executor.Job) executor.Report {
	return func(ctx context.Context, _ executor.Job) executor.Report {
		select {
		case <-release:
			return completed()
		case <-ctx.Done():
			return executor.Report{Class: executor.Canceled, Outcome: task.OutcomeCancelled}
		}
	}
}

// bench is one process over a shared server: stores, view, admit, worker.
type bench struct {
	t      *testing.T
	env    *natstest.Env
	log    *kv.DeliveryLog
	store  *kv.TaskStore
	view   *view.View
	admit  *AdmitLoop
	adm    *Admitter
	worker *Worker
	runner *fakeRunner
	opts   Options
	nc     *nats.Conn
	js     jetstream.JetStream

	stopView func()
}

// newBench makes the parts but starts only the view.
func newBench(t *testing.T, env *natstest.Env, change ...func(*Options)) *bench {
	t.Helper()
	nc := env.Connect()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return newBenchOn(t, env, nc, js, slog.New(slog.DiscardHandler), change...)
}

// newBenchOn is newBench over a connection of the caller's.
func newBenchOn(t *testing.T, env *natstest.Env, nc *nats.Conn, js jetstream.JetStream, logger *slog.Logger, change ...func(*Options)) *bench {
	t.Helper()
	ctx := t.Context()
	b := &bench{t: t, env: env, runner: &fakeRunner{}, nc: nc, js: js}
	var err error
	b.log, err = kv.OpenDeliveryLog(ctx, b.js)
	require.NoError(t, err)
	b.store, err = kv.OpenTaskStore(ctx, b.js)
	require.NoError(t, err)
	b.view = view.New(logger, time.Now)
	vctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); b.view.Run(vctx, b.js) }()
	b.stopView = func() { cancel(); <-done }
	t.Cleanup(b.stopView)
	b.adm = NewAdmitter(AdmitterOptions{
		Store: b.store, View: b.view, Familiars: func() []string { return []string{"cody", "rita"} },
		Replay: time.Hour, TombTTL: time.Hour, Deliveries: b.log, Now: time.Now, Logger: logger,
	})
	restore := func(ctx context.Context, _, _ string) error {
		set, err := natstest.Set()
		if err == nil {
			_, err = streams.Reconcile(ctx, b.js, set, streams.Options{})
		}
		return err
	}
	reg := prometheus.NewRegistry()
	b.opts = Options{
		Store: b.store, View: b.view, JS: b.js, Runner: b.runner, Admitter: b.adm, Restore: restore,
		Familiar: func(id string) (executor.Familiar, bool) { return executor.Familiar{ID: id}, true },
		Logger:   logger, Now: time.Now, Registerer: reg, Name: "test", Boot: NewBoot(), Alone: true,
		Concurrency: 2, MaxRetries: 2, Timeout: time.Minute, DrainTimeout: 5 * time.Second,
		Backoff: func(int) time.Duration { return 0 }, BeatEvery: beat, ProbeEvery: 100 * time.Millisecond,
	}
	for _, f := range change {
		f(&b.opts)
	}
	b.worker, err = NewWorker(b.opts)
	require.NoError(t, err)
	t.Cleanup(b.worker.stopWork)
	b.admit = NewAdmitLoop(b.js, b.adm, restore, reg)
	natstest.Eventually(t, "the view to catch up", b.view.Synced)
	return b
}

// start starts admission and the worker; the test's end stops them.
func (b *bench) start() *bench {
	b.t.Helper()
	b.startWorker()
	b.admit.Start()
	b.t.Cleanup(func() { _ = b.admit.Stop(context.Background()) })
	return b
}

func (b *bench) startWorker() {
	b.t.Helper()
	require.NoError(b.t, b.worker.Start(b.t.Context()))
	var once sync.Once
	b.t.Cleanup(func() { once.Do(func() { _ = b.worker.Stop(context.Background()) }) })
}

// accept logs a delivery and returns its task's id.
func (b *bench) accept(d task.Delivery) task.ID {
	b.t.Helper()
	acc, err := b.log.Accept(b.t.Context(), d)
	require.NoError(b.t, err)
	id, _ := acc.Delivery.Routing.Task()
	return id
}

func (b *bench) record(id task.ID) task.Record {
	b.t.Helper()
	r, _, err := b.store.Get(b.t.Context(), 7, id)
	require.NoError(b.t, err)
	return r
}

// reaches waits until the record is in the state and returns it.
func (b *bench) reaches(id task.ID, s task.State) task.Record {
	b.t.Helper()
	var r task.Record
	natstest.Eventually(b.t, fmt.Sprintf("task %s to be %s", id, s), func() bool {
		var err error
		r, _, err = b.store.Get(context.Background(), 7, id)
		return err == nil && r.State == s
	})
	return r
}

// seen waits until the view shows the task in the state.
func (b *bench) seen(id task.ID, s task.State) {
	b.t.Helper()
	natstest.Eventually(b.t, fmt.Sprintf("the view to show task %s as %s", id, s), func() bool {
		st, ok := b.view.Standing(id)
		return ok && st.State == s
	})
}

func base() task.Delivery {
	id := uuid.NewString()
	return task.Delivery{
		V: task.Version, Source: task.DefaultSource, ID: task.DeliveryID(id), Event: "issues", Action: "labeled",
		InstallationID: 7, RepoID: 99, Repo: "acme/api", PayloadHash: id, ReceivedAt: task.At(time.Now()),
	}
}

func issue(n int) task.Delivery {
	d := base()
	d.Number = n
	d.Task = &task.Spec{FamiliarID: "cody", Kind: task.Kind{Name: task.FixIssue, IssueNumber: n, IssueTitle: fmt.Sprint("Issue ", n)}}
	return d
}

// review is a push to a pull request at a time of its own clock.
func review(n int, head, before string, at int) task.Delivery {
	d := base()
	d.Event, d.Action, d.Number = "pull_request", "synchronize", n
	d.Task = &task.Spec{
		FamiliarID: "cody", HeadSHA: head,
		Kind:   task.Kind{Name: task.ReviewPullRequest, PRNumber: n, PRTitle: "PR", Reason: "synchronize"},
		Review: &task.Review{Before: before, UpdatedAt: task.At(time.Unix(int64(at), 0))},
	}
	return d
}

// pull asks for one token and waits for the answer.
func (t *tokens) pull(ctx context.Context) (*token, error) { return t.wait(ctx, t.expect(1)[0]) }
