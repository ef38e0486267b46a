package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// armed is set by Supervise. Without it a supervisor would be an ordinary
// copy of this program: a test binary would run its tests in itself.
var armed atomic.Bool

var errNotArmed = errors.New("start supervisor: executor.Supervise was not called first in main")

// start runs the order under a supervisor, whose and whose command's output
// goes to out.
func start(o order, out *os.File) (*process, error) {
	if !armed.Load() {
		return nil, errNotArmed
	}
	if os.Getpid() == 1 {
		reaper.Do(func() { go reapOrphans() })
	}
	line, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	controlR, control, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	defer controlR.Close()
	status, statusW, err := os.Pipe()
	if err != nil {
		control.Close()
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	defer statusW.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{superviseArg, superviseArg},
		Env: []string{"GOMAXPROCS=1"}, Dir: "/",
		Stdout: out, Stderr: out, ExtraFiles: []*os.File{controlR, statusW},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	wait, err := startWaited(cmd)
	if err != nil {
		control.Close()
		status.Close()
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	_ = control.SetWriteDeadline(time.Now().Add(o.Delay + time.Second))
	_, _ = control.Write(append(line, '\n')) // one that is gone shows at the status pipe
	_ = control.SetWriteDeadline(time.Time{})
	notices := make(chan notice)
	done := make(chan struct{})
	exited := make(chan struct{})
	go listen(status, o, notices, done)
	go func() {
		defer close(exited)
		_ = wait()
	}()
	if o.Silence > 0 {
		go speak(control, o.Silence, done)
	}
	var once sync.Once
	return &process{
		notices: notices,
		stop:    func() { _, _ = control.Write([]byte{wordStop}) },
		kill:    func() { _ = cmd.Process.Kill() },
		release: func() {
			once.Do(func() {
				close(done)
				control.Close()
				select {
				case <-exited:
				case <-time.After(o.Delay):
				}
				status.Close()
			})
		},
	}, nil
}

// speak tells the supervisor again and again that belay lives. A belay that is
// frozen cannot, and another process may have its task by the time it thaws.
func speak(control io.Writer, silence time.Duration, done <-chan struct{}) {
	tick := time.NewTicker(silence / 5)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if _, err := control.Write([]byte{wordAlive}); err != nil {
				return
			}
		}
	}
}

// listen passes on the supervisor's notices. When they end without an ending
// the supervisor is gone: it kills what the supervisor watched over.
func listen(status io.ReadCloser, o order, notices chan<- notice, done <-chan struct{}) {
	defer close(notices)
	defer status.Close()
	dec := json.NewDecoder(status)
	for {
		var n notice
		if err := dec.Decode(&n); err != nil {
			select {
			case <-done:
				return
			default:
			}
			left := killMarked(o.Mark, time.Now().Add(o.Delay))
			n = notice{Ending: &ending{Code: -1, Lost: "supervisor is gone", Left: left}}
		}
		select {
		case notices <- n:
		case <-done:
			return
		}
		if n.Ending != nil || n.Error != "" {
			return
		}
	}
}
