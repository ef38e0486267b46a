package consumers

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

const (
	modelLanes      = 2 // servers side by side
	modelMaxRetries = 1
)

// TestModel drives two processes through random sequences of what may happen
// to them, on a real server, and holds every record against the promises.
//
//	BELAY_MODEL_CHECKS, BELAY_MODEL_STEPS  sequences, and least steps of each
//	BELAY_MODEL_SEED                       repeats a run
func TestModel(t *testing.T) {
	t.Parallel()
	seed := fromEnv("BELAY_MODEL_SEED", int(time.Now().UnixNano()>>10))
	checks, steps := fromEnv("BELAY_MODEL_CHECKS", modelChecks), fromEnv("BELAY_MODEL_STEPS", 30)
	t.Logf("BELAY_MODEL_SEED=%d, %d sequences of at least %d steps", seed, checks, steps)
	for name, value := range map[string]string{
		"rapid.checks": strconv.Itoa(checks / modelLanes), "rapid.seed": strconv.Itoa(seed),
		"rapid.shrinktime": "10s", "rapid.nofailfile": "true",
	} {
		require.NoError(t, flag.Set(name, value))
	}
	for n := range modelLanes {
		t.Run(fmt.Sprint("lane ", n), func(t *testing.T) {
			t.Parallel()
			l := newLane(t)
			rapid.Check(t, func(rt *rapid.T) {
				m := l.begin(rt)
				defer m.killAll()
				if n > 0 { // another lane, another sequence from the same seed
					_ = rapid.Uint64().Draw(rt, "lane")
				}
				for range rapid.IntRange(steps, steps+15).Draw(rt, "steps") {
					m.step()
					m.check()
				}
				m.settle()
				m.checkEnd()
			})
		})
	}
}

// lane is a server with the views of two processes, used for one sequence
// after the other, each with an installation of its own.
type lane struct {
	t     *testing.T
	env   *natstest.Env
	log   *kv.DeliveryLog
	store *kv.TaskStore
	views [2]*view.View
	next  int64
	js    jetstream.JetStream
	stop  func()

	mu    sync.Mutex
	last  map[task.ID]task.Record // as the history last showed it
	asked map[task.ID]bool        // to be retried before they had an attempt
	bad   []string                // moves that must not be
}

func newLane(t *testing.T) *lane {
	l := &lane{t: t, env: natstest.New(t), last: map[task.ID]task.Record{}, asked: map[task.ID]bool{}}
	l.open(1)
	t.Cleanup(func() { l.stop() })
	return l
}

