//go:build !linux

package executor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Supervise does nothing here: only Linux has supervisors.
func Supervise() {}

// start runs the order in a process group of its own, which is killed at the
// end. What leaves the group stays, and so does the group if belay is killed
// with SIGKILL: good enough to work on belay, not to serve with it.
func start(o order, out *os.File) (*process, error) {
	cmd := &exec.Cmd{
		Path: o.Path, Args: o.Argv, Env: o.Env, Dir: o.Dir, Stdout: out, Stderr: out,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Credential: o.Cred.sys()},
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Path, err)
	}
	notices := make(chan notice, 2)
	notices <- notice{Started: cmd.Process.Pid}
	group := func(sig syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, sig) }
	ended := make(chan struct{})
	go func() {
		defer close(notices)
		err := cmd.Wait()
		close(ended)
		group(syscall.SIGKILL)
		notices <- notice{Ending: endingOf(cmd, err)}
	}()
	var once sync.Once
	return &process{
		notices: notices,
		stop: func() {
			group(syscall.SIGTERM)
			go func() {
				select {
				case <-ended:
				case <-time.After(o.Grace):
					group(syscall.SIGKILL)
				}
			}()
		},
		kill: func() { group(syscall.SIGKILL) },
		release: func() {
			once.Do(func() {
				select {
				case <-ended:
				default:
					group(syscall.SIGKILL)
				}
			})
		},
	}, nil
}

func endingOf(cmd *exec.Cmd, err error) *ending {
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return &ending{Code: -1, Lost: err.Error()}
	}
	x := &ending{
		Code: cmd.ProcessState.ExitCode(),
		User: cmd.ProcessState.UserTime(), System: cmd.ProcessState.SystemTime(),
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		x.Signal = ws.Signal().String()
	}
	return x
}
