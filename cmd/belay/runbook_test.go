package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every ```sh block of the runbook works as it stands, on a host with a failed task.
func TestRunbookCommandsWork(t *testing.T) {
	t.Parallel()
	h := newHost(t, "max_retries = 0", "exit 9")
	p := h.serve()
	failed := h.accept(1)
	h.await(failed, "failed")
	bin := filepath.Join(h.dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "belay"), fmt.Appendf(nil, "#!/bin/sh\n%s=1 exec %q \"$@\"\n", asBelay, os.Args[0]), 0o700))
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(deployed(t, "README.md"), -1)
	require.Greater(t, len(blocks), 8)
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
			cmd.Dir = h.dir
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "ADMIN=http://"+h.admin, "TASK="+failed)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			require.NoError(t, cmd.Run(), "%s%s", line, said.String())
		}
		if strings.Contains(block[1], "tasks retry") {
			h.await(failed, "failed")
		}
	}
	p.stop()
}
