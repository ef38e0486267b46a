package consumers

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// crashPoint is a place at which the first process dies. It returns the
// delivery's task and how many attempts there are in the end.
type crashPoint struct {
	name     string
	crash    func(t *testing.T, b *bench) task.ID
	attempts int
	runs     int  // of the task, in the second process
	tombs    bool // the older review must be superseded, not run
	pulled   bool // the dead process holds a token until its AckWait
}

var errKilled = fmt.Errorf("%w: killed", kv.ErrUnknown)

// diesAt lets admission fail for good from a step on, as a kill does.
func diesAt(op, prefix string, after bool) func(*testing.T, *bench) task.ID {
	return func(t *testing.T, b *bench) task.ID {
		old := b.admitted(review(3, "a1", "", 1))
		f := &failOn{op: op, prefix: prefix, times: always, after: after, err: errKilled}
		b.store.SetHooks(f.hooks())
		id := b.accept(review(3, "a2", "a1", 2))
		ctx, cancel := context.WithCancel(t.Context())
		b.store.SetHooks(&kv.Hooks{
			Before: func(ctx context.Context, op, key string) error {
				if err := f.hooks().Before(ctx, op, key); err != nil {
					cancel()
					return err
				}
				return nil
			},
			After: func(ctx context.Context, op, key string) error {
				if err := f.hooks().After(ctx, op, key); err != nil {
					cancel()
					return err
				}
				return nil
			},
		})
		l, err := b.log.Get(t.Context(), 2)
		require.NoError(t, err)
		require.Error(t, b.adm.Admit(ctx, l.Delivery, l.Seq))
		require.NotEqual(t, old, id)
		b.crash()
		return id
	}
}

// runsInto starts a process whose runs or hooks never come back, and kills it.
func runsInto(point string) func(*testing.T, *bench) task.ID {
	return func(t *testing.T, b *bench) task.ID {
		stuck := newGate(t)
		reach := func() bool { return stuck.waiting() > 0 }
		switch point {
		case "claim":
			b.worker.o.Hooks = &Hooks{BeforeClaim: stuck.wait}
		case "run":
			b.runner.f = hold(nil)
			reach = func() bool { return len(b.runner.started()) == 1 }
		case "end":
			b.worker.o.Hooks = &Hooks{BeforeEnd: stuck.wait}
		case "ended":
			b.worker.o.Hooks = &Hooks{Ended: stuck.wait}
		}
		id := b.admitted(issue(1))
		b.startWorker()
		natstest.Eventually(t, "the point "+point, reach)
		b.nc.Close()
		close(stuck.open)
		b.crash()
		return id
	}
}

func crashPoints() []crashPoint {
	return []crashPoint{
		{"published", func(_ *testing.T, b *bench) task.ID { id := b.accept(issue(1)); b.crash(); return id }, 1, 1, false, false},
		{"before the pointer", diesAt("update", "supersede.", false), 1, 1, false, false},
		{"after the pointer", diesAt("update", "supersede.", true), 1, 1, true, false},
		{"before the record", diesAt("create", "task.", false), 1, 1, true, false},
		{"after the record", diesAt("create", "task.", true), 1, 1, true, false},
		{"after seen", func(t *testing.T, b *bench) task.ID {
			d := issue(1)
			d.Task.Once = true
			id := b.accept(d)
			_, err := b.store.Seen(t.Context(), d.Source, d.PayloadHash, d.ID, b.adm.dedupe)
			require.NoError(t, err)
			b.crash()
			return id
		}, 1, 1, false, false},
		{"after the pull", func(t *testing.T, b *bench) task.ID {
			id := b.admitted(issue(1))
			tok, err := b.worker.tokens.pull(t.Context())
			require.NoError(t, err)
			require.Equal(t, id, tok.delivery.Task.ID)
			b.crash()
			return id
		}, 1, 1, false, true},
		{"before the claim", runsInto("claim"), 1, 1, false, true},
		{"mid-run", runsInto("run"), 2, 1, false, true},
		{"before the end", runsInto("end"), 2, 1, false, true},
		{"after the end before the ack", runsInto("ended"), 1, 0, false, true},
	}
}

