//go:build ci && linux

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// J16: a disk that is full makes belay refuse webhooks and say so, and once
// there is room again it ends, for its supervisor to start it anew: the embedded
// server does not write again by itself.
func TestJ16FullDisk(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	data := filepath.Join(h.dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	// The small disk is in a mount namespace of belay's own.
	serve := h.belay("serve")
	serve.Args = append([]string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs -o size=100m none data && exec "$0" "$@"`, serve.Path}, serve.Args[1:]...)
	path, err := exec.LookPath("unshare")
	require.NoError(t, err)
	serve.Path = path
	p := h.run(serve)
	natstest.Eventually(t, "serve to be ready", func() bool { return h.get("/readyz") == http.StatusOK })
	before := h.accept(1)
	h.await(before, "done")

	filler := filepath.Join(fmt.Sprintf("/proc/%d/root", p.cmd.Process.Pid), data, "filler")
	f, err := os.Create(filler)
	require.NoError(t, err)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	require.NoError(t, f.Close())
	refused := 0
	natstest.Eventually(t, "a webhook to be refused", func() bool {
		if h.post(2+refused) != "" {
			refused++
			return false
		}
		return true
	})
	require.Equal(t, http.StatusServiceUnavailable, h.get("/readyz"))
	require.Equal(t, "done", h.show(before).Status, "what is there can still be read")

	require.NoError(t, os.Remove(filler))
	select { // it waits for the server to write again, and cannot say goodbye to it
	case <-p.done:
	case <-time.After(3 * time.Minute):
		require.Fail(t, "serve did not end", "%s", p.out)
	}
	require.Equal(t, exitError, p.cmd.ProcessState.ExitCode(), "%s", p.out)
	require.Contains(t, p.out.String(), "has taken no write for")
}
