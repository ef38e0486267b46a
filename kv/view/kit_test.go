package view

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// bench is a view that is fed by hand, at revisions that rise.
type bench struct {
	*View
	t     testing.TB
	clock *clock
	rev   uint64
}

func newBench(t testing.TB) *bench {
	c := &clock{at: noon}
	return &bench{View: New(quiet, c.now), t: t, clock: c}
}

func id(n int) task.ID {
	return task.ID(uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%d", n)).String())
}

// rec is a small record: id(n), logged at sequence n.
func rec(n int, change ...func(*task.Record)) task.Record {
	r := task.Record{
		V: task.Version, ID: id(n), DeliverySeq: uint64(n), InstallationID: 7, RepoID: 11, Repo: "acme/api", FamiliarID: "fam",
		Kind: task.Kind{Name: task.FixIssue, IssueNumber: n, IssueTitle: "t"}, Number: n, State: task.Queued,
		Title: fmt.Sprintf("title %d", n), CreatedAt: task.At(noon), UpdatedAt: task.At(noon),
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func state(s task.State) func(*task.Record) { return func(r *task.Record) { r.State = s } }

func inst(i int64) func(*task.Record) { return func(r *task.Record) { r.InstallationID = i } }

func held(boot task.BootID) func(*task.Record) {
	return func(r *task.Record) {
		r.State, r.Attempts = task.Running, 1
		r.AttemptLog = []task.Attempt{{N: 1, Boot: boot, Nonce: "n", StartedAt: task.At(noon)}}
	}
}

func review(pr int, fam string) func(*task.Record) {
	return func(r *task.Record) {
		r.Kind = task.Kind{Name: task.ReviewPullRequest, PRNumber: pr}
		r.Number, r.FamiliarID = pr, fam
	}
}

func keyOf(r task.Record) string { return fmt.Sprintf("task.%d.%s", r.InstallationID, r.ID) }

func (b *bench) put(key string, value []byte) {
	b.rev++
	b.apply(update{key: key, value: value, rev: b.rev})
}

func (b *bench) tasks(rs ...task.Record) {
	for _, r := range rs {
		b.put(keyOf(r), mustJSON(r))
	}
}

func (b *bench) purge(key string) {
	b.rev++
	b.apply(update{key: key, rev: b.rev, deleted: true})
}

func never(task.ID) bool { return false }

// eligible returns the ids of an installation's candidates.
func (b *bench) eligible(i int64) (out []task.ID) {
	for _, c := range b.Eligible(1000, 0, never)[i] {
		out = append(out, c.ID)
	}
	return out
}

// watching is a view that watches a server's bucket.
type watching struct {
	*View
	env *natstest.Env
	t   testing.TB
}

func watch(t testing.TB) *watching {
	t.Helper()
	w := &watching{View: New(quiet, time.Now), env: natstest.New(t), t: t}
	w.run()
	return w
}

// run starts a watch over the server's present connection; it ends with the test.
func (w *watching) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	js := w.env.JS
	go func() {
		defer close(done)
		w.Run(ctx, js)
	}()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return stop
}

// publish writes a key past every store, as a foreign hand could.
func (w *watching) publish(key string, value []byte) {
	w.t.Helper()
	_, err := w.env.JS.Publish(context.Background(), "$KV.STATE."+key, value)
	require.NoError(w.t, err)
}

func (w *watching) store(rs ...task.Record) {
	w.t.Helper()
	for _, r := range rs {
		w.publish(keyOf(r), mustJSON(r))
	}
}

func (w *watching) until(what string, cond func() bool) {
	w.t.Helper()
	natstest.Eventually(w.t, what, cond)
}

func (w *watching) knows(n int) bool { _, ok := w.Find(id(n)); return ok }

func mustJSON(r task.Record) []byte {
	b, err := json.Marshal(&r)
	if err != nil {
		panic(err)
	}
	return b
}
