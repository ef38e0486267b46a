package app

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/redact"
)

// TestMain lets the commands of tasks run, and finds what an App left behind.
func TestMain(m *testing.M) {
	executor.Supervise()
	childMain()
	goleak.VerifyTestMain(m)
}

// secret signs the webhooks of all tests.
const secret = "a-long-enough-test-secret"

// rig is one data folder, on which processes come and go.
type rig struct {
	t    *testing.T
	dir  string
	cfg  *config.Config
	opts Options
	log  *lockedBuffer
	app  *App
	web  *http.Client
	// ahead is how far the process's clock is.
	ahead time.Duration
}

// newRig prepares a process that is quick to start: no port of NATS, messages
// not synced one by one. change sets what a test is about.
func newRig(t *testing.T, change ...func(*rig)) *rig {
	t.Helper()
	dir := t.TempDir()
	cfg := config.Default(filepath.Join(dir, "data"))
	cfg.Server.Listen, cfg.Server.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.GitHub.WebhookSecrets = []redact.Secret{secret}
	cfg.Worker.DrainTimeout = 10 * time.Second
	cfg.Familiars[0].TriggerLabels = []string{"bug"}
	r := &rig{t: t, dir: dir, cfg: cfg, log: &lockedBuffer{}, web: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
	r.natsConf("jetstream { sync_interval: 2m }\n")
	r.opts = Options{
		Config: cfg, Logger: NewLogger(r.log, slog.LevelDebug, time.Now), Version: "test", NATSListen: natsserver.ListenNone,
		BeatEvery: time.Second, Backoff: func(int) time.Duration { return 0 },
	}
	for _, f := range change {
		f(r)
	}
	t.Cleanup(r.web.CloseIdleConnections)
	return r
}

// natsConf makes the embedded server read a nats.conf of the test.
func (r *rig) natsConf(text string) {
	r.cfg.NATS.Config = r.file("nats.conf", text)
}

// file writes a file beside the data folder.
func (r *rig) file(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// command makes the familiar run a shell script, with $1 the brief, $2 where
// the result goes and $3 the test's folder.
func (r *rig) command(script string) {
	r.cfg.Familiars[0].Command = []string{"/bin/sh", "-c", script, "task", "{brief}", "{result}", r.dir}
}

// succeed is a script that writes a result; gated one that first waits for
// the file `go` in the test's folder.
const (
	succeed = `printf '%s' '{"contract_version":"2","status":"success","commits":[],"files_changed":[],"summary":"all done","pr_body":"",` +
		`"review":{"mode":"none","evidence_status":"not_applicable","reviewed_files":[],"supporting_files":[],"findings":[],"tests_run":[],"limitations":[]}}' >"$2"`
	gated = `echo waiting; until [ -e "$3/go" ]; do sleep 0.02; done; ` + succeed
)

// release lets gated tasks finish.
func (r *rig) release() { r.file("go", "") }

// start starts a process; the test's end stops it.
func (r *rig) start() *rig {
	r.t.Helper()
	a, err := New(r.opts)
	require.NoError(r.t, err)
	require.NoError(r.t, a.Start(r.t.Context()), "%s", r.log)
	r.app = a
	r.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nobody waits for what runs
		_ = a.Stop(ctx)
	})
	return r
}

// stop stops the process as SIGTERM does.
func (r *rig) stop() {
	r.t.Helper()
	require.NoError(r.t, r.app.Stop(r.t.Context()))
	r.web.CloseIdleConnections()
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// answer is what a listener said.
type answer struct {
	status int
	header http.Header
	body   string
}

// field is a field of the JSON object of an answer, nil if there is none.
func (a answer) field(name string) any {
	var m map[string]any
	_ = json.Unmarshal([]byte(a.body), &m)
	return m[name]
}

func (a answer) text(name string) string {
	s, _ := a.field(name).(string)
	return s
}

// do makes a request; headers come as pairs, a Host among them.
func (r *rig) do(method, url, body string, headers ...string) answer {
	r.t.Helper()
	a, err := r.try(method, url, body, headers...)
	require.NoError(r.t, err)
	return a
}

func (r *rig) try(method, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := r.web.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(data)}, err
}

