//go:build ci && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// Q26: belay is process 1 of a container. Its command leaves processes of sessions
// of their own behind, even one whose supervisor is killed: none of them lives on,
// and none stays as a zombie. A stop lets the task end first.
func TestQ26ProcessOneReapsWhatTasksLeaveBehind(t *testing.T) {
	t.Parallel()
	h := newHost(t, `drain_timeout = "60s"`, `(setsid sleep 1000 &); (setsid sh -c 'sleep 0.01; exit 3' &); echo $PPID >"$3/supervisor"; `+
		`trap 'touch "$3/told"; exit 2' TERM; touch "$3/runs"; `+gated)
	serve := h.belay("serve")
	serve.Args = append([]string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", serve.Path}, serve.Args[1:]...)
	var err error
	serve.Path, err = exec.LookPath("unshare")
	require.NoError(t, err)
	p := h.contained(serve)
	natstest.Eventually(t, "serve to be ready", func() bool { return strings.Contains(p.out.String(), "belay is ready") })
	one, err := first(p)
	require.NoError(t, err)

	lost := h.accept(1)
	h.await(lost, "running")
	natstest.Eventually(t, "the command to run", func() bool { return exists(h, "runs") })
	for _, child := range childrenOf(t, one) {
		require.NoError(t, syscall.Kill(child, syscall.SIGKILL), "the supervisor")
	}
	h.release()
	require.Equal(t, "infra", h.await(lost, "done").Attempts[0].Outcome)
	natstest.Eventually(t, "nothing to be left of it", func() bool { return len(childrenOf(t, one)) == 0 })

	require.NoError(t, os.Remove(filepath.Join(h.dir, "go")))
	require.NoError(t, os.Remove(filepath.Join(h.dir, "runs")))
	drained := h.accept(2)
	h.await(drained, "running")
	natstest.Eventually(t, "the command to run", func() bool { return exists(h, "runs") })
	h.inside(p, syscall.SIGTERM)
	natstest.Eventually(t, "belay to drain", func() bool { return h.get("/healthz") != 200 })
	require.False(t, exists(h, "told"), "the command is not told to end before the drain is over")
	h.release()
	require.Equal(t, exitOK, p.exit(), "%s", p.out)
	require.False(t, exists(h, "told"))
	require.Regexp(t, `"msg":"task ended","task_id":"`+drained+`".*"state":"completed"`, p.out.String())
}

func exists(h *host, name string) bool {
	_, err := os.Stat(filepath.Join(h.dir, name))
	return err == nil
}

// childrenOf lists the children of a process, zombies included.
func childrenOf(t *testing.T, pid int) (out []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, path := range tasks {
		text, _ := os.ReadFile(path) // a thread may have ended
		for _, word := range strings.Fields(string(text)) {
			var child int
			_, err := fmt.Sscan(word, &child)
			require.NoError(t, err)
			out = append(out, child)
		}
	}
	return out
}
