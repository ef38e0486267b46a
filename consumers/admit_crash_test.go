package consumers

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// Every step of an admission fails once, before it and with its answer lost;
// the message comes again and the outcome is that of an admission without
// failures (DT-39).
func TestDT39CrashBetweenAnyTwoStepsOfAdmission(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	steps := 0
	for n := 1; ; n++ {
		for _, after := range []bool{false, true} {
			b := newBench(t, env)
			pull := 2 * n
			if after {
				pull++
			}
			old := b.admitted(review(pull, "a1", "", 1))
			d := review(pull, "a2", "a1", 2)
			d.Task.Once = true
			seq := b.accepted(d)
			var step atomic.Int64
			fail := func(run bool) func(context.Context, string, string) error {
				return func(context.Context, string, string) error {
					// Reads have no answer that is lost after the fact.
					if run && step.Add(1) == int64(n) {
						return fmt.Errorf("%w: killed at step %d", kv.ErrUnknown, n)
					}
					return nil
				}
			}
			b.store.SetHooks(&kv.Hooks{Before: fail(!after), After: fail(after)})
			if err := b.admitAt(seq); err != nil {
				require.NoError(t, b.admitAt(seq), "step %d after %v", n, after)
			}
			reached := step.Load() >= int64(n)
			b.store.SetHooks(nil)
			l, err := b.log.Get(t.Context(), seq)
			require.NoError(t, err)
			r := b.record(l.Task.ID)
			require.Equal(t, task.Queued, r.State, "step %d after %v", n, after)
			was := b.record(old)
			require.Equal(t, task.Superseded, was.State, "step %d after %v", n, after)
			require.Equal(t, r.ID, was.SupersededBy)
			if reached {
				steps++
			} else if !after {
				require.GreaterOrEqual(t, steps, 8, "the steps of an admission were reached")
				return
			}
		}
	}
}

// Admissions of one pull race in every process; each decides anew from the
// fresh pointer, and exactly the newest is left.
func TestRacingAdmissionsLeaveTheNewest(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	a, b := newBench(t, env, fleet), newBench(t, env, fleet)
	const n = 12
	type logged struct {
		d   task.Delivery
		seq uint64
	}
	var all []logged
	for i := range n {
		acc, err := a.log.Accept(t.Context(), review(3, fmt.Sprint("h", i), "", i+1))
		require.NoError(t, err)
		all = append(all, logged{acc.Delivery, acc.Seq})
	}
	errs := make(chan error, 2*n)
	for _, l := range all {
		for _, p := range []*bench{a, b} {
			go func() { errs <- p.adm.Admit(t.Context(), l.d, l.seq) }()
		}
	}
	for range 2 * n {
		require.NoError(t, <-errs)
	}
	for i, l := range all {
		r := a.record(l.d.Task.ID)
		want := task.Superseded
		if i == n-1 {
			want = task.Queued
		}
		require.Equal(t, want, r.State, "head %d", i)
	}
}

// An older review's record comes after a newer one has looked for it in vain:
// it is superseded by itself, not left in the queue until it is picked.
func TestRecordThatComesAfterItsWinnerIsSuperseded(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	a, b := newBench(t, env, fleet), newBench(t, env, fleet)
	older := a.accepted(review(3, "a1", "", 1))
	l, err := a.log.Get(t.Context(), older)
	require.NoError(t, err)
	held, free := make(chan struct{}), make(chan struct{})
	a.store.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, key string) error {
		if op == "create" && key == kv.TaskKey(7, l.Task.ID) {
			close(held)
			<-free
		}
		return nil
	}})
	done := make(chan error, 1)
	go func() { done <- a.admitAt(older) }()
	<-held
	newer := b.admitted(review(3, "a2", "a1", 2))
	close(free)
	require.NoError(t, <-done)
	r := b.record(l.Task.ID)
	require.Equal(t, task.Superseded, r.State)
	require.Equal(t, newer, r.SupersededBy)
	require.Equal(t, task.Queued, b.record(newer).State)
}
