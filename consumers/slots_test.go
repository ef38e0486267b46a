package consumers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// DT-95: however much is queued, and whoever claims it, no more tasks of an
// installation run at once than its cap says: neither by the records nor in
// fact. All of them run in the end, and the other installation meanwhile.
func TestDT95CapHoldsOverTheFleet(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2} {
		t.Run(fmt.Sprint("cap ", limit), func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			most := recorded(t, env)
			met := make(chan struct{})
			var once sync.Once
			crowd := &crowdOf{}
			crowd.run = func(context.Context, executor.Job) executor.Report {
				if live, _ := crowd.counts(); live == limit {
					once.Do(func() { close(met) })
				}
				select {
				case <-met: // the first ones wait for each other: the cap is reached
				case <-t.Context().Done():
				}
				return completed()
			}
			var nodes []*bench
			for range 2 {
				b := newBench(t, env, steady, capped(limit), func(o *Options) { o.Concurrency = 4 })
				b.runner.f = crowd.f
				nodes = append(nodes, b)
			}
			const n = 20
			for i := range n {
				nodes[0].admitted(issue(i))
				d := issue(i)
				d.InstallationID = 8
				nodes[0].admitted(d)
			}
			for _, b := range nodes {
				b.startWorker()
			}
			nodes[0].completes(2 * n)
			_, live := crowd.counts()
			require.Equal(t, limit, live, "running in fact")
			require.Equal(t, limit, most(), "running by their records")
			nodes[0].noPlaces()
		})
	}
}

// Contenders that have all picked, and read the same places, are held before
// their write and released together: as many win as there are places.
func TestDT95RaceForTheLastPlaces(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2} {
		t.Run(fmt.Sprint("cap ", limit), func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			g, release := newGate(t), make(chan struct{})
			crowd := &crowdOf{run: hold(release)}
			var nodes []*bench
			for range 3 {
				b := newBench(t, env, fleet, quiet, capped(limit), func(o *Options) { o.Concurrency = 1 })
				b.runner.f = crowd.f
				b.store.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, key string) error {
					if key == kv.SlotsKey(7) && op != "get" {
						g.wait("")
					}
					return nil
				}})
				nodes = append(nodes, b)
			}
			ids := map[task.ID]bool{}
			for i := range nodes {
				ids[nodes[0].admitted(issue(i))] = true
			}
			for _, b := range nodes {
				for id := range ids {
					b.seenAny(id)
				}
				b.startWorker()
			}
			natstest.Eventually(t, "all to be at their write", func() bool { return g.waiting() == len(nodes) })
			require.Empty(t, nodes[0].places())
			close(g.open)
			natstest.Eventually(t, "the others to be refused", func() bool {
				refused := 0.0
				for _, b := range nodes {
					refused += testutil.ToFloat64(b.worker.met.capped)
				}
				live, _ := crowd.counts()
				return refused >= float64(len(nodes)-limit) && live == limit
			})
			require.Len(t, nodes[0].places(), limit)
			close(release)
			nodes[0].completes(len(nodes))
			_, most := crowd.counts()
			require.Equal(t, limit, most)
			nodes[0].noPlaces()
		})
	}
}

// DT-95: a process that dies before or after any of its writes leaves nothing
// behind that keeps the others from running all, one at a time.
func TestDT95CrashAtEachStep(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for step := 1; step <= 4; step++ { // place, claim, end, giving back
			t.Run(fmt.Sprintf("write %d, after %v", step, after), func(t *testing.T) {
				t.Parallel()
				env := natstest.New(t)
				most := recorded(t, env)
				crowd := &crowdOf{run: func(context.Context, executor.Job) executor.Report { return completed() }}
				a := newBench(t, env, fleet, capped(1), func(o *Options) { o.Concurrency = 1 })
				a.runner.f = crowd.f
				var writes atomic.Int64
				dead := make(chan struct{})
				die := func(now bool) func(context.Context, string, string) error {
					return func(_ context.Context, op, key string) error {
						if op == "get" || !hasPrefix(key, "task.7.") && key != kv.SlotsKey(7) {
							return nil
						}
						if !now && !after || now && after || writes.Load() < int64(step) && writes.Add(1) < int64(step) {
							return nil
						}
						select {
						case <-dead:
						default:
							close(dead)
						}
						return kv.ErrUnknown
					}
				}
				for i := range 3 {
					a.admitted(issue(i))
				}
				a.store.SetHooks(&kv.Hooks{Before: die(true), After: die(false)})
				a.startWorker()
				<-dead
				a.crash()
				b := newBench(t, env, fleet, capped(1))
				b.runner.f = crowd.f
				b.startWorker()
				b.completes(3)
				b.noPlaces()
				_, live := crowd.counts()
				require.Equal(t, 1, live)
				require.Equal(t, 1, most())
			})
		}
	}
}

