package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// Every set of rules that a request can violate at once: the first in the
// order of DESIGN §5 answers, and nothing is stored.
func TestDT43DT44DT60TheFirstViolatedRuleAnswers(t *testing.T) {
	t.Parallel()
	down := false
	d := newDoor(t, func(o *Options) { o.MaxBody, o.MaxInFlight = 4096, 8192 })
	d.log.before = func(context.Context, task.Delivery) error {
		if down {
			return kv.ErrUnknown
		}
		return nil
	}
	rules := []struct {
		name    string
		status  int
		error   string
		violate func(h *hook)
	}{
		{"too large", 413, "payload too large", func(h *hook) { h.body = append(h.body, strings.Repeat(" ", 5000)...) }},
		{"busy", 503, "too many bodies in flight", func(*hook) {
			require.True(t, d.budget.reserve(8192))
		}},
		{"missing signature", 401, "missing signature", func(h *hook) { h.header["X-Hub-Signature-256"] = "" }},
		{"missing event", 400, "missing event type", func(h *hook) { h.header["X-GitHub-Event"] = "" }},
		{"invalid delivery", 400, "invalid delivery id", func(h *hook) { h.header["X-GitHub-Delivery"] = "a.b>*" }},
		{"parse", 400, "parse error", func(h *hook) { h.body[0] = '[' }},
		{"storage", 503, "storage unavailable", func(*hook) { down = true }},
	}
	for set := 1; set < 1<<len(rules); set++ {
		h := hook{event: "issues", guid: fmt.Sprintf("g%d", set), body: encode(t, labeled(set)), header: map[string]string{}}
		first, names := -1, []string{}
		down = false
		for i, r := range rules {
			if set&(1<<i) == 0 {
				continue
			}
			if first < 0 {
				first = i
			}
			names = append(names, r.name)
			r.violate(&h)
		}
		got := d.post(h)
		d.budget.used.Store(0)
		require.Equal(t, rules[first].status, got.status, "%v: %s", names, got.text)
		require.Equal(t, rules[first].error, got.json(t)["error"], "%v", names)
		require.Empty(t, d.log.all(), "%v", names)
	}
	down = false
	require.Equal(t, 200, d.post(hook{event: "issues", guid: "good", body: encode(t, labeled(1))}).status)
	require.Len(t, d.log.all(), 1)
}

func TestG02DT44BadDeliveryIDsStoreNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for name, c := range map[string]struct{ guid, error string }{
		"absent":  {"", "missing delivery id"},
		"spaces":  {"   ", "missing delivery id"},
		"long":    {strings.Repeat("a", 300), "invalid delivery id"},
		"129":     {strings.Repeat("a", 129), "invalid delivery id"},
		"subject": {"a.b>*", "invalid delivery id"},
		"dash":    {"-a", "invalid delivery id"},
		"umlaut":  {"ä", "invalid delivery id"},
	} {
		got := d.post(hook{event: "issues", body: encode(t, labeled(1)), header: map[string]string{"X-GitHub-Delivery": c.guid}})
		require.Equal(t, 400, got.status, name)
		require.Equal(t, object{"error": c.error}, got.json(t), name)
	}
	require.Empty(t, d.log.all())
	// A newline cannot travel in a header, so it is put into the handler's hands.
	r := hook{event: "issues", body: encode(t, labeled(1))}.request(t, "")
	r.Header["X-Github-Delivery"] = []string{"a\nb"}
	require.Equal(t, 400, serve(d.Public(), r).Code)
	require.Empty(t, d.log.all())
	require.Equal(t, "2", d.metric(`belay_webhook_rejections_total{reason="missing_delivery"}`))
	require.Equal(t, "6", d.metric(`belay_webhook_rejections_total{reason="invalid_delivery"}`))
}

func TestG03G43DT46DuplicateCarriesTheFirstDisposition(t *testing.T) {
	t.Parallel()
	var cfg atomic.Pointer[github.Config]
	cfg.Store(testConfig())
	// No port but the log is there: nothing else can be asked (G43).
	d := newDoor(t, func(o *Options) { o.Config = cfg.Load })
	h := hook{event: "issues", guid: "one", body: encode(t, labeled(1))}
	first := d.post(h)
	require.Equal(t, 200, first.status)
	id := first.json(t)["task"]
	require.Equal(t, object{"ok": true, "task": string(kv.TaskID(task.DefaultSource, "one"))}, first.json(t))
	// The first answer's disposition stands, whatever routing says now.
	off := testConfig()
	off.Lanes.Label = false
	cfg.Store(off)
	again := d.post(h)
	require.Equal(t, 200, again.status)
	require.Equal(t, object{"ok": true, "task": id, "duplicate": true}, again.json(t))
	require.Len(t, d.log.all(), 1)
	require.Equal(t, "1", d.metric("belay_webhook_duplicates_total"))
	require.Equal(t, "1", d.metric(`belay_webhook_deliveries_total{disposition="task",event="issues"}`))
}

func TestDT47DT88IgnoredIsRecorded(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	h := hook{event: "star", guid: "one", body: encode(t, object{"action": "created", "repository": repository()})}
	require.Equal(t, object{"ok": true, "ignored": "unsupported_event"}, d.post(h).json(t))
	require.Equal(t, object{"ok": true, "ignored": "unsupported_event", "duplicate": true}, d.post(h).json(t))
	stored := d.log.all()
	require.Len(t, stored, 1)
	require.Nil(t, stored[0].Task)
	require.Equal(t, task.Ignored(task.UnsupportedEvent), stored[0].Routing)
}

