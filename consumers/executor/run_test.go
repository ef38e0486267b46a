package executor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// TestExitTable is the table of the package comment.
func TestExitTable(t *testing.T) {
	t.Parallel()
	failure := change(t, set{"status": "failure", "exit_reason": "test_failure"})
	input := change(t, set{"status": "needs_input", "exit_reason": "ambiguous_spec"})
	partial := change(t, set{"status": "partial"})
	for name, c := range map[string]struct {
		script  string
		class   Class
		outcome task.Outcome
		state   task.State
		detail  string
	}{
		"0 success":         {writes(good, 0), Done, task.OutcomeCompleted, task.Completed, "exit code 0, result success"},
		"0 partial":         {writes(partial, 0), Done, task.OutcomeCompleted, task.Completed, "exit code 0, result partial"},
		"1 failure":         {writes(failure, 1), Done, task.OutcomeFailed, task.Failed, "exit code 1, result failure"},
		"3 needs_input":     {writes(input, 3), Done, task.OutcomeCompleted, task.Completed, "exit code 3, result needs_input"},
		"0 failure":         {writes(failure, 0), Done, task.OutcomeFailed, task.Failed, "exit code 0, result failure (which goes with exit code 1; the result counts)"},
		"1 success":         {writes(good, 1), Done, task.OutcomeCompleted, task.Completed, "exit code 1, result success (which goes with exit code 0; the result counts)"},
		"0 nothing":         {"exit 0", Retryable, task.OutcomeFailed, "", "exit code 0, but result.json: was not written"},
		"1 nothing":         {"exit 1", Retryable, task.OutcomeFailed, "", "exit code 1, but result.json: was not written"},
		"0 invalid":         {writes("{}", 0), Retryable, task.OutcomeFailed, "", "exit code 0, but result.json: contract_version: is missing"},
		"3 garbage":         {writes("{", 3), Retryable, task.OutcomeFailed, "", "exit code 3, but result.json: unexpected end"},
		"2 success":         {writes(good, 2), Retryable, task.OutcomeInfra, "", "exit code 2: infrastructure error"},
		"4 success":         {writes(good, 4), Retryable, task.OutcomeFailed, "", "exit code 4"},
		"killed":            {writes(good, 0)[:len(writes(good, 0))-len("exit 0")] + "kill -9 $$", Retryable, task.OutcomeFailed, "", "killed by SIGKILL"},
		"link":              {`cat >real <<'END'` + "\n" + good + "\nEND\n" + `ln -s "$PWD/real" "$2"`, Retryable, task.OutcomeFailed, "", "exit code 0, but result.json: is a link"},
		"hard link":         {writes(good, 0)[:len(writes(good, 0))-len("exit 0")] + `ln "$2" other`, Retryable, task.OutcomeFailed, "", "exit code 0, but result.json: is not the command's own"},
		"pipe":              {`mkfifo "$2"`, Retryable, task.OutcomeFailed, "", "exit code 0, but result.json: is no plain file"},
		"folder":            {`mkdir "$2"`, Retryable, task.OutcomeFailed, "", "exit code 0, but result.json: is no plain file"},
		"device":            {`ln -s /dev/zero "$2"`, Retryable, task.OutcomeFailed, "", "exit code 0, but result.json: is a link"},
		"too large":         {`head -c 1048577 /dev/zero >"$2"`, Retryable, task.OutcomeFailed, "", "exit code 0, but result.json: is larger"},
		"workspace removed": {`rm -rf "$3"; ` + writes(good, 0), Done, task.OutcomeCompleted, task.Completed, "exit code 0, result success"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExecutor(t)
			r := e.Run(t.Context(), job(c.script))
			require.Equal(t, c.class, r.Class, "%+v", r)
			require.Equal(t, c.outcome, r.Outcome)
			require.Equal(t, c.state, r.Result.State)
			require.Truef(t, strings.HasPrefix(r.Detail, c.detail), "detail: %s", r.Detail)
			require.Equal(t, c.class == Done, r.Contract != nil)
			require.Equal(t, c.class == Retryable, r.Err != nil)
			require.NoError(t, r.Cleanup)
			require.Empty(t, entries(t, e.cfg.WorkspaceDir), "the workspace is removed")
		})
	}
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestResultReachesTheReport(t *testing.T) {
	t.Parallel()
	r := newExecutor(t).Run(t.Context(), job("echo out; echo err >&2\n"+writes(good, 0)))
	require.Equal(t, task.Result{
		State: task.Completed, Status: task.ResultSuccess, Branch: "fix/7", Summary: "Fixed it.",
		Detail: "exit code 0, result success", Tail: "out\nerr\n",
	}, r.Result)
	require.Equal(t, "Body.", r.Contract.PRBody)
	require.Positive(t, r.Usage.Wall)
	require.Equal(t, int64(8), r.Usage.Output)
}

