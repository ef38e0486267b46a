package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
)

// reportFake is the Events of a test. It refuses what the store would.
type reportFake struct {
	events []kv.StreamEvent
	err    error
	asked  string
}

func (f *reportFake) Append(_ context.Context, e kv.StreamEvent) (bool, error) {
	if f.err != nil || operator.Reserved(e.Stream) {
		return false, fmt.Errorf("append: %w", map[bool]error{true: f.err, false: kv.ErrReserved}[f.err != nil])
	}
	for _, was := range f.events {
		if was.Stream == e.Stream && was.ID == e.ID {
			return true, nil
		}
	}
	f.events = append(f.events, e)
	return false, nil
}

func (f *reportFake) Last(_ context.Context, stream string, n int) ([]kv.StreamEvent, error) {
	f.asked = fmt.Sprint(stream, " ", n)
	return f.events, f.err
}

func reportDoor(t testing.TB, change ...func(*Options)) (*door, *taskFake, *reportFake) {
	t.Helper()
	f := &reportFake{}
	d, tasks := apiDoor(t, append([]func(*Options){func(o *Options) { o.Events = f }}, change...)...)
	return d, tasks, f
}

const oneEvent = `{"streamId":"t-1","type":"progress","data":{"step":"tests"},"id":"e1"}`

// OB-52: 202 for a new event, 200 for one that was there.
func TestOB52PostEvent(t *testing.T) {
	t.Parallel()
	d, _, f := reportDoor(t)
	got := d.mutate("/api/events", oneEvent, nil)
	require.Equal(t, 202, got.status, got.text)
	require.Equal(t, object{"ok": true, "streamId": "t-1", "id": "e1"}, got.json(t))
	require.Equal(t, []kv.StreamEvent{{ID: "e1", Stream: "t-1", Type: "progress", Data: json.RawMessage(`{"step":"tests"}`), By: "local"}}, f.events)
	got = d.mutate("/api/events", oneEvent, nil)
	require.Equal(t, 200, got.status)
	require.Equal(t, object{"ok": true, "streamId": "t-1", "id": "e1", "duplicate": true}, got.json(t))
	require.Len(t, f.events, 1)
	require.Equal(t, 202, d.mutate("/api/events", `{"agentId":"run:7","type":"heartbeat","id":"e1"}`, nil).status)
	require.Equal(t, "run:7", f.events[1].Stream)
	require.Equal(t, "run:7", f.events[1].Agent)
	require.Equal(t, []kv.AuditEntry{
		{Kind: AuditEvent, Caller: "local", Detail: "progress e1 to t-1"}, {Kind: AuditEvent, Caller: "local", Detail: "heartbeat e1 to run:7"},
	}, d.audit.entries)
	for _, body := range []string{
		`{}`, `{"streamId":"a b","type":"x","id":"e"}`, `{"streamId":"a","type":"","id":"e"}`, `{"streamId":"a","type":"x y","id":"e"}`,
		`{"streamId":"a","type":"x"}`, `{"streamId":"a","type":"x","id":"é"}`, `{"streamId":"a","agentId":"\n","type":"x","id":"e"}`, `{`,
	} {
		require.Equal(t, 400, d.mutate("/api/events", body, nil).status, body)
	}
	require.Equal(t, 413, d.mutate("/api/events", strings.Replace(oneEvent, "tests", strings.Repeat("x", 64<<10), 1), nil).status)
	require.Equal(t, 415, d.mutate("/api/events", oneEvent, map[string]string{"Content-Type": "text/plain"}).status)
	f.err = kv.ErrUnknown
	require.Equal(t, 503, d.mutate("/api/events", oneEvent, nil).status)
	token, _, _ := reportDoor(t, tokenMode)
	require.Equal(t, 401, token.mutate("/api/events", oneEvent, nil).status)
}