// DT-95: embedded, the next life knows at once that every other is over.
func TestDT95AloneNextLifeFreesThePlaces(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	a := newBench(t, env, watchOnly, capped(1))
	a.runner.f = hold(nil)
	a.admitted(issue(1))
	a.startWorker()
	natstest.Eventually(t, "it to run", func() bool { return len(a.runner.started()) == 1 })
	require.Len(t, a.places(), 1)
	// And one whose claim was never written.
	_, rev, err := a.store.Slots(t.Context(), 7)
	require.NoError(t, err)
	left := task.Slot{Task: "5d2c6a0e-8f3b-5c1e-9a74-be1a900d0001", Attempt: 1, Boot: a.opts.Boot}
	_, err = a.store.SetSlots(t.Context(), 7, task.Slots{V: 1, Entries: append(a.places(), left)}, rev)
	require.NoError(t, err)
	a.crash()
	b := newBench(t, env, watchOnly, capped(1))
	b.startWorker()
	b.completes(1)
	b.noPlaces()
}

// The healer (rule 17) frees no place of a process that lives: neither one
// whose claim is under way, nor one whose task was cancelled while its run
// goes on.
func TestDT95HealerSparesTheLiving(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	g, release := newGate(t), make(chan struct{})
	var first atomic.Bool
	a := newBench(t, env, steady, capped(1), func(o *Options) {
		o.Concurrency = 1
		o.Hooks = &Hooks{Seated: func(id task.ID) {
			if first.CompareAndSwap(false, true) {
				g.wait(id)
			}
		}}
	})
	a.runner.f = func(context.Context, executor.Job) executor.Report { <-release; return completed() } // deaf
	x, y := a.admitted(issue(1)), a.admitted(issue(2))
	a.startWorker()
	natstest.Eventually(t, "the claim to have its place", func() bool { return g.waiting() == 1 })
	b := newBench(t, env, steady, capped(1))
	b.startWorker()
	alive := func() bool { return len(b.places()) == 1 && len(b.runner.started()) == 0 }
	stays(t, b, view.MissedBeats+2, "the place of a claim", alive)
	close(g.open)
	natstest.Eventually(t, "it to run", func() bool { return len(a.runner.started()) == 1 })
	_, _, err := a.store.Change(t.Context(), 7, running(a, x, y), func(r task.Record) (task.Record, error) { return r.Cancel("by test", time.Now()) }, nil)
	require.NoError(t, err)
	stays(t, b, view.MissedBeats+2, "the place of a run that does not heed its end", alive)
	close(release)
	natstest.Eventually(t, "the other to run", func() bool { return b.view.Counts()[task.Completed] == 1 })
	b.noPlaces()
	require.Zero(t, testutil.ToFloat64(a.worker.met.healed)+testutil.ToFloat64(b.worker.met.healed))
}

// running is the one of two tasks that runs.
func running(b *bench, x, y task.ID) task.ID {
	if b.record(x).State == task.Running {
		return x
	}
	return y
}

// A process that stood still between its place and its claim, for so long
// that others gave the place away, begins nothing.
func TestDT95PlaceThatWasGivenAwayIsNoPlace(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	g, release := newGate(t), make(chan struct{})
	var first atomic.Bool
	a := newBench(t, env, steady, capped(1), func(o *Options) {
		o.Concurrency = 1
		o.Hooks = &Hooks{BeforeClaim: func(id task.ID) {
			if first.CompareAndSwap(false, true) {
				g.wait(id)
			}
		}}
	})
	crowd := &crowdOf{run: hold(release)}
	a.runner.f = crowd.f
	a.admitted(issue(1))
	a.startWorker()
	natstest.Eventually(t, "the claim to have its place", func() bool { return g.waiting() == 1 && len(a.places()) == 1 })
	// The others take it for dead, and its place.
	b := newBench(t, env, steady, capped(1))
	b.runner.f = crowd.f
	b.worker.slots.drop(7, a.places()[0])
	b.noPlaces()
	other := b.admitted(issue(2))
	b.worker.beat(t.Context())
	require.NotNil(t, b.worker.claim(t.Context(), view.Candidate{ID: other, InstallationID: 7}))
	natstest.Eventually(t, "the other process to run one", func() bool { return len(b.runner.started()) == 1 })
	stays(t, a, trustBeats+1, "time passes", func() bool { return len(a.runner.started()) == 0 })
	close(g.open)
	natstest.Eventually(t, "the attempt to be released", func() bool {
		return testutil.ToFloat64(a.worker.met.attempts.WithLabelValues(string(task.OutcomeReleased))) >= 1
	})
	live, _ := crowd.counts()
	require.Equal(t, 1, live)
	close(release)
	b.completes(2)
	_, most := crowd.counts()
	require.Equal(t, 1, most)
	b.noPlaces()
}

