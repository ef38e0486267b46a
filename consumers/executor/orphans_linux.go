package executor

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// started are the processes that somebody here waits for.
var started = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// reaper starts reapOrphans, with the first command: a process that starts others
// in its own way, as the demo does, would miss how they ended.
var reaper sync.Once

// startWaited starts a process that the caller waits for with the function it
// gets.
func startWaited(cmd *exec.Cmd) (wait func() error, err error) {
	started.Lock()
	defer started.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	started.pids[pid] = true
	return func() error {
		err := cmd.Wait()
		started.Lock()
		defer started.Unlock()
		delete(started.pids, pid)
		return err
	}, nil
}

// reapOrphans is what process 1 of a container owes: a process whose parent is
// gone becomes its child, and stays a zombie until it is waited for (Q26). Those
// are what a killed supervisor watched over, and what container engines start
// beside belay.
func reapOrphans() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for range ended {
		started.Lock()
		for _, pid := range allPIDs() {
			if parent, zombie, ok := parentOf(pid); ok && zombie && parent == os.Getpid() && !started.pids[pid] {
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			}
		}
		started.Unlock()
	}
}
