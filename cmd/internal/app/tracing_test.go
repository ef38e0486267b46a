package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// spans keeps what is exported, also after the exporter's end.
type spans struct {
	mu  sync.Mutex
	all tracetest.SpanStubs
}

func (x *spans) ExportSpans(_ context.Context, list []sdk.ReadOnlySpan) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, tracetest.SpanStubsFromReadOnlySpans(list)...)
	return nil
}

func (x *spans) Shutdown(context.Context) error { return nil }

// of are the spans of a task's trace by name, those of one name in order.
func (x *spans) of(id string) map[string]tracetest.SpanStubs {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[string]tracetest.SpanStubs{}
	for _, s := range x.all {
		if s.SpanContext.TraceID() == kv.TraceID(task.ID(id)) {
			out[s.Name] = append(out[s.Name], s)
		}
	}
	return out
}

func attr(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.AsString()
		}
	}
	return ""
}

// One trace holds the request, the message, each attempt over a restart, and
// the reply; its id is the task's.
func TestOneTraceFromTheRequestToTheReply(t *testing.T) {
	t.Parallel()
	c, rc := &spans{}, newReceiver(t)
	r := newRig(t, calling(rc), func(r *rig) {
		r.opts.SpanExporter = c
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
	rootID := kv.RootSpan(task.ID(id))
	require.Equal(t, rootID, root.SpanContext.SpanID())
	require.False(t, root.Parent.IsValid())
	require.Len(t, root.Links, 1, "what the request names is linked, not believed")
	require.Equal(t, delivery, attr(root, "github.delivery"))
	require.Equal(t, rootID, got["POST /webhook"][1].Parent.SpanID())
	require.Len(t, got["run"], 2)
	require.Equal(t, []string{"released", "completed"}, []string{attr(got["run"][0], "belay.outcome"), attr(got["run"][1], "belay.outcome")})
	require.Equal(t, got["run"][1].SpanContext.SpanID(), got["command"][1].Parent.SpanID())
	for _, name := range []string{"publish WEBHOOKS", "admit", "run", "send"} {
		require.NotEmpty(t, got[name], name)
		for i, s := range got[name] {
			if name != "publish WEBHOOKS" || i == 0 {
				require.Equal(t, rootID, s.Parent.SpanID(), name)
			}
		}
	}
	require.Equal(t, "delivered", attr(got["send"][0], "belay.verdict"))
	told, err := os.ReadFile(r.dir + "/context")
	require.NoError(t, err)
	last := got["command"][1].SpanContext
	require.Equal(t, "00-"+last.TraceID().String()+"-"+last.SpanID().String()+"-01", string(told))
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

// Spans go out as OTLP. A collector that is away costs spans and a line in the
// log, no task.
func TestTracesNeverHoldUpATask(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	got := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if got <- req.URL.Path + " " + req.Header.Get("Content-Type"); down.Load() {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(srv.Close)
	r := newRig(t, func(r *rig) { r.cfg.Tracing.Endpoint = srv.URL + "/base/" }).start()
	r.await(r.accept(1), "done")
	r.stop()
	require.Equal(t, "/base/v1/traces application/x-protobuf", <-got)
	require.NotContains(t, r.log.String(), "collector does not take")

	down.Store(true)
	r.start()
	r.await(r.accept(2), "done")
	r.stop()
	require.Contains(t, r.log.String(), "collector does not take the spans")
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