func TestRecoveryMatrix(t *testing.T) {
	t.Parallel()
	for _, p := range crashPoints() {
		for _, alone := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/alone %v", p.name, alone), func(t *testing.T) {
				t.Parallel()
				env := natstest.New(t)
				as := func(o *Options) { o.Alone = alone }
				id := p.crash(t, newBench(t, env, as))
				b := newBench(t, env, as).start()
				r := b.reaches(id, task.Completed)
				require.Equal(t, p.attempts, r.Attempts)
				for _, a := range r.AttemptLog[:r.Attempts-1] {
					require.Equal(t, task.OutcomeInterrupted, a.Outcome)
					require.False(t, a.EndedAt.IsZero())
				}
				require.Equal(t, task.OutcomeCompleted, r.AttemptLog[r.Attempts-1].Outcome)
				if !p.pulled {
					b.drained()
				}
				natstest.Eventually(t, "nothing to be live", func() bool {
					n := b.view.Counts()
					return n[task.Queued]+n[task.Running] == 0
				})
				require.Equal(t, p.runs, b.runsOf(id))
				require.Equal(t, r, b.record(id), "and nothing touched it afterwards")
				if p.tombs {
					l, err := b.log.Get(t.Context(), 1)
					require.NoError(t, err)
					old := b.record(l.Task.ID)
					require.Equal(t, task.Superseded, old.State)
					require.Equal(t, id, old.SupersededBy)
				}
			})
		}
	}
}

// runsOf counts the starts of one task in this process.
func (b *bench) runsOf(id task.ID) int {
	n := 0
	for _, run := range b.runner.started() {
		if hasPrefix(run, string(id)+"/") {
			n++
		}
	}
	return n
}

// A second recovery of the same orphans by another process changes nothing.
func TestTwoProcessesRecoverOneOrphanOnce(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	a, b := newBench(t, env, fleet), newBench(t, env, fleet)
	runs := newOverlap(nil)
	a.runner.f, b.runner.f = runs.run, runs.run
	var ids []task.ID
	for n := range 10 {
		ids = append(ids, a.admittedHeld(issue(n), "deadboot"))
	}
	a.startWorker()
	b.startWorker()
	for _, id := range ids {
		r := a.reaches(id, task.Completed)
		require.Equal(t, 2, r.Attempts)
		require.Len(t, r.AttemptLog, 2)
	}
	most, total := runs.counts()
	require.Equal(t, 1, most)
	require.Equal(t, len(ids), total)
}

// With a fresh process alone, orphans are given back before anything is
// pulled (DT-73), and at once, whatever their beats say.
func TestDT73RecoveryRunsBeforeTheFirstPull(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env, quiet)
	id := b.admittedHeld(issue(1), "deadboot")
	_, err := b.store.Beat(t.Context(), "deadboot", "still warm")
	require.NoError(t, err)
	seen := make(chan task.State, 10)
	b.worker.o.Hooks = &Hooks{Picked: func(id task.ID) { seen <- b.record(id).State }}
	b.startWorker()
	natstest.Eventually(t, "a pick", func() bool { return len(seen) > 0 })
	require.Equal(t, task.Queued, <-seen)
	require.Equal(t, 2, b.reaches(id, task.Completed).Attempts)
}

// What is over is not touched by a process that starts.
func TestTerminalTasksAreNeverRunAgain(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := newBench(t, env)
	b.runner.f = func(_ context.Context, j executor.Job) executor.Report {
		if j.Task.Number == 2 {
			return executor.Report{Class: executor.Done, Result: task.Result{State: task.Failed}}
		}
		return completed()
	}
	b.start()
	ends := map[task.ID]task.State{
		b.accept(issue(1)): task.Completed, b.accept(issue(2)): task.Failed,
	}
	want := map[task.ID]task.Record{}
	for id, s := range ends {
		want[id] = b.reaches(id, s)
	}
	b.crash()
	again := newBench(t, env).start()
	marker := again.accept(issue(3))
	again.reaches(marker, task.Completed)
	again.drained()
	for id := range ends {
		require.Equal(t, want[id], again.record(id))
	}
	require.Len(t, again.runner.started(), 1)
}
