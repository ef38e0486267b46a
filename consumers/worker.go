package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// Worker claims tasks and runs them, Concurrency at a time.
type Worker struct {
	o      Options
	log    *slog.Logger
	tokens *tokens
	slots  *slots
	met    *metrics

	mu        sync.Mutex
	sched     scheduler
	running   map[task.ID]*run
	claiming  map[task.ID]bool
	used      int // slots of claimers and runs
	claimers  int // claimers that have not picked yet
	emptyPull time.Time
	lastPull  time.Time
	beatAt    time.Time // when the last acknowledged beat was sent
	beatRev   uint64
	started   bool
	undecided int // runs that ended without a word in the store

	free     chan struct{} // signals that a slot or a pick was given back
	orphans  chan struct{} // asks the healer to look for orphans
	stopPull context.CancelFunc
	stopWork context.CancelFunc
	pulling  sync.WaitGroup
	working  sync.WaitGroup
	beating  sync.WaitGroup
	work     context.Context
	pull     context.Context
	crew     *crew // of claims and runs

	leaked map[view.HeldSlot]time.Time // places that nobody seems to need, since when; the healer's
}

// run is one attempt that this process holds.
type run struct {
	id     task.ID
	inst   int64
	holder task.Holder
	record task.Record // as it was written last; mu guards it and rev
	rev    uint64      // of that, 0 until the claim is won
	ctx    context.Context
	cancel context.CancelCauseFunc
	shown  atomic.Bool // by the view, once
	asked  time.Time   // the pointer, last, whether a newer review waits

	seated   bool      // it has a place under its installation's cap
	seatedAt time.Time // asked for then
}

// NewWorker makes a worker; Start starts it.
func NewWorker(o Options) (*Worker, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	w := &Worker{
		o: o, log: o.Logger, tokens: newTokens(o.JS, o.Restore),
		sched:   scheduler{boot: o.Boot, rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))},
		running: map[task.ID]*run{}, claiming: map[task.ID]bool{}, free: make(chan struct{}, 1),
		orphans: make(chan struct{}, 1),
	}
	// Until Start there is nothing to stop.
	w.work, w.stopWork = context.WithCancel(context.Background())
	w.pull, w.stopPull = context.WithCancel(context.Background())
	w.crew = newCrew(w.work.Done())
	w.met = newMetrics(o.Registerer, w)
	w.slots = newSlots(w.work, &o, w.met)
	o.View.SetSelf(o.Boot)
	o.View.SetLimits(o.Limit)
	if o.Surfaces != nil {
		o.View.SetParked(func(installation int64) bool {
			until, _ := o.Surfaces.Parked(installation)
			return !until.IsZero()
		})
	}
	return w, nil
}

// errStarted is the answer to a second Start, or to one after Stop.
var errStarted = errors.New("start worker: it was started or stopped before")

// Start recovers what this boot's predecessors held and begins to pull. It
// does not block on work; the view must be synced. A worker starts once.
func (w *Worker) Start(ctx context.Context) error {
	if !w.claimStart() {
		return errStarted
	}
	w.beat(ctx)
	if w.o.Alone {
		if err := w.recover(ctx, true); err != nil {
			return fmt.Errorf("recover interrupted tasks: %w", err)
		}
		w.healSlots(ctx, true)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pull.Err() != nil {
		return errStarted
	}
	w.pulling.Go(func() { w.dispatch(w.pull) })
	w.beating.Go(func() { w.live(w.work) })
	w.beating.Go(func() { w.heal(w.work) })
	return nil
}

func (w *Worker) claimStart() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.started && w.pull.Err() == nil
	w.started = true
	return first
}

// Stop stops pulling, waits up to the drain timeout for runs, releases those
// that remain (their attempt is free) and ends the beats. Ending ctx skips
// the wait: what runs is released at once. It may be called again.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	w.stopPull()
	started := w.started
	w.mu.Unlock()
	if !started {
		return nil
	}
	w.pullWait(ctx)
	w.tokens.close()
	done := make(chan struct{})
	go func() { w.working.Wait(); close(done) }()
	timer := time.NewTimer(w.o.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		w.cancelAll(errReleased)
	case <-ctx.Done():
		w.cancelAll(errReleased)
	}
	err := w.finishWait(ctx, done)
	w.slots.settle(hurriedTimeout)
	w.stopWork()
	w.beating.Wait()
	ectx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if perr := w.o.Store.EndBeats(ectx, w.o.Boot); perr != nil && err == nil {
		err = fmt.Errorf("end beats: %w", perr)
	}
	return err
}