// TestOldResultIsNotRead: each attempt starts in an empty folder.
func TestOldResultIsNotRead(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	old := filepath.Join(e.workspacePath(job("").Task.ID, 1), "result.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(old), 0o700))
	require.NoError(t, os.WriteFile(old, []byte(good), 0o600))
	r := e.Run(t.Context(), job(`ls -A . "$(dirname "$2")"`))
	require.Equal(t, Retryable, r.Class)
	require.Contains(t, r.Detail, "was not written")
	require.Contains(t, r.Tail, "session-brief.json\ntmp\nworkspace\n")
	require.NotContains(t, r.Tail, "result.json")
}

func TestNotStartedIsInfra(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "no-interpreter")
	require.NoError(t, os.WriteFile(script, []byte("#!/nonexistent/sh\n"), 0o700))
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	for name, c := range map[string]struct {
		set  func(*Job)
		want string
	}{
		"not on PATH":     {func(j *Job) { j.Familiar.Command = []string{"no-such-tool"} }, `command not found: no executable "no-such-tool" on PATH`},
		"own PATH":        {func(j *Job) { j.Familiar.Env["PATH"] = dir }, `command not found: no executable "sh" on PATH ` + dir},
		"not executable":  {func(j *Job) { j.Familiar.Command = []string{plain} }, "is not an executable file"},
		"not there":       {func(j *Job) { j.Familiar.Command = []string{"/nonexistent/x"} }, "command not found"},
		"empty":           {func(j *Job) { j.Familiar.Command = []string{""} }, "command not found: the name is empty"},
		"no interpreter":  {func(j *Job) { j.Familiar.Command = []string{script} }, "start " + script},
		"bad task id":     {func(j *Job) { j.Task.ID = "../x" }, "not a task id"},
		"attempt 0":       {func(j *Job) { j.Attempt = 0 }, "attempts count from 1"},
		"token in brief":  {func(j *Job) { j.Task.Kind.IssueBody, j.GitToken = "my-git-token", "my-git-token" }, ErrBriefToken.Error()},
		"other in brief":  {func(j *Job) { j.Task.Kind.IssueTitle, j.Tokens = "other-token", []redact.Secret{"other-token"} }, ErrBriefToken.Error()},
		"repo not a name": {func(j *Job) { j.Task.Repo = "x" }, "is not owner/name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job("touch ran")
			j.Task.ID = task.ID(strings.ReplaceAll(name, " ", "-"))
			c.set(&j)
			r := e.Run(t.Context(), j)
			require.Equal(t, Retryable, r.Class, "%+v", r)
			require.Equal(t, task.OutcomeInfra, r.Outcome)
			require.ErrorContains(t, r.Err, c.want)
			require.NoError(t, r.Cleanup)
		})
	}
}

// TestG39PayloadReachesFilesOnly: what GitHub sent is in the brief, byte for
// byte, and neither in argv nor in the environment nor run by a shell.
func TestG39PayloadReachesFilesOnly(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	const evil = "`touch pwned` $(touch pwned) {result} -- --flag; rm -rf ."
	j := job(`tr '\0' '\n' </proc/$$/cmdline; env; echo "---"; cat "$1"; ls`)
	j.Task.Kind.IssueTitle, j.Task.Kind.IssueBody = "line\nbreak "+evil, evil
	j.Familiar.Command = append(j.Familiar.Command, "--title={title}", "{brief}:{brief}")
	r := e.Run(t.Context(), j)
	seen, brief, ok := strings.Cut(r.Tail, "---\n")
	require.True(t, ok, r.Tail)
	require.NotContains(t, seen, "pwned")
	require.Contains(t, seen, "--title={title}\n", "an unknown placeholder stays as it is")
	path := filepath.Join(e.workspacePath(j.Task.ID, 1), "session-brief.json")
	require.Contains(t, seen, path+":"+path)
	require.Contains(t, brief, `line\nbreak `+evil)
	require.NotContains(t, brief, "pwned\n", "no such file")
}

