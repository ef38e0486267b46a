package ingest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// boxFake stands in for the outbox. Its records are resolved by the rules of
// the domain.
type boxFake struct {
	page    view.OutboxPage
	listErr error
	query   view.OutboxQuery

	records map[outbox.ID]outbox.Record
	err     error
	hangUp  func() // called as a record is looked for
	calls   []string
}

func (f *boxFake) Outbox(q view.OutboxQuery) (view.OutboxPage, error) {
	f.query = q
	return f.page, f.listErr
}

func (f *boxFake) Find(_ context.Context, id outbox.ID) (*outbox.Record, error) {
	if f.hangUp != nil {
		f.hangUp()
	}
	r, ok := f.records[id]
	if !ok {
		return nil, nil
	}
	return &r, nil
}

func (f *boxFake) Resolve(ctx context.Context, id outbox.ID, how outbox.Resolution, reason, by string) (outbox.Record, *outbox.Record, error) {
	f.calls = append(f.calls, fmt.Sprintf("%s as %s by %s: %s", id, how, by, reason))
	if ctx.Err() != nil {
		return outbox.Record{}, nil, ctx.Err()
	}
	if f.err != nil {
		return outbox.Record{}, nil, fmt.Errorf("resolve: %w", f.err)
	}
	r, err := f.records[id].Resolve(outbox.Settlement{How: how, Reason: reason, By: by, At: outbox.At(boxNow)}, "next")
	if err != nil {
		return r, nil, fmt.Errorf("resolve outbox record %s: %w", id, err)
	}
	f.records[id] = r
	if how != outbox.ResolveResend {
		return r, nil, nil
	}
	n := r.Resend(boxNow)
	return r, &n, nil
}

var boxNow = testTime.Add(time.Hour)

// boxed is a record in a status, last touched age ago.
func boxed(id outbox.ID, status outbox.Status, age time.Duration) outbox.Record {
	at := outbox.At(boxNow.Add(-age))
	return outbox.Record{
		V: 1, ID: id, Channel: "callback:ci", To: "https://ci.example", TaskID: "t-1", Payload: []byte(`{"secret":"of the payload"}`), Status: status,
		Attempts: 1, LastError: "no answer", InstallationID: 7, Repo: "acme/api", CreatedAt: at, UpdatedAt: at,
	}
}

func boxDoor(t testing.TB) (*door, *taskFake, *boxFake) {
	t.Helper()
	b := &boxFake{records: map[outbox.ID]outbox.Record{}}
	for _, r := range []outbox.Record{
		boxed("lost", outbox.Delivering, 3*time.Minute), boxed("fresh", outbox.Delivering, time.Minute),
		boxed("waiting", outbox.Pending, time.Minute), boxed("done", outbox.Delivered, time.Minute),
	} {
		b.records[r.ID] = r
	}
	d, f := apiDoor(t, func(o *Options) {
		o.Outbox, o.OutboxStore, o.Now = b, b, func() time.Time { return boxNow }
	})
	return d, f, b
}

func TestOutboxList(t *testing.T) {
	t.Parallel()
	d, _, b := boxDoor(t)
	b.page = view.OutboxPage{Next: "c2", Items: []view.OutboxItem{
		{
			ID: "t-1-1", Channel: "callback:ci", To: "https://ci.example", TaskID: "t-1", InstallationID: 7, Repo: "acme/api", Index: 1,
			Status: outbox.Delivering, Unknown: true, Attempts: 1, LastError: "no answer \x1b[31m", CreatedAt: testTime, UpdatedAt: testTime,
		},
		{ID: "x", Channel: "github:comment", To: "acme/api#5", Status: outbox.Pending, CreatedAt: testTime, UpdatedAt: testTime},
	}}
	got := d.get(d.base + "/api/github/outbox")
	require.Equal(t, 200, got.status)
	require.NotContains(t, got.text, "\x1b")
	require.Equal(t, object{"ok": true, "nextCursor": "c2", "outbox": []any{
		object{
			"id": "t-1-1", "channel": "callback:ci", "to": "https://ci.example", "taskId": "t-1", "status": "delivering", "unknown": true,
			"attempts": 1., "lastError": "no answer \x1b[31m", "createdAt": testTime.String(), "updatedAt": testTime.String(),
		},
		object{
			"id": "x", "channel": "github:comment", "to": "acme/api#5", "status": "pending", "unknown": false, "attempts": 0.,
			"createdAt": testTime.String(), "updatedAt": testTime.String(),
		},
	}}, got.json(t))
	require.Equal(t, view.OutboxQuery{Limit: 100}, b.query)
	require.Equal(t, []string{"local outbox"}, d.audit.reads)
	b.page = view.OutboxPage{}
	require.Equal(t, object{"ok": true, "outbox": []any{}}, d.get(d.base+"/api/github/outbox").json(t))
}

