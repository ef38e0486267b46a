package executor

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// Commands that leave processes in every way a shell has.
var trees = map[string]string{
	"background and wait":   `sh -c 'sleep 600 & echo started; wait'`,
	"sequence":              `sleep 600; true`,
	"subshell":              `(sleep 600)`,
	"pipe":                  `sleep 600 | cat`,
	"own session":           `setsid sleep 600 & wait`,
	"double fork":           `(sh -c 'sleep 600 & sleep 600 &' &); sleep 600`,
	"double fork, sessions": `(setsid sh -c 'setsid sleep 600 & setsid sleep 600' &); sleep 600`,
	"nohup":                 `nohup sleep 600 & wait`,
	"deaf":                  `trap '' TERM INT HUP; sleep 600 & while :; do sleep 1; done`,
	"deaf in a session":     `setsid sh -c 'trap "" TERM; while :; do sleep 1; done' & sleep 600`,
	"stopped":               `sleep 600 & kill -STOP $!; wait`,
}

// TestQ24TimeoutEndsTheTree: returns within timeout and grace, everything
// dead, partial output kept.
func TestQ24TimeoutEndsTheTree(t *testing.T) {
	t.Parallel()
	for name, line := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t)
			j := w.job("echo started; " + line)
			e := newExecutor(t)
			j.Timeout = soon(t, e)
			began := time.Now()
			r := e.Run(t.Context(), j)
			took := time.Since(began)
			w.requireGone(5 * time.Second)
			require.Equal(t, Retryable, r.Class, "%+v", r)
			require.Equal(t, task.OutcomeTimeout, r.Outcome)
			require.Contains(t, r.Detail, "timed out after ")
			require.Contains(t, r.Tail, "started\n")
			require.NoError(t, r.Cleanup)
			require.Less(t, took, j.Timeout+e.cfg.KillGrace+e.cfg.WaitDelay)
		})
	}
}

// TestQ24CancelEndsTheTree: the same at a cancel.
func TestQ24CancelEndsTheTree(t *testing.T) {
	t.Parallel()
	for name, line := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t)
			why := errors.New("no more")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-w.lines
				cancel(why)
			}()
			r := newExecutor(t).Run(ctx, w.job("echo started; echo started >&9; "+line))
			w.requireGone(5 * time.Second)
			require.Equal(t, Canceled, r.Class, "%+v", r)
			require.ErrorIs(t, r.Err, why)
			require.Contains(t, r.Tail, "started\n")
			require.NoError(t, r.Cleanup)
		})
	}
}

// TestQ24ExitEndsTheTree: a command that ends by itself leaves nobody either.
func TestQ24ExitEndsTheTree(t *testing.T) {
	t.Parallel()
	const up = `until [ -e up ]; do sleep 0.01; done`
	for name, line := range map[string]string{
		"background":        `sleep 600 &`,
		"own session":       `setsid sh -c 'touch up; sleep 600' & ` + up,
		"double fork":       `(sh -c 'sleep 600 &' &)`,
		"deaf":              `sh -c 'trap "" TERM; touch up; sleep 600' & ` + up,
		"holds the output":  `setsid sh -c 'touch up; while :; do echo more; sleep 1; done' & ` + up,
		"double, a session": `(setsid sh -c 'setsid sh -c "touch up; sleep 600" & setsid sleep 600' &); ` + up,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t)
			r := newExecutor(t).Run(t.Context(), w.job(line+"\n"+writes(good, 0)))
			w.requireGone(5 * time.Second)
			require.Equal(t, Done, r.Class, "%+v", r)
			require.NoError(t, r.Cleanup)
		})
	}
}

// TestQ24KillOfBelayEndsTheTree: belay itself is killed with SIGKILL; with a
// grace of a minute, its commands are gone at once.
func TestQ24KillOfBelayEndsTheTree(t *testing.T) {
	t.Parallel()
	for name, line := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t)
			cmd := w.startHost("echo started >&9; " + line)
			require.Equal(t, "started", w.line())
			require.NotEmpty(t, w.alive(), "control: the mark is found")
			require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
			require.Error(t, cmd.Wait())
			w.requireGone(5 * time.Second)
		})
	}
}