// TestG41EnvironmentIsMinimal: nothing of belay's own environment passes but
// what is listed; the token is in the environment.
func TestG41EnvironmentIsMinimal(t *testing.T) {
	t.Parallel()
	own := map[string]string{
		"PATH": os.Getenv("PATH"), "LANG": "C.UTF-8", "HOME": "/home/of/belay", "AWS_SECRET_ACCESS_KEY": "a",
		"BELAY_API_SERVICE_TOKEN": "b", "COVEN_GIT_TOKEN": "c", "GITHUB_TOKEN": "d", "ALSO": "e",
	}
	lookup := func(k string) (string, bool) { v, ok := own[k]; return v, ok }
	j := job(`env | sed 's/\(BELAY_RUN=\|TOKEN=\).*/\1x/; s/\(SOCKET=\).*\(.3.token\)/\1x\2/' | grep -v '^\(PWD\|OLDPWD\|SHLVL\|_\)='; printf %s "$BELAY_GIT_TOKEN" | wc -c`)
	j.Attempt, j.GitToken, j.Broker = 3, "the-git-token", nothing
	j.Familiar.Env = map[string]string{"LEVEL": "debug", "BELAY_ATTEMPT": "9", "COVEN_GIT_TOKEN": "mine", "LANG": "de"}
	short := shortDir(t)
	e := newExecutor(t, func(c *Config) { c.LookupEnv, c.WorkspaceDir = lookup, short })
	r := e.Run(t.Context(), j)
	require.ElementsMatch(t, []string{
		"PATH=" + own["PATH"], "LANG=de", "HOME=/home/of/belay", "LEVEL=debug",
		"TMPDIR=" + filepath.Join(e.workspacePath(j.Task.ID, 3), "tmp"), "BELAY_RUN=x", "BELAY_TASK_ID=" + string(j.Task.ID),
		"BELAY_ATTEMPT=3", "BELAY_TOKEN_SOCKET=x/3/token.sock", "COVEN_GIT_TOKEN=x", "BELAY_GIT_TOKEN=x", "13",
	}, strings.Fields(r.Tail))

	j = job("env")
	j.Familiar.Env = map[string]string{"COVEN_GIT_TOKEN": "mine", "BELAY_GIT_TOKEN": "mine", "BELAY_X": "mine"}
	require.NotContains(t, e.Run(t.Context(), j).Tail, "mine", "nor can belay's own variables be configured")

	e = newExecutor(t, func(c *Config) { c.LookupEnv, c.PassEnv = lookup, []string{"PATH", "ALSO"} })
	require.Contains(t, e.Run(t.Context(), job("env")).Tail, "ALSO=e\n", "control: what is listed passes")

	for _, name := range []string{"BELAY_API_SERVICE_TOKEN", "COVEN_GIT_TOKEN", "", "A=B"} {
		_, err := New(Config{WorkspaceDir: t.TempDir(), LogDir: t.TempDir(), PassEnv: []string{name}})
		require.ErrorContains(t, err, "may not be passed on")
	}
}

// TestInputIsEmpty: a command that reads its input does not hang.
func TestInputIsEmpty(t *testing.T) {
	t.Parallel()
	r := newExecutor(t).Run(t.Context(), job("cat; echo end"))
	require.Equal(t, "end\n", r.Tail)
}