func TestOutboxListParameters(t *testing.T) {
	t.Parallel()
	d, _, b := boxDoor(t)
	inst := int64(7)
	require.Equal(t, 200, d.get(d.base+"/api/github/outbox?limit=2&cursor=c1&status=failed&task=T-1&repo=acme/api&installation=7&channel=callback:ci").status)
	require.Equal(t, view.OutboxQuery{
		Installation: &inst, Repo: "acme/api", Status: "failed", Channel: "callback:ci", Task: "t-1", Limit: 2, Cursor: "c1",
	}, b.query)
	for _, query := range []string{"unknown=true", "status=unknown", "unknown=true&status=delivering", "unknown=true&status=unknown"} {
		b.query = view.OutboxQuery{}
		require.Equal(t, 200, d.get(d.base+"/api/github/outbox?"+query).status, query)
		require.Equal(t, view.StatusUnknown, b.query.Status, query)
	}
	for query, want := range map[string]string{
		"status=queued": "parameter status must be one of pending, delivering, delivered, failed, unknown", "unknown=yes": "parameter unknown must be true, or left out",
		"unknown=true&status=failed": "parameter unknown must be left out with status=failed", "limit=0": "limit", "limit=1&limit=2": "limit",
	} {
		b.query = view.OutboxQuery{}
		got := d.get(d.base + "/api/github/outbox?" + query)
		require.Equal(t, 400, got.status, query)
		require.Contains(t, got.json(t)["error"], want, query)
		require.Zero(t, b.query, query)
	}
	b.listErr = fmt.Errorf("list: %w", view.ErrCursor)
	require.Equal(t, 400, d.get(d.base+"/api/github/outbox?cursor=zzz").status)
}

func TestTaskShowsItsOutbox(t *testing.T) {
	t.Parallel()
	d, _, b := boxDoor(t)
	b.page = view.OutboxPage{Items: []view.OutboxItem{{ID: "t-1-1", Channel: "callback:ci", Status: outbox.Delivered, CreatedAt: testTime, UpdatedAt: testTime}}}
	box := d.get(d.base + "/api/github/tasks/t-1").json(t)["task"].(object)["outbox"].([]any)
	require.Len(t, box, 1)
	require.Equal(t, "t-1-1", box[0].(object)["id"])
	require.Equal(t, "delivered", box[0].(object)["status"])
	require.Equal(t, view.OutboxQuery{Task: "t-1", Limit: 1000}, b.query)
}

// OB-39: a person settles what is unknown, with a reason.
func TestOB39Resolve(t *testing.T) {
	t.Parallel()
	d, _, b := boxDoor(t)
	for as, status := range map[string]string{"delivered": "delivered", "failed": "failed", "resend": "failed"} {
		b.records["lost"] = boxed("lost", outbox.Delivering, 3*time.Minute)
		got := d.mutate("/api/github/outbox/lost/resolve", `{"as":"`+as+`","reason":" asked them "}`, nil)
		require.Equal(t, 200, got.status, got.text)
		require.NotContains(t, got.text, "of the payload")
		o := got.json(t)
		require.Equal(t, status, o["record"].(object)["status"], as)
		require.Equal(t, false, o["record"].(object)["unknown"])
		if as == "resend" {
			require.Equal(t, "next", o["resentAs"].(object)["id"])
			require.Equal(t, "pending", o["resentAs"].(object)["status"])
		} else {
			require.NotContains(t, o, "resentAs")
		}
		require.Equal(t, "lost as "+as+" by local: asked them", b.calls[len(b.calls)-1])
		require.Equal(t, kv.AuditEntry{
			Kind: AuditResolve, Caller: "local", InstallationID: 7, Repo: "acme/api", TaskID: "t-1", Detail: "outbox lost as " + as + ": asked them",
		}, d.audit.entries[len(d.audit.entries)-1])
	}
}