// OT-24…28: the reserved names, in any letter case and in either field, are
// refused before anything else is looked at, and for whoever asks.
func TestOT25OT28ReservedStreams(t *testing.T) {
	t.Parallel()
	d, _, f := reportDoor(t)
	f.err = kv.ErrUnknown // would answer 503 if anybody asked it
	for _, name := range []string{"cockpit-task:x", "COCKPIT-TASK:0b8f6a52-6f0e-4d8e-9a3e-0c6a4d1f2e3b", " cockpit-task:x", "operator.acme.x", "Operator.x", "operator"} {
		for _, body := range []string{
			`{"streamId":"` + name + `"}`, `{"agentId":"` + name + `","type":"x","id":"e"}`, `{"streamId":"t-1","agentId":"` + name + `","type":"x","id":"e"}`,
		} {
			got := d.mutate("/api/events", body, nil)
			require.Equal(t, 400, got.status, body)
			require.Equal(t, object{"error": "stream is reserved", "reason": "reserved_stream"}, got.json(t))
		}
	}
	require.Empty(t, d.audit.entries, "nothing was resolved or appended")
	// The store refuses as well, whatever a caller's stream is computed from.
	f.err = kv.ErrReserved
	got := d.mutate("/api/events", oneEvent, nil)
	require.Equal(t, 400, got.status)
	require.Equal(t, "reserved_stream", got.json(t)["reason"])
	require.Contains(t, d.audit.entries[0].Detail, "refused")
}

// DT-99: who sees only some tasks reports to no others' streams; the reserved
// names come first for them too.
func TestDT99EventsWithinTheScope(t *testing.T) {
	t.Parallel()
	d, _, f := reportDoor(t)
	mine, other := int64(7), int64(8)
	as := func(sc Scope, body string) int {
		r, err := http.NewRequestWithContext(context.WithValue(t.Context(), callerKey{}, Caller{Name: "tenant", Scope: sc}), http.MethodPost, "/events", strings.NewReader(body))
		require.NoError(t, err)
		return serve(d.handle(d.postEvent), r).Code
	}
	for name, sc := range map[string]Scope{"other": {Installation: &other}, "other repo": {&mine, []string{"acme/web"}}, "none": {Repos: []string{}}} {
		require.Equal(t, 404, as(sc, oneEvent), name)
		require.Equal(t, 404, as(sc, strings.Replace(oneEvent, "t-1", "t-9", 1)), name)
		require.Equal(t, 400, as(sc, strings.Replace(oneEvent, "t-1", "cockpit-task:x", 1)), name)
	}
	require.Empty(t, f.events)
	require.Equal(t, 202, as(Scope{&mine, []string{"acme/api"}}, oneEvent))
	last := d.audit.entries[len(d.audit.entries)-1]
	require.Equal(t, kv.AuditEntry{Kind: AuditEvent, Caller: "tenant", InstallationID: 7, Repo: "acme/api", TaskID: "t-1", Detail: "progress e1 to t-1"}, last)
}

// What is reported of a run is shown with its task.
func TestTaskShowsItsEvents(t *testing.T) {
	t.Parallel()
	d, _, f := reportDoor(t)
	f.events = []kv.StreamEvent{{V: 1, ID: "e1", Stream: "t-1", Type: "progress", Data: json.RawMessage(`{"step":1}`), By: "local", At: testTime}}
	task := d.get(d.base + "/api/github/tasks/t-1").json(t)["task"].(object)
	require.Equal(t, []any{object{"id": "e1", "type": "progress", "data": object{"step": 1.}, "at": testTime.String()}}, task["events"])
	require.Equal(t, "t-1 20", f.asked, "a bounded number")
	f.err = kv.ErrUnknown
	require.Equal(t, 503, d.get(d.base+"/api/github/tasks/t-1").status)
	plain, _ := apiDoor(t)
	require.Equal(t, []any{}, plain.get(plain.base + "/api/github/tasks/t-1").json(t)["task"].(object)["events"])
}