// TestJ04FreezeOfBelayEndsTheTree: a belay that is stopped and not dead keeps
// its pipes open, yet another process will soon run its task.
func TestJ04FreezeOfBelayEndsTheTree(t *testing.T) {
	t.Parallel()
	w := watch(t)
	cmd := w.startHost("echo started >&9; sleep 2; echo still >&9; sleep 600 & wait")
	require.Equal(t, "started", w.line())
	require.Equal(t, "still", w.line(), "one that lives is not taken for frozen, however long it runs")
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	select {
	case <-w.gone: // while the host is still frozen
	case <-time.After(hostSilence + 10*time.Second):
		t.Errorf("processes are left: %q", w.alive())
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	w.requireGone(5 * time.Second)
}

// TestQ26GroupSignalSparesTheCommand: a signal to belay's group or to its
// supervisors does not reach the command: belay drains first.
func TestQ26GroupSignalSparesTheCommand(t *testing.T) {
	t.Parallel()
	w := watch(t)
	go func() {
		pid, err := strconv.Atoi(<-w.lines)
		if err == nil {
			for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
				_ = syscall.Kill(pid, sig)
			}
		}
	}()
	r := newExecutor(t).Run(t.Context(), w.job("echo $PPID >&9; sleep 1\n"+writes(good, 0)))
	require.Equal(t, Done, r.Class, "%+v", r)
	w.requireGone(5 * time.Second)
}

// TestQ26GraceIsForTheWholeTree: after SIGTERM a child of the command may
// finish, also when the command itself ended at once.
func TestQ26GraceIsForTheWholeTree(t *testing.T) {
	t.Parallel()
	w := watch(t)
	e := newExecutor(t, func(c *Config) { c.KillGrace = deadline })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.lines
		cancel()
	}()
	const child = `trap "sleep 1; echo tidied; exit 0" TERM; echo ready >&9; while :; do sleep 0.1; done`
	began := time.Now()
	r := e.Run(ctx, w.job(`sh -c '`+child+`' & sleep 600`))
	require.Equal(t, Canceled, r.Class)
	require.Contains(t, r.Tail, "tidied")
	require.Less(t, time.Since(began), deadline, "the grace ends with the last process")
	w.requireGone(5 * time.Second)
}

// TestStopReachesALongRun: the request to stop has no deadline of its own; a
// run that outlives every other one still gets its SIGTERM and its grace.
func TestStopReachesALongRun(t *testing.T) {
	t.Parallel()
	w := watch(t)
	e := newExecutor(t, func(c *Config) { c.KillGrace, c.WaitDelay = deadline, 1500*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.lines
		cancel()
	}()
	r := e.Run(ctx, w.job(`trap "echo tidied; exit 0" TERM; sleep 3; echo ready >&9; while :; do sleep 0.1; done`))
	require.Equal(t, Canceled, r.Class)
	require.Contains(t, r.Tail, "tidied")
	w.requireGone(5 * time.Second)
}

// TestQ26ZombiesAreReaped: orphans that end while the command runs do not
// stay as zombies.
func TestQ26ZombiesAreReaped(t *testing.T) {
	t.Parallel()
	const script = `i=0; while [ $i -lt 50 ]; do (true &); i=$((i+1)); done; sleep 0.5
grep -l "^PPid:[[:space:]]*$PPID\$" /proc/[0-9]*/status 2>/dev/null | wc -l >&9`
	w := watch(t)
	newExecutor(t).Run(t.Context(), w.job(script))
	require.Equal(t, "1", w.line(), "the supervisor's only child is the command")
	w.requireGone(5 * time.Second)
}

// TestSupervisorGone: the supervisor is killed or does not answer; the run is
// an infrastructure failure and its processes are gone all the same.
func TestSupervisorGone(t *testing.T) {
	t.Parallel()
	const line = `(setsid sh -c 'trap "" TERM; setsid sleep 600 & sleep 600' &); echo $PPID >&9; sleep 600`
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t)
			e := newExecutor(t, func(c *Config) { c.WaitDelay = time.Second })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				pid, err := strconv.Atoi(<-w.lines)
				if err == nil {
					_ = syscall.Kill(pid, sig)
				}
				if sig == syscall.SIGSTOP {
					cancel()
				}
			}()
			r := e.Run(ctx, w.job(line))
			w.requireGone(5 * time.Second)
			if sig == syscall.SIGKILL {
				require.Equal(t, Retryable, r.Class)
				require.Equal(t, task.OutcomeInfra, r.Outcome)
				require.Contains(t, r.Detail, "supervisor is gone")
			} else {
				require.Equal(t, Canceled, r.Class)
			}
			require.NoError(t, r.Cleanup)
		})
	}
}

// TestOneRunOfAnAttempt: the same attempt does not run twice at a time.
func TestOneRunOfAnAttempt(t *testing.T) {
	t.Parallel()
	e, w := newExecutor(t), watch(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan Report, 1)
	go func() { first <- e.Run(ctx, w.job("echo up >&9; sleep 600")) }()
	w.line()
	r := e.Run(t.Context(), job("exit 0"))
	require.ErrorIs(t, r.Err, ErrBusy)
	n, err := e.SweepWorkspaces(func(task.ID, int) bool { return false })
	require.NoError(t, err)
	require.Zero(t, n, "nor is its workspace swept")
	cancel()
	require.Equal(t, Canceled, (<-first).Class)
	require.Equal(t, Done, e.Run(t.Context(), job(writes(good, 0))).Class, "once it is over it may")
}