// OB-39: only what is unknown; it says what stands against it.
func TestOB39ResolveRefuses(t *testing.T) {
	t.Parallel()
	d, _, b := boxDoor(t)
	const ok = `{"as":"failed","reason":"x"}`
	for id, want := range map[string]string{
		"waiting": "still pending: it will be sent", "done": "already delivered",
		"fresh": "still being sent: its outcome is unknown only from " + task.At(boxNow.Add(time.Minute)).String() + " on",
	} {
		got := d.mutate("/api/github/outbox/"+id+"/resolve", ok, nil)
		require.Equal(t, 409, got.status, id)
		require.Equal(t, object{"error": want}, got.json(t))
		require.Contains(t, d.audit.entries[len(d.audit.entries)-1].Detail, "refused: "+want)
	}
	missing := d.mutate("/api/github/outbox/nobody/resolve", ok, nil)
	require.Equal(t, 404, missing.status)
	require.Equal(t, object{"error": "unknown outbox record"}, missing.json(t))
	require.Len(t, b.calls, 3)
	for err, status := range map[error]int{kv.ErrNotFound: 404, outbox.ErrInvalid: 400, kv.ErrUnknown: 503, kv.ErrConflict: 503} {
		b.err = err
		require.Equal(t, status, d.mutate("/api/github/outbox/lost/resolve", ok, nil).status, err)
	}
	b.err = nil
	calls, entries := len(b.calls), len(d.audit.entries)
	for body, want := range map[string]string{
		`{"as":"failed"}`: "parameter reason must be given", `{"as":"failed","reason":" \n"}`: "parameter reason must be given",
		`{"reason":"x"}`: "parameter as must be delivered, failed or resend", `{"as":"sent","reason":"x"}`: "parameter as",
		`{"as":"failed","reason":"` + strings.Repeat("x", 1001) + `"}`: "at most 1000 bytes", `{"as":1}`: "parse error", "": "parameter as",
	} {
		got := d.mutate("/api/github/outbox/lost/resolve", body, nil)
		require.Equal(t, 400, got.status, body)
		require.Contains(t, got.json(t)["error"], want, body)
	}
	require.Equal(t, 415, d.mutate("/api/github/outbox/lost/resolve", ok, map[string]string{"Content-Type": "text/plain"}).status)
	require.Len(t, b.calls, calls, "nothing was asked of the store")
	require.Len(t, d.audit.entries, entries)
}

// A resolution runs to its end when its client is gone.
func TestOB39ResolveIsDetached(t *testing.T) {
	t.Parallel()
	d, _, b := boxDoor(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.hangUp = cancel
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/api/github/outbox/lost/resolve", strings.NewReader(`{"as":"failed","reason":"x"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	require.Equal(t, 200, serve(d.Public(), r).Code)
}

// DT-99: what is out of the scope reads as what does not exist.
func TestDT99OutboxScope(t *testing.T) {
	t.Parallel()
	d, _, b := boxDoor(t)
	mine, other := int64(7), int64(8)
	as := func(sc Scope, method, path, body string) int {
		r, err := http.NewRequestWithContext(context.WithValue(t.Context(), callerKey{}, Caller{Name: "tenant", Scope: sc}), method, path, strings.NewReader(body))
		require.NoError(t, err)
		return serve(d.scoped(), r).Code
	}
	for name, sc := range map[string]Scope{"other": {Installation: &other}, "other repo": {&mine, []string{"acme/web"}}, "none": {&mine, []string{}}} {
		require.Equal(t, 404, as(sc, http.MethodPost, "/outbox/lost/resolve", `{"as":"failed","reason":"x"}`), name)
	}
	require.Empty(t, b.calls)
	in := Scope{&mine, []string{"acme/api"}}
	require.Equal(t, 200, as(in, http.MethodGet, "/outbox", ""))
	require.Equal(t, view.OutboxQuery{Installation: &mine, Repos: []string{"acme/api"}, Limit: 100}, b.query)
	require.Equal(t, 200, as(in, http.MethodGet, "/tasks/t-1", ""))
	require.Equal(t, view.OutboxQuery{Installation: &mine, Repos: []string{"acme/api"}, Task: "t-1", Limit: 1000}, b.query)
	b.query.Limit = -1
	require.Equal(t, 200, as(in, http.MethodGet, "/outbox?installation=8", ""))
	require.Equal(t, -1, b.query.Limit, "nobody is asked")
	require.Equal(t, 200, as(in, http.MethodPost, "/outbox/lost/resolve", `{"as":"failed","reason":"x"}`))
}
