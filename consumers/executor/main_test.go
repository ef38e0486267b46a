package executor

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
	// These tests wait for processes; they hardly compute.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// hostSilence is when the host's supervisors give it up.
const hostSilence = time.Second

func host(dir string) {
	e, err := New(Config{
		WorkspaceDir: filepath.Join(dir, "w"), LogDir: filepath.Join(dir, "l"), KillGrace: time.Minute,
		LookupEnv: os.LookupEnv, PassEnv: []string{"PATH", "FIFO", "MARK"}, Silence: hostSilence,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := e.Run(context.Background(), job(os.Getenv("SCRIPT")))
	fmt.Fprintf(os.Stderr, "the host's run ended: %s; cleanup: %v\n", r.Detail, r.Cleanup)
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

// soon returns a timeout that a command is surely started within, however
// busy the machine is: a second, or three times what a short run takes now.
func soon(t *testing.T, e *Executor) time.Duration {
	t.Helper()
	j := job("exit 0")
	j.Task.ID = "warm-up"
	began := time.Now()
	e.Run(t.Context(), j)
	return max(time.Second, 3*time.Since(began))
}
