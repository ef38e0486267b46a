package executor

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tree watches a command and all its descendants through a FIFO that each
// of them holds open, and through a mark in their environment.
type tree struct {
	t     *testing.T
	fifo  string
	mark  string
	lines chan string   // what was written to the FIFO
	gone  chan struct{} // closed when nobody holds it any more
}

func watch(t *testing.T) *tree {
	t.Helper()
	w := &tree{
		t: t, fifo: filepath.Join(t.TempDir(), "fifo"), mark: fmt.Sprintf("tree-%d-%s", os.Getpid(), t.Name()),
		lines: make(chan string, 16), gone: make(chan struct{}),
	}
	require.NoError(t, syscall.Mkfifo(w.fifo, 0o666))
	require.NoError(t, os.Chmod(w.fifo, 0o666))
	go func() {
		defer close(w.gone)
		defer close(w.lines)
		f, err := os.Open(w.fifo) // waits for the command
		if err != nil {
			return
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
	return w
}

// script makes everything that it starts hold the FIFO.
func (w *tree) script(s string) string { return `exec 9>"$FIFO"; ` + s }

func (w *tree) env() map[string]string { return map[string]string{"FIFO": w.fifo, "MARK": w.mark} }

func (w *tree) job(s string) Job {
	j := job(w.script(s))
	j.Familiar.Env = w.env()
	return j
}

// line waits for a line from the command.
func (w *tree) line() string {
	w.t.Helper()
	select {
	case s := <-w.lines:
		return s
	case <-time.After(deadline):
		w.t.Fatal("no word from the command")
		return ""
	}
}

// alive lists the processes of the tree.
func (w *tree) alive() (out []string) {
	for _, pid := range allPIDs() {
		if hasEnv(pid, "MARK="+w.mark) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			out = append(out, fmt.Sprintf("%d: %s", pid, strings.ReplaceAll(string(b), "\x00", " ")))
		}
	}
	return out
}

// requireGone waits until the tree is gone, no longer than within.
func (w *tree) requireGone(within time.Duration) {
	w.t.Helper()
	select {
	case <-w.gone:
	case <-time.After(within):
		w.t.Fatalf("processes are left: %q", w.alive())
	}
	require.Empty(w.t, w.alive())
}

// startHost starts a belay of its own for script.
func (w *tree) startHost(script string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hostEnv+"="+w.t.TempDir(), "SCRIPT="+w.script(script), "FIFO="+w.fifo, "MARK="+w.mark)
	cmd.Stderr = os.Stderr
	require.NoError(w.t, cmd.Start())
	return cmd
}
