package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

var testTime = task.At(time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC))

// record is a task that failed once and is completed now.
func record(id task.ID) task.Record {
	return task.Record{
		V: 1, ID: id, Source: "default", DeliveryID: "d-1", DeliverySeq: 12, InstallationID: 7, RepoID: 99, Repo: "acme/api",
		FamiliarID: "cody", Kind: task.Kind{Name: task.ReviewPullRequest, PRNumber: 5, PRTitle: "T", Reason: "opened"},
		State: task.Completed, SupersedeKey: "acme/api#5", Title: "Review PR #5: T", Number: 5, HeadSHA: "abc",
		Attempts: 2, ResultStatus: task.ResultSuccess, Branch: "belay/x", PRNumber: 6, PRURL: "https://example.test/6",
		CheckRunURL: "https://example.test/c", Summary: "done \x1b[31m", CreatedAt: testTime, UpdatedAt: testTime,
		AttemptLog: []task.Attempt{
			{N: 1, Worker: "w", Boot: "b", Nonce: "secret-nonce", StartedAt: testTime, EndedAt: testTime, Outcome: task.OutcomeTimeout, Detail: "slow", Tail: "tail of one"},
			{N: 2, Worker: "w", Boot: "b", Nonce: "secret-nonce", StartedAt: testTime, EndedAt: testTime, Outcome: task.OutcomeCompleted},
		},
	}
}

func apiDoor(t testing.TB, change ...func(*Options)) (*door, *taskFake) {
	t.Helper()
	f := &taskFake{records: map[task.ID]task.Record{"t-1": record("t-1")}, logs: map[string]string{}, hidden: map[task.ID]bool{}}
	d := newDoor(t, append([]func(*Options){func(o *Options) {
		o.Tasks, o.TaskStore, o.Commands, o.Logs, o.Deliveries = f, f, f, f, deliveryFake{f}
		o.FamiliarName = func(id string) string { return map[string]string{"cody": "Cody"}[id] }
	}}, change...)...)
	return d, f
}

func (d *door) mutate(path, body string, header map[string]string) answered {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.base+path, strings.NewReader(body))
	require.NoError(d.t, err)
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	return d.do(req)
}

func TestDT82ListIsTheWireProjection(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	f.page = view.Page{Next: "c2", Items: []view.Item{
		{
			ID: "t-1", InstallationID: 7, Repo: "acme/api", Number: 5, Title: "Review PR #5: T", Branch: "b", PRNumber: 6, PRURL: "u",
			CheckRunURL: "c", State: task.Completed, ResultStatus: task.ResultSuccess, FamiliarID: "cody", Attempts: 1, UpdatedAt: testTime,
		},
		{ID: "t-2", Repo: "acme/api", Title: "X", State: task.Queued, FamiliarID: "stranger", UpdatedAt: testTime},
	}}
	got := d.get(d.base + "/api/github/tasks")
	require.Equal(t, 200, got.status)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.Equal(t, object{"ok": true, "nextCursor": "c2", "tasks": []any{
		object{
			"id": "t-1", "repo": "acme/api", "issueNumber": 5., "issueTitle": "Review PR #5: T", "branch": "b", "prNumber": 6.,
			"prUrl": "u", "status": "review", "familiarId": "cody", "familiarName": "Cody", "sessionId": "t-1",
			"updatedAt": "2026-05-01T12:00:00.123456Z", "checkRunUrl": "c",
		},
		object{
			"id": "t-2", "repo": "acme/api", "issueTitle": "X", "status": "queued", "familiarId": "stranger",
			"familiarName": "stranger", "sessionId": "t-2", "updatedAt": "2026-05-01T12:00:00.123456Z",
		},
	}}, got.json(t))
	require.Equal(t, view.Query{Limit: 100}, f.query)
	require.Equal(t, []string{"local tasks"}, d.audit.reads)
	f.page = view.Page{}
	require.Equal(t, object{"ok": true, "tasks": []any{}}, d.get(d.base+"/api/github/tasks").json(t))
}

