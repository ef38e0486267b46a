package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/redact"
)

// host is a folder with a configuration, in which belay's processes run.
type host struct {
	t                   *testing.T
	dir                 string
	public, admin, nats string // addresses
	environ             []string
	client              *apiClient
}

// hostSecret is among those of the configuration.
const hostSecret = "a-long-enough-test-secret"

// newHost writes a configuration; worker is what its [worker] says, and script
// what the familiar runs ("" for the built-in runner): a shell script with $1
// the brief, $2 the place of the result and $3 the host's folder.
func newHost(t *testing.T, worker, script string) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), public: freePort(t), admin: freePort(t), nats: freePort(t)}
	h.client = &apiClient{http: newHTTPClient(), base: "http://" + h.public}
	command := "[]"
	if script != "" {
		b, err := json.Marshal([]string{"/bin/sh", "-c", script, "task", "{brief}", "{result}", h.dir})
		require.NoError(t, err)
		command = string(b)
	}
	h.file("nats.conf", fmt.Sprintf("listen: %q\nauthorization { user: belay, password: $BELAY_NATS_PASSWORD }\njetstream { sync_interval: always }\n", h.nats))
	h.file("belay.toml", fmt.Sprintf(`[server]
listen = %q
admin_listen = %q
[nats]
config = "nats.conf"
[github]
webhook_secrets = [%q]
[worker]
%s
[review]
pull_request = true
[[familiars]]
id = "cody"
bot_username = "coven-cody[bot]"
trigger_labels = ["bug"]
command = %s
`, h.public, h.admin, hostSecret, worker, command))
	return h
}

func (h *host) file(name, text string) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600))
}

// append adds to a file.
func (h *host) append(name, text string) {
	h.t.Helper()
	before, err := os.ReadFile(filepath.Join(h.dir, name))
	require.NoError(h.t, err)
	h.file(name, string(before)+text)
}

// external makes the configuration name a NATS server of another's.
func (h *host) external(url string) {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "belay.toml"))
	require.NoError(h.t, err)
	h.file("belay.toml", strings.Replace(string(text), `config = "nats.conf"`, fmt.Sprintf("url = %q", url), 1))
}

// release lets gated tasks finish.
func (h *host) release() { h.file("go", "") }

// What a familiar runs: success, and one that first waits for release.
const (
	succeed = `printf '%s' '{"contract_version":"2","status":"success","commits":[],"files_changed":[],"summary":"all done","pr_body":"",` +
		`"review":{"mode":"none","evidence_status":"not_applicable","reviewed_files":[],"supporting_files":[],"findings":[],"tests_run":[],"limitations":[]}}' >"$2"`
	gated = `until [ -e "$3/go" ]; do sleep 0.02; done; ` + succeed
)

// used are the ports that tests of this process have.
var used sync.Map

// freePort finds a port below those that the kernel gives to clients, so that
// it is still free at a restart.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if _, taken := used.LoadOrStore(addr, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			require.NoError(t, l.Close())
			return addr
		}
	}
}

// belay makes a command of belay's own that runs in the host's folder.
func (h *host) belay(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = h.dir
	cmd.Env = append([]string{asBelay + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + h.dir}, h.environ...)
	return cmd
}

