package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// ReleaseCheck is the name of the check run that holds a pull request.
const ReleaseCheck = "belay/release"

const (
	// releaseParallel is how many gates are looked at at once.
	releaseParallel = 8
	// gateTimeout bounds one look, releaseFresh is how long one is believed.
	gateTimeout  = time.Minute
	releaseFresh = 15 * time.Minute
)

// ReleaseOptions are what a ReleaseGate is made of; all but Audit, SweepEvery
// and Hooks are needed.
type ReleaseOptions struct {
	JS       jetstream.JetStream
	Store    *kv.TaskStore
	Gates    *kv.GateStore
	Releases *kv.ReleaseStore
	// Clients are the Apps by source.
	Clients map[string]*githubapp.Client
	Restore func(ctx context.Context, stream, consumer string) error
	// Audit records what people must be able to find later; may be nil.
	Audit      func(kind, repo, detail string)
	Logger     *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer
	// SweepEvery is the time between two looks for what no event woke; 0 is a minute.
	SweepEvery time.Duration
}

// ReleaseGate holds the pull requests that belay opened for operators' issues
// by a check run, until an owner released exactly their head (OT-92). A check
// run is of one commit, so a new head has no consent by itself; the gate says
// so on it. All is found again on GitHub, and written by what GitHub and the
// store say at the time: doing it twice changes nothing.
type ReleaseGate struct {
	o      ReleaseOptions
	log    *slog.Logger
	count  *prometheus.CounterVec
	follow *follower

	mu    sync.Mutex
	begun bool
	over  bool
	busy  map[string]*sync.Mutex // by the gate's key
	work  context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

// NewReleaseGate makes it; Start starts it.
func NewReleaseGate(o ReleaseOptions) *ReleaseGate {
	o.SweepEvery = orElse(o.SweepEvery, time.Minute)
	if o.Audit == nil {
		o.Audit = func(string, string, string) {}
	}
	g := &ReleaseGate{o: o, log: o.Logger, busy: map[string]*sync.Mutex{}}
	g.count = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "belay_release_checks_total", Help: "Looks at pull requests that wait for a release, by outcome.",
	}, []string{"outcome"})
	for _, s := range []string{"held", "released", "closed", "failed"} {
		g.count.WithLabelValues(s)
	}
	o.Registerer.MustRegister(g.count)
	g.follow = (&follower{
		js: o.JS, stream: kv.StreamWebhooks, consumer: kv.ConsumerReleases, parallel: releaseParallel,
		restore: o.Restore, handle: g.handle, log: o.Logger, now: o.Now,
	}).register(o.Registerer)
	g.work, g.stop = context.WithCancel(context.Background())
	return g
}

// Start begins to work; it does not block. It starts once.
func (g *ReleaseGate) Start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.begun || g.over {
		return
	}
	g.begun = true
	g.follow.sign()
	g.wg.Go(func() { g.follow.run(g.work) })
	g.wg.Go(g.sweepLoop)
}

// Stop ends it in the middle of whatever it does; the next start goes on.
func (g *ReleaseGate) Stop(context.Context) error {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.stop()
	g.wg.Wait()
	return nil
}

// LastSign is when the pull last proved to be alive.
func (g *ReleaseGate) LastSign() time.Time { return g.follow.lastSign() }

// Wake looks at a pull request now, since somebody released it; it does not block.
func (g *ReleaseGate) Wake(repoID int64, number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.wg.Go(func() { _ = g.look(g.work, repoID, number) })
	}
}

// pullActions are the events after which a held pull request may have another
// head, or none.
var pullActions = []string{"opened", "reopened", "synchronize", "ready_for_review", "closed"}

// handle looks at the pull request that a delivery is about, if it is held.
func (g *ReleaseGate) handle(msg jetstream.Msg) {
	d, err := kv.Decode(msg.Data())
	if err != nil || d.Event != "pull_request" || !slices.Contains(pullActions, d.Action) || d.RepoID == 0 || d.Number == 0 {
		_ = msg.Ack() // admission says what cannot be read
		return
	}
	if g.look(g.work, d.RepoID, d.Number) != nil {
		_ = msg.NakWithDelay(5 * time.Second)
		return
	}
	_ = msg.Ack()
}

// look brings the check run of a held pull request up to date.
func (g *ReleaseGate) look(ctx context.Context, repoID int64, number int) error {
	gate, err := g.o.Gates.Find(ctx, repoID, number)
	if err != nil || gate == nil {
		return err
	}
	return g.evaluate(ctx, *gate)
}

// turn lets one at a time look at a gate in this process.
func (g *ReleaseGate) turn(key string) *sync.Mutex {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy[key] == nil {
		g.busy[key] = &sync.Mutex{}
	}
	return g.busy[key]
}

func (g *ReleaseGate) evaluate(ctx context.Context, gate kv.Gate) error {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	turn := g.turn(kv.GateKey(gate.RepoID, gate.Number))
	turn.Lock()
	defer turn.Unlock()
	outcome, err := g.write(ctx, gate)
	if err != nil {
		g.log.Warn("pull request's release check is not up to date", "class", "release", "repo", gate.Repo, "number", gate.Number, "err", err)
	}
	g.count.WithLabelValues(outcome).Inc()
	return err
}

