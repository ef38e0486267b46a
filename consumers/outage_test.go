package consumers

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

var silence = slog.New(slog.DiscardHandler)

// NATS restarts under a running task: no live run is stolen, and its result
// is written when the server is back.
func TestRestartOfTheServerStealsNoLiveRun(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	p := newProxy(t, env)
	slow := func(o *Options) { o.Alone, o.BeatEvery = false, 2*beat }
	a, b := p.through(env, silence, slow), p.through(env, silence, slow)
	release := make(chan struct{})
	a.runner.f, b.runner.f = hold(release), hold(release)
	id := a.admitted(issue(1))
	a.startWorker()
	a.reaches(id, task.Running)
	b.startWorker()
	env.Restart()
	p.aim(env)
	p.cut()
	natstest.Eventually(t, "both to beat again", func() bool {
		return a.nc.Stats().Reconnects > 0 && b.nc.Stats().Reconnects > 0 && !a.worker.silent() && !b.worker.silent()
	})
	stays(t, b, 7, "the run is not stolen", func() bool { return len(b.runner.started()) == 0 })
	close(release)
	r := b.reaches(id, task.Completed)
	require.Equal(t, 1, r.Attempts)
	require.Equal(t, a.opts.Boot, r.AttemptLog[0].Boot)
	b.reaches(a.accept(issue(2)), task.Completed)
}

// A result that comes while the server is away waits for it.
func TestResultWaitsForTheStore(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	p := newProxy(t, env)
	b := p.through(env, silence, func(o *Options) { o.BeatEvery = 2 * beat })
	release := make(chan struct{})
	b.runner.f = hold(release)
	id := b.admitted(issue(1))
	b.startWorker()
	b.reaches(id, task.Running)
	p.outage(true)
	close(release)
	natstest.Eventually(t, "a beat to fail", func() bool { return testutil.ToFloat64(b.worker.met.beats.WithLabelValues("failed")) > 0 })
	p.outage(false)
	require.Equal(t, 1, b.reaches(id, task.Completed).Attempts)
}

// NATS is gone for several beats: work resumes unaided (J11), calls were
// bounded (Q10), what was lost runs again, and the log has no flood of
// classless lines.
func TestJ11Q10OutageOfSeveralBeats(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(p *proxy) (over func()){
		"cut":          func(p *proxy) func() { p.outage(true); return func() { p.outage(false) } },
		"frozen":       func(p *proxy) func() { p.freeze(false); return p.thaw },
		"no answers":   func(p *proxy) func() { p.freeze(true); return p.thaw },
		"cut, restart": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t, natstest.WithListener())
			p := newProxy(t, env)
			log := newLines()
			b := p.through(env, slog.New(log), func(o *Options) { o.BeatEvery = beat })
			b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
				if j.Task.Number == 1 && j.Attempt == 1 {
					return hold(nil)(ctx, j)
				}
				return completed()
			}
			b.start()
			id := b.accept(issue(1))
			b.reaches(id, task.Running)
			over := func() { env.Restart(); p.aim(env); p.outage(false) }
			if how != nil {
				over = how(p)
			} else {
				p.outage(true)
			}
			natstest.Eventually(t, "the process to be mute", b.worker.silent)
			natstest.Eventually(t, "its run to be cancelled", func() bool {
				b.worker.mu.Lock()
				defer b.worker.mu.Unlock()
				r := b.worker.running[id]
				return r == nil || r.ctx.Err() != nil
			})
			over()
			r := b.reaches(id, task.Completed)
			require.Equal(t, 2, r.Attempts)
			require.Equal(t, task.OutcomeReleased, r.AttemptLog[0].Outcome, "an outage is not the task's fault (J06)")
			b.reaches(b.accept(issue(2)), task.Completed)
			for class := range log.seen() {
				require.False(t, strings.HasPrefix(class, "none: ") && strings.Contains(class, "pull"), class)
			}
		})
	}
}

// A slow line is no outage.
func TestSlowLineLosesNothing(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	p := newProxy(t, env)
	b := p.through(env, silence, func(o *Options) { o.Alone, o.BeatEvery = false, beat })
	p.slow(10 * time.Millisecond)
	b.start()
	var ids []task.ID
	for n := range 10 {
		ids = append(ids, b.accept(issue(n)))
	}
	for _, id := range ids {
		require.Equal(t, 1, b.reaches(id, task.Completed).Attempts)
	}
}

// Pulls that get no answer are not progress, though beats go on (Q15, J10).
func TestQ15UnansweredPullIsNoProgress(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	p := newProxy(t, env)
	b := p.through(env, silence)
	_, err := b.worker.tokens.pull(t.Context())
	require.NoError(t, err)
	p.freeze(true)
	_, err = b.worker.tokens.pull(t.Context())
	require.Error(t, err)
	b.worker.pulled(nil, err)
	require.True(t, b.worker.Progress().LastPull.IsZero())
	p.thaw()
	natstest.Eventually(t, "answers", func() bool { _, err := b.worker.tokens.pull(t.Context()); return err == nil })
}