func TestG37PingIsRecordedAndAnsweredPong(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	h := hook{event: "ping", guid: "ping-1", body: []byte(`{"zen":"Keep it logically awesome.","hook_id":1}`)}
	require.Equal(t, object{"ok": true, "pong": true}, d.post(h).json(t))
	require.Equal(t, object{"ok": true, "pong": true, "duplicate": true}, d.post(h).json(t))
	require.Len(t, d.log.all(), 1)
	require.Equal(t, task.Ignored(task.Ping), d.log.all()[0].Routing)
}

func TestDT59ReusedIDWithAnotherBodyIsAConflict(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	require.Equal(t, 200, d.post(hook{event: "issues", guid: "one", body: encode(t, labeled(1))}).status)
	got := d.post(hook{event: "issues", guid: "one", body: encode(t, labeled(2))})
	require.Equal(t, 409, got.status)
	require.Equal(t, object{"error": "delivery id reused with another body"}, got.json(t))
	require.Len(t, d.log.all(), 1)
	require.Equal(t, "1", d.metric("belay_webhook_conflicts_total"))
	require.Len(t, d.audit.entries, 1)
	require.Equal(t, AuditConflict, d.audit.entries[0].Kind)
	require.Equal(t, task.DeliveryID("one"), d.audit.entries[0].DeliveryID)
	require.Contains(t, d.logs.String(), `"github_delivery_id":"one"`)
}

// DT-51, DT-53: no store, no 200, and a log line for the operator.
func TestDT51DT53StoreErrorsAre503(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		reason string
	}{
		"full": {kv.ErrFull, "store_full"}, "unknown": {kv.ErrUnknown, "store_unavailable"},
		"not found": {kv.ErrNotFound, "store_unavailable"}, "too large": {kv.ErrTooLarge, "store_unavailable"},
		"other": {context.DeadlineExceeded, "store_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			d.log.before = func(context.Context, task.Delivery) error { return fmt.Errorf("publish: %w", c.err) }
			got := d.post(hook{event: "issues", guid: "one", body: encode(t, labeled(1))})
			require.Equal(t, 503, got.status)
			require.Equal(t, object{"error": "storage unavailable"}, got.json(t))
			require.Equal(t, "30", got.header.Get("Retry-After"))
			require.Equal(t, "1", d.metric(`belay_webhook_rejections_total{reason="`+c.reason+`"}`))
			require.Contains(t, d.logs.String(), `"level":"ERROR"`)
			require.Contains(t, d.logs.String(), "webhook not stored")
		})
	}
}

// A log that breaks its promise must not be passed off as an acceptance.
func TestDT01NoDispositionIsNoAcceptance(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *Options) { o.Log = emptyLog{} })
	require.Equal(t, 503, d.post(hook{event: "issues", guid: "one", body: encode(t, labeled(1))}).status)
}

type emptyLog struct{}

func (emptyLog) Accept(context.Context, task.Delivery) (kv.Accepted, error) {
	return kv.Accepted{}, nil
}

// DT-12, DT-25: what the log is handed is coordinates and the hash.
func TestDT12DT25DeliveryHandedToTheLog(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	body := encode(t, labeled(4))
	require.Equal(t, 200, d.post(hook{event: "issues", guid: "one", body: body, header: map[string]string{"X-GitHub-Hook-ID": "17"}}).status)
	got := d.log.all()[0]
	sum := sha256.Sum256(body)
	require.Equal(t, hex.EncodeToString(sum[:]), got.PayloadHash)
	require.Equal(t, task.DeliveryID("one"), got.ID)
	require.Equal(t, "17", got.HookID)
	require.Equal(t, "issues", got.Event)
	require.Equal(t, "labeled", got.Action)
	require.EqualValues(t, 7, got.InstallationID)
	require.Equal(t, "acme/api", got.Repo)
	require.Equal(t, task.DefaultSource, got.Source)
	require.Equal(t, "An issue", got.Task.Kind.IssueTitle)
	require.False(t, got.ReceivedAt.IsZero())
}

// DT-52: there is no queue to be full: many at once all are accepted.
func TestDT52ManyAtOnceAreAllAccepted(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	var wg sync.WaitGroup
	codes := make([]int, 100)
	for i := range codes {
		wg.Go(func() {
			codes[i] = d.post(hook{event: "issues", guid: fmt.Sprintf("g%d", i), body: encode(t, labeled(i))}).status
		})
	}
	wg.Wait()
	for _, c := range codes {
		require.Equal(t, 200, c)
	}
	require.Len(t, d.log.all(), len(codes))
	require.Zero(t, d.budget.used.Load())
}

func TestWebhookMethodsAndSources(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	got := d.get(d.base + "/webhook")
	require.Equal(t, 405, got.status)
	require.Equal(t, http.MethodPost, got.header.Get("Allow"))
	require.Equal(t, object{"error": "method not allowed"}, got.json(t))
	h := hook{event: "issues", guid: "one", body: encode(t, labeled(1))}.request(t, d.base)
	h.URL.Path = "/webhook/other"
	got = d.do(h)
	require.Equal(t, 404, got.status)
	require.Equal(t, object{"error": "unknown source"}, got.json(t))
	require.Equal(t, object{"error": "not found"}, d.get(d.base+"/nowhere").json(t))
	require.Empty(t, d.log.all())
}