// TestX06NoTokenLeaves: the command prints its token, in two writes; neither
// tail nor log nor report nor belay's own log shows it.
func TestX06NoTokenLeaves(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	e := newExecutor(t, func(c *Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const token, key = "plain-git-token-value", "sk-0123456789"
	j := job(`printf 'a plain-git-'; sleep 0.1; printf 'token-value b '; echo "$API_KEY $LEVEL"; echo "$BELAY_GIT_TOKEN" >&2
` + writes(change(t, set{"summary": "I used " + token, "pr_body": key}), 0))
	j.GitToken = token
	j.Familiar.Env = map[string]string{"API_KEY": key, "LEVEL": "debug"}
	r := e.Run(t.Context(), j)
	require.Equal(t, Done, r.Class, "%+v", r)
	require.Equal(t, "a [redacted-token] b [redacted-token] debug\n[redacted-token]\n", r.Tail)
	require.Equal(t, "I used [redacted-token]", r.Result.Summary)
	require.Equal(t, redact.Marker, r.Contract.PRBody)
	require.Equal(t, r.Tail, readLog(t, e, j.Task.ID, 1))
	require.NotEmpty(t, logged.String())
	require.NotContains(t, logged.String(), token)
}

func readLog(t *testing.T, e *Executor, id task.ID, attempt int) string {
	t.Helper()
	f, err := e.OpenLog(id, attempt)
	require.NoError(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	return string(b)
}

// TestFloodNeitherBlocksNorGrows: output far above the cap is read on, cut in
// the log with a note, and not kept in memory.
func TestFloodNeitherBlocksNorGrows(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, func(c *Config) { c.MaxOutput = 64 << 10 })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	j := job("yes | head -c 64000000; echo the end\n" + writes(good, 0))
	r := e.Run(t.Context(), j)
	runtime.ReadMemStats(&after)
	require.Equal(t, Done, r.Class, "%+v", r)
	require.True(t, strings.HasSuffix(r.Tail, "y\nthe end\n"), "the tail is the true end")
	require.Len(t, r.Tail, DefaultTailBytes)
	require.Greater(t, r.Usage.Output, int64(64000000))
	log := readLog(t, e, j.Task.ID, 1)
	require.Equal(t, strings.Repeat("y\n", 32<<10)+"\n[belay: the output goes on; this log keeps its first 65536 bytes]\n", log)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(16<<20))

	j = job("yes")
	j.Task.ID, j.Timeout = "endless", time.Second
	r = e.Run(t.Context(), j)
	require.Equal(t, task.OutcomeTimeout, r.Outcome)
	require.True(t, strings.HasSuffix(r.Tail, "y\n"))
}

func TestTailIsWholeRunes(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, func(c *Config) { c.TailBytes = 16 })
	r := e.Run(t.Context(), job(`printf 'start €€€€€€\377'`))
	require.Equal(t, "€€€€€\uFFFD", r.Tail)
}

func TestCancelBeforeTheStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("drained")
	cancel(why)
	for _, j := range []Job{job("exit 0"), {Task: job("").Task, Attempt: 1}} {
		e := newExecutor(t)
		r := e.Run(ctx, j)
		require.Equal(t, Canceled, r.Class)
		require.Equal(t, task.OutcomeCancelled, r.Outcome)
		require.ErrorIs(t, r.Err, why)
		require.Empty(t, entries(t, e.cfg.LogDir), "nothing was begun")
	}
}

func TestFamiliarsTimeoutGoesFirst(t *testing.T) {
	t.Parallel()
	j := Job{}
	require.Equal(t, DefaultTimeout, j.Limit())
	j.Timeout = time.Minute
	require.Equal(t, time.Minute, j.Limit())
	j.Familiar.Timeout = time.Second
	require.Equal(t, time.Second, j.Limit())
}

// BenchmarkRun is a whole run of the shortest command; BenchmarkExec is the
// command alone. Their difference is what supervision and files cost.
func BenchmarkRun(b *testing.B) {
	e, err := New(Config{WorkspaceDir: filepath.Join(b.TempDir(), "w"), LogDir: filepath.Join(b.TempDir(), "l")})
	require.NoError(b, err)
	j := job("")
	j.Familiar.Command = []string{"true"}
	defer cpu(b)()
	for b.Loop() {
		e.Run(b.Context(), j)
	}
}

func BenchmarkExec(b *testing.B) {
	defer cpu(b)()
	for b.Loop() {
		_ = exec.Command("true").Run()
	}
}

// cpu reports the processor time of belay and its children, which, unlike the
// time on the wall, does not depend on what else the machine does.
func cpu(b *testing.B) func() {
	used := func() (sum time.Duration) {
		for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
			var ru syscall.Rusage
			require.NoError(b, syscall.Getrusage(who, &ru))
			sum += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		}
		return sum
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op") }
}
