package executor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// TestLogPathsStayInside: an id comes from a URL.
func TestLogPathsStayInside(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	outside := filepath.Join(filepath.Dir(e.cfg.LogDir), "outside")
	require.NoError(t, os.Mkdir(outside, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "1.log"), []byte("x"), 0o600))
	for _, id := range []task.ID{"", ".", "..", "../outside", "/", "a/b", "a\x00b", "-x", ".hidden", "a.b", "é", task.ID(outside)} {
		_, err := e.OpenLog(id, 1)
		require.ErrorIs(t, err, ErrTaskID, "%q", id)
		_, err = e.OpenLog(id, 0)
		require.ErrorIs(t, err, ErrTaskID, "%q", id)
		require.ErrorIs(t, e.RemoveLogs(id), ErrTaskID, "%q", id)
	}
	require.FileExists(t, filepath.Join(outside, "1.log"))

	link := filepath.Join(e.cfg.LogDir, "linked")
	require.NoError(t, os.Mkdir(link, 0o700))
	require.NoError(t, os.Symlink(filepath.Join(outside, "1.log"), filepath.Join(link, "1.log")))
	_, err := e.OpenLog("linked", 1)
	require.Error(t, err, "nor is a link followed")
}

func TestLogs(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	id := job("").Task.ID
	_, err := e.OpenLog(id, 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for n, script := range map[int]string{2: "echo two", 9: "echo nine", 10: "echo ten"} {
		j := job(script)
		j.Attempt = n
		e.Run(t.Context(), j)
	}
	require.Equal(t, "two\n", readLog(t, e, id, 2))
	require.Equal(t, "ten\n", readLog(t, e, id, 0), "0 is the newest")
	for _, n := range []int{1, -1} {
		_, err = e.OpenLog(id, n)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	fi, err := os.Stat(e.logPath(id, 2))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), fi.Mode().Perm())

	require.NoError(t, e.RemoveLogs(id))
	require.NoError(t, e.RemoveLogs(id), "there need not be any")
	_, err = e.OpenLog(id, 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestWorkspaceThatCannotBeRemoved is surfaced. Nothing keeps root from
// removing a folder, so here a file stands where the task's folder should.
func TestWorkspaceThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	require.NoError(t, os.WriteFile(filepath.Join(e.cfg.WorkspaceDir, "file"), nil, 0o600))
	j := job("exit 0")
	j.Task.ID = "file"
	r := e.Run(t.Context(), j)
	require.Equal(t, task.OutcomeInfra, r.Outcome)
	require.Error(t, r.Cleanup)
	require.ErrorContains(t, r.Cleanup, "remove workspace")
}

func TestSweepWorkspaces(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	for _, p := range []string{"old/1/workspace", "old/2/tmp", "alive/3", "mine/x", "not.a.task/1", "empty"} {
		require.NoError(t, os.MkdirAll(filepath.Join(e.cfg.WorkspaceDir, p), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(e.cfg.WorkspaceDir, "note"), nil, 0o600))
	n, err := e.SweepWorkspaces(func(id task.ID, attempt int) bool { return id == "alive" && attempt == 3 })
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.ElementsMatch(t, []string{"alive", "mine", "not.a.task", "empty", "note"}, entries(t, e.cfg.WorkspaceDir))
	n, err = e.SweepWorkspaces(func(task.ID, int) bool { return false })
	require.NoError(t, err)
	require.Equal(t, 1, n, "control")
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no folders":   {Config{}, "must be set"},
		"a file":       {Config{WorkspaceDir: file, LogDir: dir}, "not a directory"},
		"log within":   {Config{WorkspaceDir: filepath.Join(dir, "w"), LogDir: filepath.Join(dir, "w", "l")}, "overlap"},
		"the same":     {Config{WorkspaceDir: filepath.Join(dir, "w"), LogDir: filepath.Join(dir, "w")}, "overlap"},
		"unknown user": {Config{WorkspaceDir: filepath.Join(dir, "w"), LogDir: filepath.Join(dir, "l"), RunAs: "no-such-user"}, "run_as"},
	} {
		_, err := New(c.cfg)
		require.ErrorContains(t, err, c.want, name)
	}
	e := newExecutor(t)
	for _, d := range []string{e.cfg.LogDir, e.cfg.WorkspaceDir} {
		fi, err := os.Stat(d)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o700), fi.Mode().Perm())
	}
}

// TestBuiltinRunner: without a command nothing is started.
func TestBuiltinRunner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind    task.Kind
		command []string
		reply   string
		want    string
	}{
		"issue":  {task.Kind{Name: task.FixIssue, IssueNumber: 7, IssueTitle: "It is broken"}, nil, "", "fix_issue in acme/api #7: It is broken"},
		"review": {task.Kind{Name: task.ReviewPullRequest, PRNumber: 3, PRTitle: "T"}, nil, "", "review_pull_request in acme/api #3: Review PR #3: T"},
		"custom": {task.Kind{Name: task.Custom, Custom: task.CustomKind{Name: "deploy", Event: "push"}}, nil, "", "custom in acme/api: deploy"},
		"reply":  {task.Kind{Name: task.CommandReply, IssueNumber: 7}, []string{"false"}, "Two tasks.", "Two tasks."},
		"cancel": {task.Kind{Name: task.CancelReviews, PRNumber: 3}, []string{"false"}, "Cancelled 2.", "Cancelled 2."},
		"token":  {task.Kind{Name: task.FixIssue, IssueTitle: "my-live-token"}, nil, "", "fix_issue in acme/api: [redacted-token]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExecutor(t)
			j := job("")
			j.Task.Kind, j.Familiar.Command, j.Reply, j.GitToken = c.kind, c.command, c.reply, "my-live-token"
			r := e.Run(t.Context(), j)
			require.NoError(t, errors.Join(r.Err, r.Cleanup))
			require.Equal(t, Done, r.Class)
			require.Equal(t, task.OutcomeCompleted, r.Outcome)
			require.Nil(t, r.Contract)
			require.Equal(t, task.Result{
				State: task.Completed, Status: task.ResultSuccess, Summary: c.want, Detail: "built-in runner", Tail: c.want + "\n",
			}, r.Result)
			require.Equal(t, c.want+"\n", readLog(t, e, j.Task.ID, 1))
			require.Empty(t, entries(t, e.cfg.WorkspaceDir))
		})
	}
}