// write makes the check run at the live head say whether that is released.
func (g *ReleaseGate) write(ctx context.Context, gate kv.Gate) (outcome string, err error) {
	client := g.o.Clients[gate.Source]
	repo, err := githubapp.RepoOf(&task.Record{InstallationID: gate.InstallationID, RepoID: gate.RepoID, Repo: gate.Repo})
	if client == nil || err != nil {
		return "failed", errors.Join(ErrNoApp, err)
	}
	pull, err := client.Head(ctx, repo, gate.Number)
	if errors.Is(err, githubapp.ErrNotFound) || err == nil && pull.State == "closed" {
		return "closed", g.o.Gates.Remove(ctx, gate)
	}
	if err != nil {
		return "failed", err
	}
	rel, err := g.o.Releases.Find(ctx, gate.RepoID, gate.Number)
	if err != nil {
		return "failed", err
	}
	run, err := client.EnsureCheckRun(ctx, repo, githubapp.CheckSpec{
		Head: pull.HeadSHA, ExternalID: fmt.Sprintf("release-%d-%d", gate.RepoID, gate.Number), Name: ReleaseCheck,
	})
	if err != nil {
		return "failed", err
	}
	want := holding(gate, pull.HeadSHA)
	if outcome = "held"; rel.Covers(pull.HeadSHA) {
		outcome, want = "released", releasing(rel)
	}
	if _, err = client.UpdateCheckRun(ctx, repo, run, ReleaseCheck, want); err != nil {
		return "failed", err
	}
	if gate.Head != pull.HeadSHA || gate.Conclusion != string(want.Conclusion) {
		g.o.Audit("release_"+outcome, gate.Repo, fmt.Sprintf("pull request %d at %s, request %s", gate.Number, pull.HeadSHA, gate.Operator.RequestID))
	}
	err = g.o.Gates.Note(ctx, gate, pull.HeadSHA, string(want.Conclusion), g.o.Now())
	if errors.Is(err, kv.ErrConflict) || errors.Is(err, kv.ErrNotFound) {
		err = nil // another process's note; the sweep compares it
	}
	return outcome, err
}

func holding(gate kv.Gate, head string) githubapp.CheckUpdate {
	return githubapp.CheckUpdate{
		Status: githubapp.StatusCompleted, Conclusion: githubapp.ActionRequired, Title: "Waits for its release",
		Summary: fmt.Sprintf("This pull request was opened for operator request `%s`. Its owner has to release the head `%s`; a newer head needs a release of its own.",
			gate.Operator.RequestID, head),
	}
}

func releasing(r *kv.Release) githubapp.CheckUpdate {
	return githubapp.CheckUpdate{
		Status: githubapp.StatusCompleted, Conclusion: githubapp.Success, Title: "Released",
		Summary: fmt.Sprintf("The head `%s` was released at %s.", r.Head, r.At.UTC().Format(time.RFC3339)),
	}
}

// sweepLoop finds what no event woke: at start, and every minute.
func (g *ReleaseGate) sweepLoop() {
	every(g.work, g.o.SweepEvery, func() {
		if err := g.sweep(); err != nil && g.work.Err() == nil {
			g.log.Warn("held pull requests could not be looked at, the next sweep does it", "class", "release_sweep", "err", err)
		}
	})
}

// sweep looks at the gates whose check run says something else than the
// store, and at those that nobody looked at for a while.
func (g *ReleaseGate) sweep() error {
	all, err := g.o.Gates.All(g.work)
	if err != nil {
		return err
	}
	for _, gate := range all {
		rel, err := g.o.Releases.Find(g.work, gate.RepoID, gate.Number)
		if err != nil {
			return err
		}
		says := gate.Conclusion == string(githubapp.Success)
		if gate.Head == "" || rel.Covers(gate.Head) != says || g.o.Now().Sub(gate.At.Time) >= releaseFresh {
			_ = g.evaluate(g.work, gate)
		}
	}
	return nil
}

// Channel is the way out of the outbox that puts the gate before an ended
// task's pull request. It is part of the task's end, so no death loses it.
func (g *ReleaseGate) Channel() relay.Channel {
	return &closing{store: g.o.Store, now: g.o.Now, always: true, close: func(ctx context.Context, t task.Record, _ string) error {
		if !Held(&t) {
			return nil
		}
		gate := kv.Gate{
			Source: t.Source, InstallationID: t.InstallationID, RepoID: t.RepoID, Repo: t.Repo, Number: t.PRNumber, Operator: *t.Operator,
		}
		if err := g.o.Gates.Close(ctx, gate); err != nil {
			return err
		}
		return g.look(ctx, t.RepoID, t.PRNumber)
	}}
}

// Held reports whether a task's pull request waits for a release: belay opened
// it, for an issue of an operator's.
func Held(t *task.Record) bool {
	return t.Operator != nil && t.PRNumber != 0 && t.Kind.Name == task.FixIssue
}
