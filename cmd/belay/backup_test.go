package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A belay's records go into one file while it works, and come out elsewhere;
// the original is never touched.
func TestBackupAndRestoreOfARunningBelay(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	h.serve()
	file := filepath.Join(h.dir, "one.backup")
	got := h.try("backup", "--to", file)
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "verified: 0 deliveries")
	got = h.try("backup", "--to", file)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "is there already: name a new file")
	got = h.try("restore", "--from", file)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "in use by another belay")

	got = try(t, nil, "restore", "--from", file, "--verify", "-o", "json")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, `"broken": 0`)
	other := configFile(t, "[storage]\ndir = \""+filepath.Join(t.TempDir(), "data")+"\"\n"+someFamiliar)
	got = try(t, nil, "restore", "--config", other, "--from", file, "--continue")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "while a belay worked: leave out --continue")
	got = try(t, nil, "restore", "--config", other, "--from", file)
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "0 tasks wait for `belay resume`")
	got = try(t, nil, "restore", "--config", other, "--from", file)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "there is a store already")

	b, err := os.ReadFile(file)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(file, b, 0o600))
	got = try(t, nil, "restore", "--from", file, "--verify")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "its SHA-256 is not the one that it ends with")
	require.Equal(t, exitUsage, try(t, nil, "backup").code)
	require.Equal(t, exitUsage, try(t, nil, "restore").code)
	require.Equal(t, exitUsage, try(t, nil, "restore", "--from", file, "--verify", "--continue").code)
}