// open connects, watches the bucket twice and follows its history.
func (l *lane) open(from uint64) {
	nc, err := nats.Connect("", l.env.Server.ConnectOptions()...)
	require.NoError(l.t, err)
	l.js, err = jetstream.New(nc)
	require.NoError(l.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	l.log, err = kv.OpenDeliveryLog(ctx, l.js)
	require.NoError(l.t, err)
	l.store, err = kv.OpenTaskStore(ctx, l.js)
	require.NoError(l.t, err)
	var wg sync.WaitGroup
	for i := range l.views {
		v := view.New(slog.New(slog.DiscardHandler), time.Now)
		l.views[i] = v
		wg.Go(func() { v.Run(ctx, l.js) })
		natstest.Eventually(l.t, "the view", v.Synced)
	}
	cons, err := l.js.OrderedConsumer(ctx, kv.StreamState, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"$KV.STATE.task.>"}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
	require.NoError(l.t, err)
	hist, err := cons.Consume(func(msg jetstream.Msg) { l.saw(msg.Data()) })
	require.NoError(l.t, err)
	l.stop = func() {
		hist.Stop()
		<-hist.Closed()
		cancel()
		wg.Wait()
		nc.Close()
	}
}

// restart stops the server under everything and starts it on the same data.
func (l *lane) restart() {
	s, err := l.js.Stream(context.Background(), kv.StreamState)
	require.NoError(l.t, err)
	from := s.CachedInfo().State.LastSeq + 1
	l.stop()
	l.env.Restart()
	l.open(from)
}

// saw holds each state of a record against the one before it.
func (l *lane) saw(data []byte) {
	r, err := task.DecodeRecord(data)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	was, known := l.last[r.ID]
	l.last[r.ID] = r
	if known {
		if why := backward(was, r); why != "" && !(l.asked[r.ID] && was.Attempts == 0 && was.State != task.Superseded) {
			l.bad = append(l.bad, fmt.Sprintf("%s: %s → %s: %s", r.ID, was.State, r.State, why))
		}
	}
}

// backward says why a record cannot come after another; states in between may
// be unseen, as the bucket keeps only the last one.
func backward(was, is task.Record) string {
	retried := is.BudgetFrom > was.BudgetFrom || is.BudgetFrom == was.Attempts && is.State == task.Queued
	switch {
	case was.State == task.Superseded:
		return "a superseded task moved"
	case was.State.Terminal() && !retried:
		return "a terminal task moved and nobody retried it"
	case is.Attempts < was.Attempts:
		return "attempts went down"
	}
	for i, a := range was.AttemptLog {
		if b := is.AttemptLog[i]; !a.EndedAt.IsZero() && a != b || a.Nonce != b.Nonce {
			return "the attempt log was rewritten"
		}
	}
	return ""
}

func (l *lane) begin(rt *rapid.T) *model {
	l.next++
	m := &model{rt: rt, l: l, inst: l.next, live: map[task.ID]int{}, clock: 1}
	for i := range m.procs {
		m.procs[i] = m.newProc(i)
	}
	m.beats(1)
	return m
}

// proc is one life of one of the two processes.
type proc struct {
	m     *model
	slot  int
	view  *view.View
	adm   *Admitter
	w     *Worker
	store *kv.TaskStore

	mu     sync.Mutex
	dead   bool
	frozen chan struct{} // non-nil: holds ends until closed
	fail   int           // the store step that fails, counted down; 0: none
	after  bool
	writes bool // count those only
}

func (m *model) newProc(slot int) *proc {
	p := &proc{m: m, slot: slot, view: m.l.views[slot]}
	var err error
	p.store, err = kv.OpenTaskStore(context.Background(), m.l.js)
	require.NoError(m.rt, err)
	p.store.SetHooks(&kv.Hooks{
		Before: func(_ context.Context, op, _ string) error { return p.at(op, false) },
		After:  func(_ context.Context, op, _ string) error { return p.at(op, true) },
	})
	log := slog.New(slog.DiscardHandler)
	p.adm = NewAdmitter(AdmitterOptions{
		Store: p.store, View: p.view, Familiars: func() []string { return []string{"cody"} }, Replay: time.Hour,
		TombTTL: time.Hour, Deliveries: m.l.log, Now: time.Now, Logger: log,
	})
	p.w, err = NewWorker(Options{
		Store: p.store, View: p.view, JS: m.l.js, Runner: p, Admitter: p.adm, Logger: log, Now: time.Now,
		Familiar:   func(id string) (executor.Familiar, bool) { return executor.Familiar{ID: id}, true },
		Registerer: prometheus.NewRegistry(), Name: "same", Boot: NewBoot(), Concurrency: 64, MaxRetries: modelMaxRetries,
		Timeout: time.Minute, DrainTimeout: time.Second, Backoff: func(int) time.Duration { return 0 },
		BeatEvery: time.Hour, Hooks: &Hooks{BeforeEnd: p.beforeEnd},
	})
	require.NoError(m.rt, err)
	p.w.beat(context.Background())
	return p
}

// at fails a step of the store: all of a dead process, one of a failing one.
func (p *proc) at(op string, after bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return kv.ErrUnknown
	}
	if p.fail == 0 || after != p.after || p.writes && op == "get" {
		return nil
	}
	if p.fail--; p.fail == 0 {
		return kv.ErrUnknown
	}
	return nil
}

func (p *proc) failAt(step int, after, writes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail, p.after, p.writes = step, after, writes
}

func (p *proc) beforeEnd(task.ID) {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

func (p *proc) mute() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen != nil
}

// freeze is what a process that lost its beat comes to: its runs are
// cancelled, and nothing of them is written until it thaws.
func (p *proc) freeze() {
	p.mu.Lock()
	p.frozen = make(chan struct{})
	p.mu.Unlock()
	p.w.mu.Lock()
	p.w.beatAt = time.Time{}
	p.w.mu.Unlock()
	p.w.cancelAll(errLostBeat)
}

func (p *proc) thaw() {
	p.mu.Lock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
	p.mu.Unlock()
}

// kill ends the process: nothing of it reaches the store any more.
func (p *proc) kill() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.w.stopPull()
	p.w.stopWork()
	p.thaw()
	p.w.working.Wait()
}

// Run is the process's runner: a run lasts until a step ends it.
func (p *proc) Run(ctx context.Context, job executor.Job) executor.Report {
	h := &held{p: p, id: job.Task.ID, end: make(chan executor.Report, 1)}
	p.m.began(h)
	defer p.m.over(h)
	select {
	case rep := <-h.end:
		return rep
	case <-ctx.Done():
		return executor.Report{Class: executor.Canceled, Outcome: task.OutcomeCancelled}
	}
}