func TestDT97ListParameters(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	inst := int64(7)
	require.Equal(t, 200, d.get(d.base+"/api/github/tasks?limit=1000&cursor=abc&status=review&repo=acme%2Fapi&installation=7").status)
	require.Equal(t, view.Query{Installation: &inst, Repo: "acme/api", Status: "review", Limit: 1000, Cursor: "abc"}, f.query)
	for query, want := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=-1": "limit", "limit=x": "limit", "limit=1e2": "limit",
		"status=ready": "status", "status=DONE": "status", "installation=x": "installation", "installation=-1": "installation",
		"limit=1&limit=2": "limit", "cursor=" + strings.Repeat("a", 2000): "cursor", "repo=%zz": "query",
	} {
		f.query = view.Query{}
		got := d.get(d.base + "/api/github/tasks?" + query)
		require.Equal(t, 400, got.status, query)
		require.Contains(t, got.json(t)["error"], want, query)
		require.Zero(t, f.query, query)
	}
	f.listErr = fmt.Errorf("list: %w", view.ErrCursor)
	got := d.get(d.base + "/api/github/tasks?cursor=zzz")
	require.Equal(t, 400, got.status)
	require.Contains(t, got.json(t)["error"], "parameter cursor")
}

func TestOneTask(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	got := d.get(d.base + "/api/github/tasks/t-1")
	require.Equal(t, 200, got.status)
	require.NotContains(t, got.text, "\x1b", "G09: no raw escape reaches a terminal")
	require.NotContains(t, got.text, "secret-nonce")
	o := got.json(t)["task"].(object)
	for k, want := range map[string]any{
		"id": "t-1", "status": "review", "state": "completed", "resultStatus": "success", "headSha": "abc", "summary": "done \x1b[31m",
		"familiarName": "Cody", "installationId": 7., "supersedeKey": "acme/api#5", "createdAt": testTime.String(),
		"delivery": object{"id": "d-1", "seq": 12.}, "outbox": []any{}, "source": "default",
		"kind": object{"kind": "review_pull_request", "pr_number": 5., "pr_title": "T", "reason": "opened"},
	} {
		require.Equal(t, want, o[k], k)
	}
	attempts := o["attempts"].([]any)
	require.Len(t, attempts, 2)
	require.Equal(t, object{
		"n": 1., "worker": "w", "startedAt": testTime.String(), "endedAt": testTime.String(), "outcome": "timeout", "detail": "slow", "tail": "tail of one",
	}, attempts[0])
	require.NotContains(t, o, "notBefore")
	require.NotContains(t, o, "supersededBy")

	missing := d.get(d.base + "/api/github/tasks/t-9")
	require.Equal(t, 404, missing.status)
	require.Equal(t, object{"error": "unknown task"}, missing.json(t))
	f.getErr = kv.ErrUnknown
	require.Equal(t, 503, d.get(d.base+"/api/github/tasks/t-1").status)
}

// DT-9: a task that the log holds and admission has not seen is `received`.
func TestDT09ReceivedIsAState(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	spec := &task.Spec{ID: "t-5", FamiliarID: "cody", Kind: task.Kind{Name: task.FixIssue, IssueNumber: 3, IssueTitle: "I"}}
	f.deliveries = []kv.Logged{
		{Delivery: task.Delivery{ID: "d-9", Routing: task.Ignored(task.Ping)}, Seq: 9},
		{Delivery: task.Delivery{ID: "d-5", InstallationID: 7, Repo: "acme/api", Routing: task.ToTask("t-5"), Task: spec, ReceivedAt: testTime}, Seq: 5},
	}
	o := d.get(d.base + "/api/github/tasks/t-5").json(t)["task"].(object)
	require.Equal(t, "received", o["state"])
	require.Equal(t, "received", o["status"])
	require.Equal(t, "I", o["issueTitle"])
	require.Equal(t, []any{}, o["attempts"])
	require.Equal(t, 404, d.get(d.base+"/api/github/tasks/t-5/log").status)
	require.Equal(t, 409, d.mutate("/api/github/tasks/t-5/cancel", "", nil).status)
	require.Empty(t, f.commands)
	// Admitted, but not in the read model yet: the record counts.
	r := record("t-5")
	f.records["t-5"], f.hidden["t-5"] = r, true
	require.Equal(t, "completed", d.get(d.base + "/api/github/tasks/t-5").json(t)["task"].(object)["state"])
	f.deliverErr = kv.ErrUnknown
	require.Equal(t, 503, d.get(d.base+"/api/github/tasks/t-5").status)
}

