package consumers

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// fleet is the option of a process that shares its server with others.
func fleet(o *Options) { o.Alone = false }

// steady is a fleet whose beats a busy machine does not miss.
func steady(o *Options) { o.Alone, o.BeatEvery = false, 2*beat }

// watchOnly leaves a process nothing but the watch to be woken by.
func watchOnly(o *Options) { o.BeatEvery, o.ProbeEvery = time.Hour, time.Hour }

// quiet keeps liveness out of a test: nobody ever misses a beat.
func quiet(o *Options) { o.BeatEvery = time.Hour }

// crash ends a process as kill -9 does: from now on it writes nothing, and
// neither releases nor says goodbye.
func (b *bench) crash() {
	b.nc.Close()
	b.worker.stopPull()
	b.worker.stopWork()
	b.worker.pulling.Wait()
	b.worker.working.Wait()
	b.worker.beating.Wait()
}

// admitted makes the record of a delivery and waits until the view shows it.
func (b *bench) admitted(d task.Delivery) task.ID {
	b.t.Helper()
	acc, err := b.log.Accept(b.t.Context(), d)
	require.NoError(b.t, err)
	require.NoError(b.t, b.adm.Admit(b.t.Context(), acc.Delivery, acc.Seq))
	id, _ := acc.Delivery.Routing.Task()
	b.seenAny(id)
	return id
}

// admitAt admits a logged delivery again, as its message would.
func (b *bench) admitAt(seq uint64) error {
	l, err := b.log.Get(b.t.Context(), seq)
	require.NoError(b.t, err)
	return b.adm.Admit(b.t.Context(), l.Delivery, l.Seq)
}

// gate holds whoever comes to it until it is opened.
type gate struct {
	over    <-chan struct{} // the test's end
	mu      sync.Mutex
	arrived int
	open    chan struct{}
}

func newGate(t *testing.T) *gate { return &gate{over: t.Context().Done(), open: make(chan struct{})} }

func (g *gate) wait(task.ID) {
	g.mu.Lock()
	g.arrived++
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-g.over:
	}
}

func (g *gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.arrived
}

// overlap is a runner that notes how many runs of one task are live at once,
// over all processes that share it.
type overlap struct {
	mu    sync.Mutex
	live  map[task.ID]int
	most  int
	total int
	hold  func(ctx context.Context, job executor.Job) executor.Report
}

func newOverlap(f func(context.Context, executor.Job) executor.Report) *overlap {
	return &overlap{live: map[task.ID]int{}, hold: f}
}

func (o *overlap) run(ctx context.Context, job executor.Job) executor.Report {
	o.mu.Lock()
	o.live[job.Task.ID]++
	o.total++
	o.most = max(o.most, o.live[job.Task.ID])
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.live[job.Task.ID]--
		o.mu.Unlock()
	}()
	if o.hold == nil {
		return completed()
	}
	return o.hold(ctx, job)
}

func (o *overlap) counts() (most, total int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.most, o.total
}

// failOn makes one step of the store fail, or its answer get lost, so many
// times, for keys with a prefix.
type failOn struct {
	op, prefix string
	times      int
	after      bool
	err        error

	mu   sync.Mutex
	hits int
}

func (f *failOn) hooks() *kv.Hooks {
	step := func(after bool) func(context.Context, string, string) error {
		return func(_ context.Context, op, key string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if after != f.after || op != f.op || !hasPrefix(key, f.prefix) || f.hits >= f.times {
				return nil
			}
			f.hits++
			return f.err
		}
	}
	return &kv.Hooks{Before: step(false), After: step(true)}
}

const always = 1 << 30

// set changes how often the step fails from now on.
func (f *failOn) set(times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times = f.hits + times
}

func (f *failOn) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// mute returns a switch that keeps the process from beating; it is off.
func (b *bench) mute() *failOn {
	f := &failOn{op: "put", prefix: "worker.", err: kv.ErrUnknown}
	b.store.SetHooks(f.hooks())
	return f
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// put writes a raw value, as no belay of this version would.
func put(t *testing.T, env *natstest.Env, key, value string) {
	t.Helper()
	_, err := env.NC.Request("$KV.STATE."+key, []byte(value), 5*time.Second)
	require.NoError(t, err)
}

// stays checks that a condition holds for as long as a watched state takes to
// show that it would not: the beats and probes of a process are counted.
func stays(t *testing.T, b *bench, beats int, what string, cond func() bool) {
	t.Helper()
	from, _ := b.view.OwnBeat()
	seen := 0
	natstest.Eventually(t, "beats to pass", func() bool {
		require.True(t, cond(), what)
		if rev, _ := b.view.OwnBeat(); rev != from {
			from = rev
			seen++
		}
		return seen >= beats
	})
}

// auditLog counts what was recorded.
type auditLog struct {
	mu    sync.Mutex
	kinds map[string]int
}

func (a *auditLog) Record(kind string, _ task.ID, _, _ string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kinds == nil {
		a.kinds = map[string]int{}
	}
	a.kinds[kind]++
}

func (a *auditLog) count(kind string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kinds[kind]
}