// pullWait waits for claimers. One that asks a silent store for the fate of
// its claim is not waited for once ctx has ended.
func (w *Worker) pullWait(ctx context.Context) {
	done := make(chan struct{})
	go func() { w.pulling.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	select {
	case <-done:
	case <-time.After(hurriedTimeout):
		w.stopWork()
		<-done
	}
}

const (
	// releaseTimeout bounds how long released runs may take to end.
	releaseTimeout = 10 * time.Second
	// hurriedTimeout bounds what waits for the store once ctx has ended.
	hurriedTimeout = 2 * time.Second
	// killTimeout is that bound for runs: a command that does not heed
	// SIGTERM is killed after its grace, and its attempt shall be free too.
	killTimeout = executor.DefaultKillGrace + time.Second
)

// finishWait waits for the ends of released runs. A store that does not
// answer is given up: recovery will find the runs.
func (w *Worker) finishWait(ctx context.Context, done <-chan struct{}) error {
	long := time.NewTimer(releaseTimeout)
	defer long.Stop()
	select {
	case <-done:
		return nil
	case <-long.C:
	case <-ctx.Done():
		select {
		case <-done:
			return nil
		case <-long.C:
		case <-time.After(killTimeout):
		}
	}
	w.stopWork()
	select {
	case <-done:
	case <-time.After(hurriedTimeout):
	}
	return fmt.Errorf("release runs: %d did not end in time", w.unreleased())
}

// unreleased counts the runs whose end is not in the store.
func (w *Worker) unreleased() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.undecided + len(w.running)
}

func (w *Worker) cancelAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.running {
		r.cancel(cause)
	}
}

// Progress is what readiness looks at.
type Progress struct {
	Running  int
	Slots    int
	LastBeat time.Time // last acknowledged
	LastPull time.Time // last answered, even if empty
}

// Progress reports how the worker stands.
func (w *Worker) Progress() Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Progress{
		Running: len(w.running), Slots: w.o.Concurrency, LastBeat: w.beatAt, LastPull: w.lastPull,
	}
}

func (w *Worker) holds(id task.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.running[id]
	return ok
}

// busy returns a snapshot of the tasks that are being claimed or run here. The
// view calls back under its own lock, which may be taken while w.mu is held
// and never the other way round: it is given snapshots only.
func (w *Worker) busy() func(task.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	set := make(map[task.ID]bool, len(w.running)+len(w.claiming))
	for id := range w.running {
		set[id] = true
	}
	for id := range w.claiming {
		set[id] = true
	}
	return func(id task.ID) bool { return set[id] }
}

func (w *Worker) signal() {
	select {
	case w.free <- struct{}{}:
	default:
	}
}

// execute runs a claimed task to its end.
func (w *Worker) execute(r *run) {
	defer w.working.Done()
	// The run outlives the pull context: draining lets it finish.
	ctx := r.ctx
	defer r.cancel(nil)
	w.o.Hooks.call(func(h *Hooks) func(task.ID) { return h.Claimed }, r.id)
	log := w.log.With("task_id", r.id, "attempt", r.holder.N, "github_delivery_id", r.record.DeliveryID)
	log.Info("task started", "repo", r.record.Repo, "kind", r.record.Kind.Name)
	started := w.o.Now()
	sctx, traced := w.runSpan(ctx, r)
	rep := ending{Report: executor.Report{Class: executor.Canceled, Outcome: task.OutcomeCancelled}}
	if w.stillSeated(r) {
		rep = w.perform(sctx, r)
	} else {
		r.cancel(errUnseated)
	}
	cause := context.Cause(ctx)
	if cause == nil {
		cause = errReleased
	}
	if rep.Cleanup != nil {
		log.Error("run left something behind", "err", rep.Cleanup)
		w.audit("cleanup_failed", r.id, r.record.Repo, rep.Cleanup.Error())
	}
	end, err := w.end(w.work, r, w.verdict(r, rep, cause))
	traced(rep, end, err)
	if err == nil || refused(err) {
		w.unseat(r)
	}
	w.mu.Lock()
	delete(w.running, r.id)
	if err != nil && !refused(err) {
		w.undecided++
	}
	w.mu.Unlock()
	w.met.ended(rep.Report, end, err, w.o.Now().Sub(started))
	if err != nil {
		log.Warn("result discarded", "err", err, "outcome", rep.Outcome, "cause", cause)
	} else {
		log.Info("task ended", "state", end.State, "outcome", rep.Outcome, "detail", rep.Detail)
	}
	w.o.Hooks.call(func(h *Hooks) func(task.ID) { return h.Ended }, r.id)
	w.giveUp()
}