// A place whose write was not answered is given back: it holds nobody up.
func TestDT95LostAnswerLeavesNoPlaceBehind(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "update"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, natstest.New(t), watchOnly, capped(1))
			f := &failOn{op: op, prefix: kv.SlotsKey(7), times: 1, after: true, err: kv.ErrUnknown}
			b.store.SetHooks(f.hooks())
			for i := range 4 {
				b.admitted(issue(i))
			}
			b.startWorker()
			b.completes(4)
			b.noPlaces()
			require.Equal(t, 1, f.count())
			require.Equal(t, 1.0, testutil.ToFloat64(b.worker.met.slots.WithLabelValues("failed")))
		})
	}
}

// A planned stop gives the places of what it released back before it ends.
func TestDT95StopGivesThePlacesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), capped(2), func(o *Options) { o.DrainTimeout = time.Millisecond })
	b.runner.f = hold(nil)
	for i := range 3 {
		b.admitted(issue(i))
	}
	b.startWorker()
	natstest.Eventually(t, "two to run", func() bool { return len(b.runner.started()) == 2 })
	require.Len(t, b.places(), 2)
	require.NoError(t, b.worker.Stop(t.Context()))
	require.Empty(t, b.places())
}

// Q04: an attempt that fails, for good or to be tried again, gives its place
// back; Q11: its retry is not kept out by its own former place.
func TestQ04Q11FailureFreesThePlace(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), watchOnly, capped(1), func(o *Options) { o.MaxRetries = 1 })
	b.runner.f = func(_ context.Context, j executor.Job) executor.Report {
		if j.Task.Number == 1 || j.Attempt == 1 {
			return retryable("no")
		}
		return completed()
	}
	bad, good := b.admitted(issue(1)), b.admitted(review(2, "a1", "", 1))
	b.startWorker()
	require.Equal(t, 2, b.reaches(bad, task.Failed).Attempts)
	require.Equal(t, 2, b.reaches(good, task.Completed).Attempts)
	b.noPlaces()
}

// A review that waits for its predecessor holds no place meanwhile.
func TestDT95WaitingReviewHoldsNoPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t), capped(2), func(o *Options) { o.Concurrency = 4 })
	release := make(chan struct{})
	b.runner.f = hold(release)
	first := b.admitted(review(3, "a1", "", 1))
	b.startWorker()
	b.seen(first, task.Running)
	second := b.admitted(review(3, "a2", "a1", 2))
	other := b.admitted(issue(9))
	b.reaches(other, task.Running)
	stays(t, b, 2, "it waits", func() bool { return b.record(second).State == task.Queued && len(b.places()) == 2 })
	close(release)
	b.completes(3)
	b.noPlaces()
}

// A cap that a reload sets, raises, lowers or lifts takes effect at once;
// what runs goes on, and counts.
func TestDT95CapIsChangedWhileWorkRuns(t *testing.T) {
	t.Parallel()
	var limit atomic.Int64
	b := newBench(t, natstest.New(t), watchOnly, func(o *Options) {
		o.Concurrency = 10
		o.Limit = limitOf7(func() int { return int(limit.Load()) })
	})
	step := make(chan struct{})
	crowd := &crowdOf{}
	crowd.run = func(ctx context.Context, _ executor.Job) executor.Report {
		select {
		case <-step:
			return completed()
		case <-ctx.Done():
			return executor.Report{Class: executor.Canceled, Outcome: task.OutcomeCancelled}
		}
	}
	b.runner.f = crowd.f
	admit := func(n int) {
		for i := range n {
			b.admitted(issue(i))
		}
	}
	set := func(n int) {
		limit.Store(int64(n))
		b.view.Wake()
	}
	live := func(n int) {
		t.Helper()
		natstest.Eventually(t, fmt.Sprint(n, " to run"), func() bool { l, _ := crowd.counts(); return l == n })
	}
	admit(3)
	b.startWorker()
	live(3)
	require.Empty(t, b.places(), "without a cap nothing is paid for")
	require.Zero(t, b.slotWrites())
	set(4)
	admit(10)
	live(4)
	require.Len(t, b.places(), 1, "the others run without one, and count")
	set(6)
	live(6)
	set(2)
	for range 5 {
		step <- struct{}{}
	}
	live(2)
	set(0)
	live(8)
	close(step)
	b.completes(13)
	b.noPlaces()
}
