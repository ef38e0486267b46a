package executor

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// liveDescendants returns the processes below this one that are no zombies.
// As the supervisor is their subreaper, none of them can leave it: not by a
// second fork, not by a session of its own.
func liveDescendants() []int {
	below := map[int][]int{}
	dead := map[int]bool{}
	for _, pid := range allPIDs() {
		parent, zombie, ok := parentOf(pid)
		if ok {
			below[parent] = append(below[parent], pid)
			dead[pid] = zombie
		}
	}
	var out []int
	for todo := []int{os.Getpid()}; len(todo) > 0; todo = todo[1:] {
		for _, pid := range below[todo[0]] {
			todo = append(todo, pid)
			if !dead[pid] {
				out = append(out, pid)
			}
		}
	}
	return out
}

func descendants() int { return len(liveDescendants()) }

func signalDescendants(sig syscall.Signal) {
	for _, pid := range liveDescendants() {
		_ = syscall.Kill(pid, sig)
	}
}

// killDescendants kills and reaps until none is left or, unless it is zero,
// a whole pass after the deadline has found some; it returns how many.
func killDescendants(deadline time.Time) int {
	for {
		late := !deadline.IsZero() && time.Now().After(deadline)
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return 0
			}
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		signalDescendants(syscall.SIGKILL)
		time.Sleep(killPause)
		if !late {
			continue
		}
		if left := descendants(); left > 0 {
			return left
		}
	}
}

// allPIDs lists the processes of the system.
func allPIDs() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parentOf reads a process's parent and whether it is a zombie.
func parentOf(pid int) (parent int, zombie, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false, false
	}
	// pid (name) state ppid …, where the name may contain anything.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0, false, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, fields[0][0] == 'Z' || fields[0][0] == 'X', err == nil
}

// killMarked kills every process whose environment has the entry mark, until
// a pass finds none or, begun after the deadline, some: those are left. It is
// the last resort for a run whose supervisor was killed.
func killMarked(mark string, deadline time.Time) (left int) {
	for {
		late := time.Now().After(deadline)
		left = 0
		for _, pid := range allPIDs() {
			if hasEnv(pid, mark) {
				left++
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if left == 0 || late {
			return left
		}
		time.Sleep(killPause)
	}
}

func hasEnv(pid int, entry string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for e := range bytes.SplitSeq(b, []byte{0}) {
		if string(e) == entry {
			return true
		}
	}
	return false
}
