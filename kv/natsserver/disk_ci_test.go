//go:build ci && linux

package natsserver_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
)

// childMount is the variable that makes a test mount a small disk: it is set
// in a process of its own mount namespace, where nothing else sees the mount.
const childMount = "BELAY_TEST_CHILD_MOUNT"

// inNamespace runs the calling test again in a mount namespace of its own. It
// returns true in there.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childMount) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), childMount+"=1")
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.True(t, bytes.Contains(out, []byte("--- PASS: "+t.Name())), "%s", out)
	return false
}

// mount mounts a disk of so many bytes.
func mount(t *testing.T, size int, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	require.NoError(t, syscall.Mount("none", dir, "tmpfs", flags, fmt.Sprintf("size=%d", size)))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

func TestDiskFull(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := mount(t, 128<<10, 0)
	err := refused(t, natsserver.ErrDisk, natsserver.Options{Dir: dir})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Regexp(t, "^storage.dir "+dir+" cannot be written: write "+dir+"/.probe-[0-9]+: no space left on device: "+
		"free some space, or set another storage.dir$", err.Error())
}

func TestDiskReadOnly(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := filepath.Join(mount(t, 1<<20, syscall.MS_RDONLY), "data")
	err := refused(t, natsserver.ErrDisk, natsserver.Options{Dir: dir})
	require.ErrorIs(t, err, syscall.EROFS)
	require.EqualError(t, err, "storage.dir "+dir+" cannot be written: mkdir "+dir+
		": read-only file system: mount it writable, or set another storage.dir")
}

// A disk with room for the probe, but for little more.
func TestDiskSmall(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := mount(t, 2<<20, 0)
	s, err := natsserver.Start(context.Background(), natsserver.Options{Dir: dir, Listen: natsserver.ListenNone})
	require.NoError(t, err)
	shutdown(t, s)
}