func (r *rig) get(path string, headers ...string) answer {
	r.t.Helper()
	return r.do(http.MethodGet, r.app.URL()+path, "", headers...)
}

func (r *rig) act(id, verb string) answer {
	r.t.Helper()
	return r.do(http.MethodPost, r.app.URL()+"/api/github/tasks/"+id+"/"+verb, "{}", "Content-Type", "application/json")
}

// post sends a signed webhook; headers override those of GitHub, "" removes.
func (r *rig) post(event, id, body string, headers ...string) answer {
	r.t.Helper()
	a, err := r.tryPost(event, id, body, headers...)
	require.NoError(r.t, err)
	return a
}

func (r *rig) tryPost(event, id, body string, headers ...string) (answer, error) {
	all := []string{"Content-Type", "application/json", "X-GitHub-Event", event, "X-Hub-Signature-256", signature(body)}
	if id != "" {
		all = append(all, "X-GitHub-Delivery", id)
	}
	return r.try(http.MethodPost, r.app.URL()+"/webhook", body, append(all, headers...)...)
}

// signature is GitHub's.
func signature(body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// accept posts an issue's webhook and returns its task.
func (r *rig) accept(number int) string {
	r.t.Helper()
	a := r.post("issues", uuid.NewString(), issue(number))
	require.Equal(r.t, http.StatusOK, a.status, a.body)
	require.NotEmpty(r.t, a.text("task"), a.body)
	return a.text("task")
}

// issue is the payload of an issue that got the familiar's label.
func issue(number int) string {
	return fmt.Sprintf(`{"action":"labeled","label":{"name":"bug"},"installation":{"id":7},`+
		`"repository":{"id":99,"name":"api","full_name":"acme/api","default_branch":"main","owner":{"login":"acme"}},`+
		`"sender":{"login":"octocat"},"issue":{"number":%d,"title":"Issue %[1]d","body":"b","user":{"login":"octocat"},`+
		`"labels":[{"name":"bug"}],"updated_at":%q}}`, number, time.Now().UTC().Format(time.RFC3339Nano))
}

// item is what tests read of a task.
type item struct {
	ID, Status, Reason, Summary, State string
	Attempts                           []struct{ Outcome, Detail, Tail, Worker string }
}

// list reads the whole list, in pages of limit.
func (r *rig) list(limit int) []item {
	r.t.Helper()
	var all []item
	for cursor := ""; ; {
		a := r.get(fmt.Sprintf("/api/github/tasks?limit=%d&cursor=%s", limit, cursor))
		require.Equal(r.t, http.StatusOK, a.status, a.body)
		var page struct {
			Tasks      []item
			NextCursor string
		}
		require.NoError(r.t, json.Unmarshal([]byte(a.body), &page))
		all = append(all, page.Tasks...)
		if cursor = page.NextCursor; cursor == "" {
			return all
		}
	}
}

// task reads one task.
func (r *rig) task(id string) item {
	r.t.Helper()
	a := r.get("/api/github/tasks/" + id)
	require.Equal(r.t, http.StatusOK, a.status, a.body)
	var one struct{ Task item }
	require.NoError(r.t, json.Unmarshal([]byte(a.body), &one))
	return one.Task
}

// await waits for a task to have a status.
func (r *rig) await(id, status string) item {
	r.t.Helper()
	var got item
	natstest.Eventually(r.t, "task "+id+" to be "+status, func() bool { got = r.task(id); return got.Status == status })
	return got
}

// awaitAll waits until the list has n tasks, all of a status.
func (r *rig) awaitAll(n int, status string) []item {
	r.t.Helper()
	var all []item
	natstest.Eventually(r.t, fmt.Sprintf("%d tasks to be %s", n, status), func() bool {
		all = r.list(1000)
		for _, i := range all {
			if i.Status != status {
				return false
			}
		}
		return len(all) == n
	})
	return all
}

// deliveries reads the newest deliveries.
func (r *rig) deliveries() []map[string]any {
	r.t.Helper()
	var page struct{ Deliveries []map[string]any }
	require.NoError(r.t, json.Unmarshal([]byte(r.get("/api/github/deliveries?limit=1000").body), &page))
	return page.Deliveries
}

// freePort is a port that was free just now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// lockedBuffer collects what several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written so far.
func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
