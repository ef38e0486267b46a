package executor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The supervisor is belay itself, started anew with this name and these
// files beside /dev/null and the output pipe. The order goes through a pipe,
// not through argv or the environment, which others could read.
const (
	superviseArg = "belay-run-supervisor"
	controlFD    = 3 // read: a line of JSON (order), then words; its end means that belay is gone
	statusFD     = 4 // write: lines of JSON (notice)
)

// Words on the control pipe.
const (
	wordAlive = 'a' // belay lives
	wordStop  = 't' // end the command: SIGTERM, grace, SIGKILL
)

// killPause is how long killed processes get to go before a next look.
const killPause = 2 * time.Millisecond

// Supervise turns the process into a run's supervisor if it was started as
// one, and then never returns. Call it first in main and in TestMain: Run
// refuses to start commands in a process that did not.
func Supervise() {
	armed.Store(true)
	if len(os.Args) != 2 || os.Args[0] != superviseArg || os.Args[1] != superviseArg {
		return
	}
	// The command's death signal hangs on the thread that starts it.
	runtime.LockOSThread()
	if err := supervise(); err != nil {
		_ = json.NewEncoder(os.NewFile(statusFD, "status")).Encode(notice{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

func supervise() error {
	// Whoever signals belay's whole group or control group means belay,
	// which drains first. Unlike SIG_IGN a handler ends with the exec.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	unix.CloseOnExec(controlFD)
	unix.CloseOnExec(statusFD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	control := bufio.NewReader(os.NewFile(controlFD, "control"))
	var o order
	line, err := control.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	pid, err := syscall.ForkExec(o.Path, o.Argv, &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: o.Cred.sys()},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", o.Path, err)
	}
	status := json.NewEncoder(os.NewFile(statusFD, "status"))
	_ = status.Encode(notice{Started: pid})
	s := &supervisor{leader: pid, order: o, ended: make(chan struct{})}
	go s.obey(control)
	x := s.wait()
	_ = status.Encode(notice{Ending: &x})
	if x.Left > 0 {
		killDescendants(time.Time{})
	}
	return nil
}

// supervisor watches over one command and all its descendants.
type supervisor struct {
	leader int
	order  order
	ended  chan struct{} // closed when the leader has ended

	mu     sync.Mutex
	reaped bool      // the leader's number is no longer its own
	until  time.Time // end of the grace, once asked to stop
	gone   bool      // belay is gone
}

// obey hears belay's words and ends the command: when it is asked to, with
// SIGTERM and after the grace SIGKILL; at the end of the pipe, or when belay
// has been silent for too long, at once, because belay is gone or frozen and
// the task may already be running elsewhere.
func (s *supervisor) obey(control *bufio.Reader) {
	words := make(chan byte)
	go func() {
		defer close(words)
		for {
			w, err := control.ReadByte()
			if err != nil {
				return
			}
			words <- w
		}
	}()
	s.listen(words)
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	for {
		s.signal(syscall.SIGKILL)
		select {
		case <-s.ended:
			return
		case <-time.After(killPause):
		}
	}
}

// listen returns when the command is to be killed.
func (s *supervisor) listen(words <-chan byte) {
	silent := time.NewTimer(s.order.Silence)
	if s.order.Silence <= 0 {
		silent.Stop()
	}
	var grace <-chan time.Time
	ended := s.ended
	for {
		select {
		case w, open := <-words:
			if !open {
				return
			}
			if s.order.Silence > 0 {
				silent.Reset(s.order.Silence)
			}
			if w == wordStop && grace == nil {
				s.mu.Lock()
				s.until = time.Now().Add(s.order.Grace)
				s.mu.Unlock()
				s.signal(syscall.SIGTERM)
				grace = time.After(s.order.Grace)
			}
		case <-ended: // the grace is over by itself; see wait
			ended, grace = nil, make(chan time.Time)
		case <-grace:
			return
		case <-silent.C:
			return
		}
	}
}

// signal sends sig to the leader's group and to every descendant.
func (s *supervisor) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reaped {
		_ = syscall.Kill(-s.leader, sig)
	}
	signalDescendants(sig)
}

// wait reaps until the leader has ended, kills its group before it reaps the
// leader, and then all that is left.
func (s *supervisor) wait() ending {
	for {
		pid, err := nextDead()
		if err != nil {
			return ending{Code: -1, Lost: fmt.Sprintf("wait for command: %v", err)}
		}
		if pid == s.leader {
			break
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
	close(s.ended)
	for s.graceLeft() && descendants() > 0 {
		time.Sleep(killPause)
	}
	s.mu.Lock()
	_ = syscall.Kill(-s.leader, syscall.SIGKILL)
	var ws unix.WaitStatus
	_, err := unix.Wait4(s.leader, &ws, 0, nil)
	s.reaped = true
	s.mu.Unlock()
	if err != nil {
		return ending{Code: -1, Lost: fmt.Sprintf("reap command: %v", err)}
	}
	x := ending{Code: ws.ExitStatus(), Left: killDescendants(time.Now().Add(s.order.Delay))}
	if ws.Signaled() {
		x.Signal = unix.SignalName(ws.Signal())
	}
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &ru); err == nil {
		x.User, x.System = time.Duration(ru.Utime.Nano()), time.Duration(ru.Stime.Nano())
		x.MaxRSS = int64(ru.Maxrss) << 10
	}
	return x
}

// graceLeft reports whether descendants of an ended leader may still finish.
func (s *supervisor) graceLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.gone && time.Now().Before(s.until)
}

// nextDead waits for any child to end and returns it, unreaped.
func nextDead() (int, error) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			// si_pid comes first in the union behind three ints, which is
			// aligned to a pointer; x/sys does not name it.
			return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), 8+unsafe.Sizeof(uintptr(0))))), err
		}
	}
}
