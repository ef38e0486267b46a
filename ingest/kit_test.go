package ingest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSecret = "a-long-enough-test-secret"

// memoryLog is a DeliveryLog in memory, with the rules of the real one that
// the handler sees.
type memoryLog struct {
	mu     sync.Mutex
	stored []task.Delivery
	// before runs ahead of every Accept and may fail it.
	before func(ctx context.Context, d task.Delivery) error
}

func (l *memoryLog) Accept(ctx context.Context, d task.Delivery) (kv.Accepted, error) {
	if l.before != nil {
		if err := l.before(ctx, d); err != nil {
			return kv.Accepted{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, first := range l.stored {
		if first.ID != d.ID {
			continue
		}
		if first.PayloadHash != d.PayloadHash {
			return kv.Accepted{Delivery: first}, kv.ErrReused
		}
		return kv.Accepted{Delivery: first, Seq: uint64(i + 1), Duplicate: true}, nil
	}
	if d.Task != nil {
		spec := *d.Task
		spec.ID = kv.TaskID(d.Source, task.MessageID(d.Source, d.ID))
		d.Task, d.Routing = &spec, task.ToTask(spec.ID)
	}
	l.stored = append(l.stored, d)
	return kv.Accepted{Delivery: d, Seq: uint64(len(l.stored))}, nil
}

func (l *memoryLog) all() []task.Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]task.Delivery(nil), l.stored...)
}

// syncBuffer is what a logger writes to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// audits remembers what it was told.
type audits struct {
	mu      sync.Mutex
	reads   []string
	denied  []string
	entries []kv.AuditEntry
}

func (a *audits) Read(caller string, _ int64, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads = append(a.reads, caller+" "+what)
}

func (a *audits) Denied(what, remote string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denied = append(a.denied, what+" "+remote)
}

func (a *audits) Mutation(_ context.Context, e kv.AuditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.entries = append(a.entries, e)
}

// door is a server under test, listening for real.
type door struct {
	*Server
	t      testing.TB
	log    *memoryLog
	logs   *syncBuffer
	audit  *audits
	client *http.Client
	base   string
	admin  string
}

func testConfig() *github.Config {
	return &github.Config{
		Source: task.DefaultSource, Lanes: github.AllLanes, ReviewFamiliar: "cody", ReviewPullRequest: true,
		Familiars: []github.Familiar{{ID: "cody", DisplayName: "Cody", BotUsername: "coven-cody[bot]", TriggerLabels: []string{"bug"}}},
	}
}

// testOptions are the options of a server that nobody listens for.
func testOptions(change ...func(*Options)) (Options, *memoryLog, *syncBuffer, *audits) {
	l, logs, audit, reg := &memoryLog{}, &syncBuffer{}, &audits{}, prometheus.NewRegistry()
	o := Options{
		Log: l, Auditor: audit, Registerer: reg, Gatherer: reg, Version: "test",
		Config:  testConfig,
		Secrets: func() []github.Secret { return []github.Secret{{ID: "current", Key: []byte(testSecret)}} },
		Logger:  slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&o)
	}
	return o, l, logs, audit
}

func newDoor(t testing.TB, change ...func(*Options)) *door {
	t.Helper()
	o, l, logs, audit := testOptions(change...)
	s, err := New(o)
	require.NoError(t, err)
	d := &door{Server: s, t: t, log: l, logs: logs, audit: audit}
	tr := &http.Transport{}
	d.client = &http.Client{Transport: tr, Timeout: 30 * time.Second}
	d.base, d.admin = d.listen(s.Public()), d.listen(s.Admin())
	t.Cleanup(tr.CloseIdleConnections)
	return d
}

// serve answers without a network, for what no client would send.
func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// listen serves a handler on a port of its own until the test ends.
func (d *door) listen(h http.Handler) string {
	d.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(d.t, err)
	srv := d.HTTPServer(h)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(d.Listener(l))
	}()
	d.t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

// answered is an answer, read to its end.
type answered struct {
	status int
	header http.Header
	text   string
}

// json is the answer as an object.
func (a answered) json(t testing.TB) map[string]any {
	t.Helper()
	out := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(a.text), &out), "answer %d %q", a.status, a.text)
	return out
}

func (d *door) do(req *http.Request) answered {
	d.t.Helper()
	res, err := d.client.Do(req)
	require.NoError(d.t, err)
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	require.NoError(d.t, err)
	return answered{res.StatusCode, res.Header, strings.TrimSpace(string(data))}
}

// hook is a webhook to be sent; a header set to "" is left out.
type hook struct {
	event, guid string
	body        []byte
	secret      string
	chunked     bool
	header      map[string]string
}

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func (h hook) request(t testing.TB, base string) *http.Request {
	t.Helper()
	var body io.Reader = bytes.NewReader(h.body)
	if h.chunked {
		body = struct{ io.Reader }{body}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/webhook", body)
	require.NoError(t, err)
	if h.secret == "" {
		h.secret = testSecret
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Event", h.event)
	req.Header.Set("X-GitHub-Delivery", h.guid)
	req.Header.Set("X-Hub-Signature-256", sign(h.secret, h.body))
	for k, v := range h.header {
		req.Header.Set(k, v)
		if v == "" {
			req.Header.Del(k)
		}
	}
	return req
}

func (d *door) post(h hook) answered {
	d.t.Helper()
	return d.do(h.request(d.t, d.base))
}

func (d *door) get(path string) answered {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, path, nil)
	require.NoError(d.t, err)
	return d.do(req)
}

// metric is the value of a series as /metrics shows it, "" if it has none.
func (d *door) metric(series string) string {
	d.t.Helper()
	for line := range strings.Lines(d.get(d.admin + "/metrics").text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return v
		}
	}
	return ""
}

// object is a payload that is written as JSON.
type object = map[string]any

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

func repository() object {
	return object{"id": 99, "full_name": "acme/api", "default_branch": "main", "clone_url": "https://example.test/acme/api.git"}
}

// labeled is an issue that gets a label of the familiar: a task.
func labeled(n int) object {
	return object{
		"action": "labeled", "label": object{"name": "bug"}, "installation": object{"id": 7}, "repository": repository(),
		"sender": object{"login": "octocat"},
		"issue":  object{"number": n, "title": "An issue", "body": "text", "user": object{"login": "octocat"}},
	}
}
