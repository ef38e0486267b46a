package executor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belay-run/belay/kv/task"
)

// hostEnv makes the test binary a belay that runs one command and waits to
// be killed.
const hostEnv = "EXECUTOR_TEST_HOST"

func TestMain(m *testing.M) {
	Supervise()
	if dir := os.Getenv(hostEnv); dir != "" {
		host(dir)
	}
	goleak.VerifyTestMain(m)
}

func host(dir string) {
	e, err := New(Config{
		WorkspaceDir: filepath.Join(dir, "w"), LogDir: filepath.Join(dir, "l"), KillGrace: time.Minute,
		LookupEnv: os.LookupEnv, PassEnv: []string{"PATH", "FIFO", "MARK"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := e.Run(context.Background(), job(os.Getenv("SCRIPT")))
	fmt.Fprintln(os.Stderr, "the host's run ended:", r.Detail)
	os.Exit(1)
}

// deadline bounds every wait of these tests; none is expected to be reached.
const deadline = 30 * time.Second

// newExecutor returns an executor over fresh directories.
func newExecutor(t *testing.T, set ...func(*Config)) *Executor {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{
		WorkspaceDir: filepath.Join(dir, "workspaces"), LogDir: filepath.Join(dir, "logs"),
		KillGrace: 500 * time.Millisecond, WaitDelay: 5 * time.Second,
	}
	for _, s := range set {
		s(&cfg)
	}
	e, err := New(cfg)
	require.NoError(t, err)
	return e
}

// job returns a job whose command is a shell script, which gets the paths of
// brief, result and workspace as $1, $2 and $3.
func job(script string) Job {
	return Job{
		Task: task.Record{
			ID: "11111111-2222-5333-8444-555555555555", Repo: "acme/api", CloneURL: "https://github.com/acme/api.git",
			DefaultBranch: "main", Kind: task.Kind{
				Name: task.FixIssue, IssueNumber: 7, IssueTitle: "It is broken", IssueBody: "Please fix.",
			},
		},
		Attempt: 1, Timeout: deadline,
		Familiar: Familiar{
			ID: "belay", DisplayName: "Belay", Skills: []string{"go"}, Env: map[string]string{},
			Command: []string{"sh", "-c", script, "sh", "{brief}", "{result}", "{workspace}"},
		},
	}
}

// good is a valid result.
const good = `{"contract_version":"2","status":"success","branch":"fix/7","commits":[{"sha":"a1b2c3d","message":"Fix"}],
"files_changed":["a.go"],"summary":"Fixed it.","pr_body":"Body.","review":{"mode":"none","evidence_status":"not_applicable",
"reviewed_files":[],"supporting_files":[],"findings":[],"tests_run":[],"no_findings_reason":null,"limitations":[]},"exit_reason":null}`

// writes is a script that leaves a result and exits.
func writes(result string, code int) string {
	return "cat >\"$2\" <<'END'\n" + result + "\nEND\nexit " + strconv.Itoa(code)
}

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