// try runs a command to its end.
func (h *host) try(args ...string) result {
	h.t.Helper()
	var out, errs bytes.Buffer
	cmd := h.belay(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(h.t, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// ok runs a command that must succeed and returns what it prints.
func (h *host) ok(args ...string) string {
	h.t.Helper()
	got := h.try(args...)
	require.Equal(h.t, exitOK, got.code, "belay %q: %s%s", args, got.out, got.err)
	return got.out
}

// process is a running `belay serve`.
type process struct {
	h    *host
	cmd  *exec.Cmd
	out  *syncBuffer
	done chan struct{}
}

// launch starts serve and does not wait for it.
func (h *host) launch(args ...string) *process {
	h.t.Helper()
	return h.run(h.belay(append([]string{"serve"}, args...)...))
}

// run starts a command that is or becomes a serve.
func (h *host) run(serve *exec.Cmd) *process {
	h.t.Helper()
	p := &process{h: h, cmd: serve, out: &syncBuffer{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	require.NoError(h.t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	h.t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.done })
	return p
}

// serve starts serve and waits until it is ready.
func (h *host) serve(args ...string) *process {
	h.t.Helper()
	p := h.launch(args...)
	natstest.Eventually(h.t, "serve to be ready", func() bool {
		select {
		case <-p.done:
			require.Fail(h.t, "serve ended", "%s", p.out)
		default:
		}
		return strings.Contains(p.out.String(), "belay is ready")
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.h.t.Helper()
	require.NoError(p.h.t, p.cmd.Process.Signal(s))
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.h.t.Helper()
	natstest.Eventually(p.h.t, "serve to end", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	return p.cmd.ProcessState.ExitCode()
}

// stop is SIGTERM, and a clean end.
func (p *process) stop() {
	p.h.t.Helper()
	p.signal(syscall.SIGTERM)
	require.Equal(p.h.t, exitOK, p.exit(), "%s", p.out)
}

// kill is SIGKILL.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// get asks the public listener; 0 when there is none.
func (h *host) get(path string) int {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.client.base+path, nil)
	require.NoError(h.t, err)
	ans, _ := h.client.do(req)
	return ans.status
}

// post sends an issue as GitHub does and returns its task, "" if it was not
// accepted.
func (h *host) post(number int) string {
	h.t.Helper()
	got, status := h.postAs(number, "bug", hostSecret)
	if status != http.StatusOK {
		return ""
	}
	return got.Task
}

// postAs is post with a label and a secret.
func (h *host) postAs(number int, label, secret string) (hookAnswer, int) {
	h.t.Helper()
	cfg := config.Default("")
	cfg.Familiars[0].TriggerLabels = []string{label}
	tree, err := loadPayload("issues.labeled", nil, newVocabulary(cfg, time.Now()))
	require.NoError(h.t, err)
	require.NoError(h.t, setValue(tree, fmt.Sprintf("issue.number=%d", number)))
	body, err := encode(tree)
	require.NoError(h.t, err)
	ans, err := h.client.deliver(h.t.Context(), &hook{event: "issues.labeled", id: uuid.NewString(), body: body, secret: redact.Secret(secret)})
	var got hookAnswer
	if err != nil || json.Unmarshal(ans.body, &got) != nil {
		return got, 0
	}
	return got, ans.status
}

// accept is post of what must be accepted.
func (h *host) accept(number int) string {
	h.t.Helper()
	id := h.post(number)
	require.NotEmpty(h.t, id)
	return id
}

// send is `belay send`; it returns the task.
func (h *host) send(args ...string) string {
	h.t.Helper()
	var line struct{ Answer hookAnswer }
	out := h.ok(append([]string{"send", "issues.labeled", "-o", "json"}, args...)...)
	require.NoError(h.t, json.Unmarshal([]byte(out), &line), out)
	require.NotEmpty(h.t, line.Answer.Task, out)
	return line.Answer.Task
}

// shown is what tests read of a task.
type shown struct {
	ID, Status, Summary string
	Attempts            []struct{ Outcome string }
}

func (h *host) show(id string) shown {
	h.t.Helper()
	var one struct{ Task shown }
	ans, err := h.client.get(h.t.Context(), "/api/github/tasks/"+id, nil)
	require.NoError(h.t, err)
	require.NoError(h.t, json.Unmarshal(ans.body, &one))
	return one.Task
}

func (h *host) await(id, status string) shown {
	h.t.Helper()
	var got shown
	defer func() {
		if h.t.Failed() {
			h.t.Logf("task %s is %+v", id, got)
		}
	}()
	natstest.Eventually(h.t, "task "+id+" to be "+status, func() bool { got = h.show(id); return got.Status == status })
	return got
}

// syncBuffer collects what a process prints.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// String returns what was printed so far.
func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
