//go:build ci

package executor

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// nobody is a user without an entry, so that the test leans on no system's.
const nobody = "64001:64002"

// foreign returns an executor that runs commands as nobody, beside a folder
// with belay's data.
func foreign(t *testing.T) (e *Executor, data string) {
	t.Helper()
	require.Zero(t, os.Geteuid(), "this test needs root: run_as is proven or it is not")
	dir, err := os.MkdirTemp("/tmp", "belay-run-as-") // t.TempDir is closed to others
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	data = filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "secret"), []byte("the webhook secret"), 0o644))
	return newExecutor(t, func(c *Config) {
		c.RunAs, c.WorkspaceDir, c.LogDir = nobody, filepath.Join(dir, "workspaces"), filepath.Join(data, "logs")
	}), data
}

// TestRunAsIsAnotherUser: the command is that user, with its groups only; it
// works in its workspace and reaches nothing of belay's.
func TestRunAsIsAnotherUser(t *testing.T) {
	t.Parallel()
	e, data := foreign(t)
	j := job(`id -u; id -g; id -G; echo "$HOME $USER"; touch "$HOME/h" "$TMPDIR/t" "$3/w" && echo written
cat "$1" >/dev/null && echo brief
cat "` + data + `/secret"; ls "` + data + `"; ls "$3/../../.."; cat /proc/$PPID/environ
` + writes(good, 0))
	r := e.Run(t.Context(), j)
	require.Equal(t, Done, r.Class, "%+v", r)
	require.NoError(t, r.Cleanup)
	home := filepath.Join(e.workspacePath(j.Task.ID, 1), "home")
	require.True(t, strings.HasPrefix(r.Tail, "64001\n64002\n64002\n"+home+" 64001\nwritten\nbrief\n"), r.Tail)
	require.NotContains(t, r.Tail, "the webhook secret")
	require.Equal(t, 4, strings.Count(r.Tail, "ermission denied"), r.Tail)
	b, err := os.ReadFile(filepath.Join(data, "secret"))
	require.NoError(t, err)
	require.Equal(t, "the webhook secret", string(b), "control")
	require.Empty(t, entries(t, e.cfg.WorkspaceDir))
}

// TestRunAsBrokerIsTheUsersOwn: the broker hears whose socket it is to be, and
// the command reaches it.
func TestRunAsBrokerIsTheUsersOwn(t *testing.T) {
	t.Parallel()
	e, _ := foreign(t)
	j := job(`stat -c '%u %F' "$BELAY_TOKEN_SOCKET"; ` + writes(good, 0))
	j.Broker = func(path string, uid int, _ func(redact.Secret)) (io.Closer, error) {
		require.Equal(t, 64001, uid)
		l, err := net.Listen("unix", path)
		require.NoError(t, err)
		require.NoError(t, os.Chown(path, uid, -1))
		return l, nil
	}
	r := e.Run(t.Context(), j)
	require.Equal(t, Done, r.Class, "%+v", r)
	require.Equal(t, "64001 socket\n", r.Tail)
	require.Empty(t, entries(t, e.cfg.WorkspaceDir))
}

// TestRunAsTreeIsKilled: belay, as root, ends the other user's processes.
func TestRunAsTreeIsKilled(t *testing.T) {
	t.Parallel()
	for name, line := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			treeAsNobody(t, line)
		})
	}
}

func treeAsNobody(t *testing.T, line string) {
	e, _ := foreign(t)
	w := watch(t)
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(w.fifo)), 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(w.fifo), 0o755))
	j := w.job("echo started; " + line)
	j.Timeout = soon(t, e)
	r := e.Run(t.Context(), j)
	w.requireGone(deadline)
	require.Equal(t, task.OutcomeTimeout, r.Outcome)
	require.NoError(t, r.Cleanup)
}

// TestReadOnlyFoldersAreRemoved: Go's module cache is made of such, and only
// root removes them without being asked twice. So this belay is not root.
func TestReadOnlyFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	_, data := foreign(t)
	dir := filepath.Join(filepath.Dir(data), "of-nobody")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chown(dir, 64001, 64002))
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), hostEnv+"="+dir, "SCRIPT=mkdir -p a/b; touch a/b/c; chmod 0500 a/b a")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64001, Gid: 64002}}
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "the host never ends well")
	require.Contains(t, string(out), "exit code 0, but result.json: was not written; cleanup: <nil>")
	require.Empty(t, entries(t, filepath.Join(dir, "w")))
}

// TestRunAsResultIsTheUsersOwn: a result that somebody else owns is refused.
func TestRunAsResultIsTheUsersOwn(t *testing.T) {
	t.Parallel()
	e, data := foreign(t)
	path := filepath.Join(data, "result.json")
	require.NoError(t, os.WriteFile(path, []byte(good), 0o644))
	_, err := e.readResult(path)
	require.ErrorContains(t, err, "is not the command's own file")
	require.NoError(t, os.Chown(path, 64001, 64002))
	_, err = e.readResult(path)
	require.NoError(t, err, "control")
}

func TestRunAsIsChecked(t *testing.T) {
	t.Parallel()
	_, data := foreign(t)
	for user, want := range map[string]string{
		"root": "is root", "0:5": "is root", "64001": "written uid:gid", "no-such-user": "no such user", "64001:x": "run_as",
	} {
		_, err := New(Config{WorkspaceDir: filepath.Join(t.TempDir(), "w"), LogDir: t.TempDir(), RunAs: user})
		require.ErrorContains(t, err, want, user)
	}
	_, err := New(Config{WorkspaceDir: filepath.Join(data, "w"), LogDir: filepath.Join(data, "l"), RunAs: nobody})
	require.ErrorContains(t, err, "user 64001 may not enter "+data)
}
