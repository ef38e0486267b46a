package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// otlpCollector takes spans as a collector does.
type otlpCollector struct {
	srv   *httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
	down  bool
}

func newCollector(t *testing.T) *otlpCollector {
	c := &otlpCollector{}
	c.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		var in collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err != nil || c.down || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &in) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.srv.Close)
	return c
}

// of are the spans of a task's trace by name, those of one name in order.
func (c *otlpCollector) of(id string) map[string][]*otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string][]*otlp.Span{}
	for _, s := range c.spans {
		if tid := kv.TraceID(task.ID(id)); string(s.TraceId) == string(tid[:]) {
			out[s.Name] = append(out[s.Name], s)
		}
	}
	return out
}

func attr(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func tracing(c *otlpCollector) func(*rig) {
	return func(r *rig) { r.cfg.Tracing.Endpoint = c.srv.URL }
}

// One trace holds the request, the message, each attempt over a restart, and
// the reply; its id is the task's.
func TestOneTraceFromTheRequestToTheReply(t *testing.T) {
	t.Parallel()
	c, rc := newCollector(t), newReceiver(t)
	r := newRig(t, tracing(c), calling(rc), func(r *rig) {
		r.command(`printf '%s' "$TRACEPARENT" >"$3/context"; [ -e "$3/go" ] || sleep 600; ` + succeed)
		r.cfg.Worker.DrainTimeout = time.Second
	}).start()
	const remote = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	delivery, body := uuid.NewString(), issue(1)
	id := r.post("issues", delivery, body, "traceparent", remote).text("task")
	r.await(id, "running")
	m, err := r.app.deliv.Get(t.Context(), 1)
	require.NoError(t, err)
	require.EqualValues(t, id, m.Task.ID)
	require.Equal(t, kv.Traceparent(kv.WithTrace(t.Context(), task.ID(id))), messageHeader(t, r, kv.HeaderTraceparent))
	natstest.Eventually(t, "the command to begin", func() bool { _, err := os.Stat(r.dir + "/context"); return err == nil })
	r.stop()
	r.release()
	r.start()
	require.Equal(t, true, r.post("issues", delivery, body).field("duplicate"))
	rc.awaits(id + "-0 completed")
	natstest.Eventually(t, "the reply to be delivered", func() bool { return len(r.outbox("?status=delivered")) == 1 })
	r.stop()

	got := c.of(id)
	require.Len(t, got["POST /webhook"], 2, "the duplicate's too")
	root := got["POST /webhook"][0]
	span := kv.RootSpan(task.ID(id))
	require.Equal(t, span[:], root.SpanId)
	require.Empty(t, root.ParentSpanId)
	require.Len(t, root.Links, 1, "what the request names is linked, not believed")
	require.Equal(t, delivery, attr(root, "github.delivery"))
	require.Equal(t, root.SpanId, got["POST /webhook"][1].ParentSpanId)
	require.Len(t, got["run"], 2)
	require.Equal(t, []string{"released", "completed"}, []string{attr(got["run"][0], "belay.outcome"), attr(got["run"][1], "belay.outcome")})
	require.Equal(t, got["run"][1].SpanId, got["command"][1].ParentSpanId)
	for _, name := range []string{"publish WEBHOOKS", "admit", "run", "send"} {
		require.NotEmpty(t, got[name], name)
		for i, s := range got[name] {
			if name != "publish WEBHOOKS" || i == 0 {
				require.Equal(t, root.SpanId, s.ParentSpanId, name)
			}
		}
	}
	require.Equal(t, "delivered", attr(got["send"][0], "belay.verdict"))
	told, err := os.ReadFile(r.dir + "/context")
	require.NoError(t, err)
	last := got["command"][1]
	require.Equal(t, "00-"+trace.TraceID(last.TraceId).String()+"-"+trace.SpanID(last.SpanId).String()+"-01", string(told))
	require.Len(t, rc.traces, 1)
	require.Equal(t, string(told[:36]), rc.traces[0][:36], "the recipient can go on with the trace")
}

// messageHeader is a header of the first message of WEBHOOKS.
func messageHeader(t *testing.T, r *rig, name string) string {
	t.Helper()
	s, err := r.app.js.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	var m *jetstream.RawStreamMsg
	m, err = s.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	return m.Header.Get(name)
}

// A collector that is away costs spans and a line in the log, no task.
func TestTracesNeverHoldUpATask(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.down = true
	r := newRig(t, tracing(c)).start()
	r.await(r.accept(1), "done")
	r.stop()
	require.Contains(t, r.log.String(), "collector does not take the spans")
	require.Equal(t, 1, strings.Count(r.log.String(), `"class":"tracing"`))
}

func TestTracingIsOffByDefault(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.command(`[ -z "$TRACEPARENT" ] || exit 9; ` + succeed) }).start()
	r.await(r.accept(1), "done")
	require.Empty(t, messageHeader(t, r, kv.HeaderTraceparent))
}

// Every process takes the same share of tasks, by their ids alone.
func TestSamplerTakesAShareOfTasks(t *testing.T) {
	t.Parallel()
	for percent, want := range map[uint64]int{0: 0, 10: 1000, 50: 5000, 100: 10000} {
		s, n := sampler{percent}, 0
		for range 10000 {
			if s.takes(kv.TraceID(task.ID(uuid.NewSHA1(uuid.Nil, []byte(uuid.NewString())).String()))) {
				n++
			}
		}
		require.InDelta(t, want, n, 300, "%d%%", percent)
	}
}