func TestTaskLogs(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	f.logs["t-1/2"] = strings.Repeat("line <b>\n", 20000)
	got := d.get(d.base + "/api/github/tasks/t-1/log")
	require.Equal(t, 200, got.status)
	require.Equal(t, strings.TrimSpace(f.logs["t-1/2"]), got.text)
	require.Equal(t, "text/plain; charset=utf-8", got.header.Get("Content-Type"))
	require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	require.Equal(t, "whole", got.header.Get("Belay-Log"))
	one := d.get(d.base + "/api/github/tasks/t-1/log?attempt=1")
	require.Equal(t, "tail of one", one.text, "another machine has the whole")
	require.Equal(t, "tail", one.header.Get("Belay-Log"))
	delete(f.logs, "t-1/2")
	for query, status := range map[string]int{"": 404, "?attempt=3": 404, "?attempt=0": 400, "?attempt=x": 400} {
		require.Equal(t, status, d.get(d.base+"/api/github/tasks/t-1/log"+query).status, query)
	}
	require.Equal(t, object{"error": "no log of that attempt is kept here: it stays on the machine of the worker that ran it"}, d.get(d.base+"/api/github/tasks/t-1/log").json(t))
	require.Equal(t, object{"error": "unknown task"}, d.get(d.base+"/api/github/tasks/t-9/log").json(t))
}

func TestRetryAndCancel(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	running := record("t-2")
	running.State = task.Running
	f.records["t-2"] = running
	lost := record("t-3")
	lost.State, lost.SupersededBy = task.Superseded, "t-1"
	f.records["t-3"] = lost

	got := d.mutate("/api/github/tasks/t-1/retry", "{}", nil)
	require.Equal(t, 202, got.status)
	require.Equal(t, "queued", got.json(t)["task"].(object)["status"])
	got = d.mutate("/api/github/tasks/t-2/cancel", `{"reason":"not needed"}`, nil)
	require.Equal(t, 200, got.status)
	require.Equal(t, "cancelled", got.json(t)["task"].(object)["status"])
	require.Equal(t, []string{"retry t-1 local", "cancel t-2 local not needed"}, f.commands)

	for path, text := range map[string]string{
		"t-1/cancel": "already completed", "t-2/retry": "already running", "t-3/retry": "superseded by t-1", "t-3/cancel": "already superseded",
	} {
		got = d.mutate("/api/github/tasks/"+path, "", nil)
		require.Equal(t, 409, got.status, path)
		require.Equal(t, object{"error": text}, got.json(t), path)
	}
	require.Equal(t, object{"error": "unknown task"}, d.mutate("/api/github/tasks/t-9/cancel", "", nil).json(t))
	for err, status := range map[error]int{kv.ErrNotFound: 404, kv.ErrConflict: 503, kv.ErrUnknown: 503, errors.New("odd"): 503} {
		f.commandErr = fmt.Errorf("cancel: %w", err)
		require.Equal(t, status, d.mutate("/api/github/tasks/t-2/cancel", "", nil).status, err)
	}
	require.Len(t, d.audit.entries, 10)
	require.Equal(t, kv.AuditEntry{
		Kind: AuditRetry, Caller: "local", InstallationID: 7, Repo: "acme/api", TaskID: "t-1", DeliveryID: "d-1", Detail: "done",
	}, d.audit.entries[0])
	require.Contains(t, d.audit.entries[9].Detail, "refused")
	for body, status := range map[string]int{
		"{": 400, "[]": 400, `{"reason":7}`: 400, `{"reason":"` + strings.Repeat("x", 1001) + `"}`: 400, `"` + strings.Repeat("x", 70<<10) + `"`: 413,
	} {
		require.Equal(t, status, d.mutate("/api/github/tasks/t-2/cancel", body, nil).status, body[:min(len(body), 20)])
	}
	require.Len(t, d.audit.entries, 10)
}

// A command runs to its end when its client is gone.
func TestCommandsAreDetached(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	ctx, cancel := context.WithCancel(t.Context())
	d.o.Commands = cancelling{f, cancel}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/api/github/tasks/t-1/retry", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	require.Equal(t, 202, serve(d.Public(), r).Code)
}

// cancelling hangs up as the command begins.
type cancelling struct {
	*taskFake
	hangUp func()
}

func (c cancelling) Retry(ctx context.Context, i int64, id task.ID, caller string) (task.Record, error) {
	c.hangUp()
	if ctx.Err() != nil {
		return task.Record{}, ctx.Err()
	}
	return c.taskFake.Retry(ctx, i, id, caller)
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t)
	f.next = "c2"
	f.deliveries = []kv.Logged{
		{Seq: 3, Delivery: task.Delivery{
			ID: "d-3", Source: "default", Event: "issues", Action: "labeled", InstallationID: 7, Repo: "acme/api",
			Routing: task.ToTask("t-1"), PayloadHash: "ff", ReceivedAt: testTime,
		}},
		{Seq: 2, Delivery: task.Delivery{ID: "d-2", Source: "default", Event: "ping", Routing: task.Ignored(task.Ping), PayloadHash: "ee", ReceivedAt: testTime}},
	}
	first := object{
		"id": "d-3", "source": "default", "event": "issues", "action": "labeled", "installation": 7., "repo": "acme/api",
		"routing": "task:t-1", "payloadHash": "ff", "receivedAt": testTime.String(), "seq": 3.,
	}
	second := object{
		"id": "d-2", "source": "default", "event": "ping", "routing": "ignored:ping", "payloadHash": "ee", "receivedAt": testTime.String(), "seq": 2.,
	}
	got := d.get(d.base + "/api/github/deliveries?limit=2&repo=acme/api&installation=7&cursor=c1")
	require.Equal(t, object{"ok": true, "deliveries": []any{first, second}, "nextCursor": "c2"}, got.json(t))
	inst := int64(7)
	require.Equal(t, kv.DeliveryQuery{Installation: &inst, Repo: "acme/api", Limit: 2, Cursor: "c1"}, f.asked)
	require.Equal(t, object{"ok": true, "delivery": first}, d.get(d.base+"/api/github/deliveries/d-3").json(t))
	for _, id := range []string{"d-9", "a.b", "-x"} {
		got = d.get(d.base + "/api/github/deliveries/" + id)
		require.Equal(t, 404, got.status, id)
		require.Equal(t, object{"error": "unknown delivery"}, got.json(t))
	}
	require.Equal(t, 400, d.get(d.base+"/api/github/deliveries?status=done").status)
	require.Equal(t, 400, d.get(d.base+"/api/github/deliveries?limit=0").status)
	f.deliverErr = fmt.Errorf("page: %w", kv.ErrCursor)
	require.Equal(t, 400, d.get(d.base+"/api/github/deliveries?cursor=x").status)
	f.deliverErr = kv.ErrUnknown
	require.Equal(t, 503, d.get(d.base+"/api/github/deliveries").status)
	require.Contains(t, d.logs.String(), `"route":"/api/github/deliveries"`)
}

func TestUnknownRoutesOfTheAPI(t *testing.T) {
	t.Parallel()
	d, _ := apiDoor(t)
	require.Equal(t, object{"error": "not found"}, d.get(d.base+"/api/github/nothing").json(t))
	require.Equal(t, object{"error": "not found"}, d.get(d.base+"/api").json(t))
	got := d.mutate("/api/github/tasks", "{}", nil)
	require.Equal(t, 405, got.status)
	require.Equal(t, "GET", got.header.Get("Allow"))
	require.Equal(t, object{"error": "method not allowed"}, got.json(t))
	bare := newDoor(t)
	require.Equal(t, 404, bare.get(bare.base+"/api/github/tasks").status, "no port, no route")
}
