package ingest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
)

// The whole way of a request, as its owner sees it.
func TestOperatorTask(t *testing.T) {
	t.Parallel()
	d, f := deskDoor(t)
	got := d.op(op{path: "/tasks", body: proposal("")})
	require.Equal(t, 201, got.status, got.text)
	want := object{
		"id": string(opID), "state": "proposed", "revision": 1., "repo": opRepo, "title": "Fix the door", "body": "It squeaks.",
		"owner":      object{"tenant": "invotek", "operator": "ann", "conversation": "c1"},
		"proposedAt": testTime.String(), "expiresAt": "2026-05-02T12:00:00.123456Z", "updatedAt": testTime.String(),
	}
	require.Equal(t, object{"code": "Committed", "task": want}, got.json(t))
	got = d.op(op{path: "/tasks", body: proposal("")})
	require.Equal(t, 200, got.status)
	require.Equal(t, object{"code": "Existing", "task": want}, got.json(t))
	at := "/tasks/" + string(opID)
	got = d.op(op{method: "GET", path: at})
	require.Equal(t, 200, got.status)
	require.Equal(t, object{"code": "Existing", "task": want}, got.json(t))

	require.Equal(t, 409, d.op(op{path: at + "/confirm", body: `{"revision":2}`}).status)
	got = d.op(op{path: at + "/confirm", body: `{"revision":1}`})
	require.Equal(t, 200, got.status)
	require.Equal(t, "Committed", got.json(t)["code"])
	require.Empty(t, f.woken, "the event itself wakes the consumer")
	got = d.op(op{path: at + "/confirm", body: `{"revision":1}`})
	require.Equal(t, "Existing", got.json(t)["code"])
	require.Equal(t, []string{"invotek " + string(opID)}, f.woken, "asked again while nothing came of it")

	f.advance(t, operator.StateDelivered)
	got = d.op(op{method: "GET", path: at})
	task := got.json(t)["task"].(object)
	for k, v := range map[string]any{
		"state": "delivered", "revision": 6., "attemptId": "a1", "reason": "unknown", "evidence": "marker", "outboxId": "o1",
		"issue": object{"number": 7., "url": "https://github.test/7"}, "leaseUntil": "2026-05-01T12:10:00.123456Z",
	} {
		require.Equal(t, v, task[k], k)
	}
	require.NotContains(t, got.text, "boot", "who held it is nobody's business")
	require.Equal(t, 200, d.op(op{path: at + "/confirm", body: `{"revision":1}`}).status)
	require.Len(t, f.woken, 1)
	require.Equal(t, []string{"operator:worker operator task", "operator:worker operator task"}, d.audit.reads)
	require.Len(t, d.audit.entries, 6)
	require.Equal(t, kv.AuditEntry{
		Kind: AuditPropose, Caller: "operator:worker", Repo: opRepo, Detail: "request " + string(opID) + " by ann in c1: Committed",
	}, d.audit.entries[0])
	require.Equal(t, AuditConfirm, d.audit.entries[2].Kind)
	require.Contains(t, d.audit.entries[2].Detail, ": Conflict")
}

// OT-93: without a key and a repository everything is blocked, and says so.
func TestOT93BlockedUntilAKeyIsThere(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Operator){"no key": func(o *Operator) { o.Keys = signers() }, "no repo": func(o *Operator) { o.Repo = "" }} {
		d, f := deskDoor(t, func(o *Options) { change(o.Operator) })
		for _, o := range []op{{path: "/tasks", body: proposal("")}, {method: "GET", path: "/tasks/" + string(opID)}, {path: "/nothing"}} {
			got := d.op(o)
			require.Equal(t, 503, got.status, name)
			require.Equal(t, object{"error": "operator tasks are blocked until [operator] keys and repo are set"}, got.json(t))
		}
		require.Empty(t, f.calls)
		require.Empty(t, f.used)
	}
	d, f := deskDoor(t, func(o *Options) { o.Operator.Keys = signers(OperatorKey{ID: "worker"}) })
	require.Equal(t, 401, d.op(op{path: "/tasks", body: proposal(""), secret: " "}).status)
	got := d.op(op{path: "/tasks", body: proposal(""), header: map[string]string{
		"X-Belay-Nonce": "a-nonce-that-is-long-enough", "X-Belay-Signature": signedBy("", "POST", "/api/operator/tasks", fmt.Sprint(testTime.Unix()), "a-nonce-that-is-long-enough", "ann", "c1", proposal("")),
	}})
	require.Equal(t, 401, got.status, "a key without a secret signs nothing")
	require.Empty(t, f.calls)
}

// OT-87: only what a key signed, fresh and for the first time, comes through;
// everything else gets one answer, before anything is asked of the store.
func TestOT87OnlySignedRequestsComeThrough(t *testing.T) {
	t.Parallel()
	d, f := deskDoor(t)
	set := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	at := func(offset time.Duration) map[string]string {
		return map[string]string{"X-Belay-Timestamp": fmt.Sprint(testTime.Add(offset).Unix())}
	}
	signed := op{path: "/tasks", body: proposal("")}
	with := func(change func(o *op)) op { o := signed; change(&o); return o }
	rows := map[string]op{
		"wrong secret":         with(func(o *op) { o.secret = "wrong" }),
		"another key's secret": with(func(o *op) { o.secret = "another-secret-of-some-length" }),
		"unknown key":          with(func(o *op) { o.header = map[string]string{"X-Belay-Key": "nobody"} }),
		"unknown key, empty":   with(func(o *op) { o.header = map[string]string{"X-Belay-Key": "nobody"}; o.secret = "\x00" }),
		"too old":              with(func(o *op) { o.header = at(-maxSkew - time.Second) }),
		"too new":              with(func(o *op) { o.header = at(maxSkew + 2*time.Second) }),
		"no number":            with(func(o *op) { o.header = map[string]string{"X-Belay-Timestamp": "now"} }),
		"another spelling":     with(func(o *op) { o.header = map[string]string{"X-Belay-Timestamp": fmt.Sprintf("+%d", testTime.Unix())} }),
		"short nonce":          with(func(o *op) { o.header = map[string]string{"X-Belay-Nonce": "fifteen-chars-x"} }),
		"nonce with a blank":   with(func(o *op) { o.header = map[string]string{"X-Belay-Nonce": "a nonce with some blanks"} }),
		"no ASCII":             with(func(o *op) { o.header = map[string]string{"X-Belay-Operator": "änn"} }),
		"changed operator":     with(func(o *op) { o.after = set("X-Belay-Operator", "bob") }),
		"changed conversation": with(func(o *op) { o.after = set("X-Belay-Conversation", "c2") }),
		"changed nonce":        with(func(o *op) { o.after = set("X-Belay-Nonce", "another-nonce-of-some-length") }),
		"changed time":         with(func(o *op) { o.after = set("X-Belay-Timestamp", fmt.Sprint(testTime.Unix()+1)) }),
		"changed query":        with(func(o *op) { o.after = func(r *http.Request) { r.URL.RawQuery = "a=b" } }),
		"changed path":         with(func(o *op) { o.after = func(r *http.Request) { r.URL.Path = "/api/operator/nothing" } }),
		"changed method":       with(func(o *op) { o.after = func(r *http.Request) { r.Method = "PUT" } }),
		"two operators":        with(func(o *op) { o.after = func(r *http.Request) { r.Header.Add("X-Belay-Operator", "ann") } }),
		"another version": with(func(o *op) {
			o.after = func(r *http.Request) { set("X-Belay-Signature", "v2="+r.Header.Get("X-Belay-Signature")[3:])(r) }
		}),
		"upper case": with(func(o *op) {
			o.after = func(r *http.Request) { set("X-Belay-Signature", strings.ToUpper(r.Header.Get("X-Belay-Signature")))(r) }
		}),
		"no such path": {path: "/nothing", secret: "wrong"},
		"no such task": {method: "GET", path: "/tasks/x", secret: "wrong"},
	}
	for _, h := range []string{"X-Belay-Key", "X-Belay-Timestamp", "X-Belay-Nonce", "X-Belay-Operator", "X-Belay-Conversation", "X-Belay-Signature"} {
		rows["no "+h] = with(func(o *op) { o.header = map[string]string{h: ""} })
		rows["empty "+h] = with(func(o *op) { o.after = func(r *http.Request) { r.Header[h] = []string{""} } })
	}
	for name, row := range rows {
		got := d.op(row)
		require.Equal(t, 401, got.status, name)
		require.Equal(t, `{"ok":false,"error":"unauthorized"}`, got.text, name)
	}
	require.Empty(t, f.calls)
	require.Empty(t, f.used, "nobody fills the store with nonces of his own")
	require.Len(t, d.audit.denied, len(rows))
	require.Equal(t, fmt.Sprint(len(rows)), d.metric("belay_api_denials_total"))

	// A nonce comes through once, even with another body; the other key's is its own.
	once := with(func(o *op) { o.header = map[string]string{"X-Belay-Nonce": "a-nonce-that-is-long-enough"} })
	require.Equal(t, 201, d.op(once).status)
	require.Equal(t, 401, d.op(once).status)
	require.Equal(t, 401, d.op(op{path: "/tasks", body: "{}", header: once.header}).status)
	require.Len(t, f.calls, 1)
	edge := with(func(o *op) { o.header = at(-maxSkew + time.Second) })
	require.Equal(t, 200, d.op(edge).status)
	other := with(func(o *op) {
		o.secret = "another-secret-of-some-length"
		o.header = map[string]string{"X-Belay-Key": "other", "X-Belay-Nonce": "a-nonce-that-is-long-enough"}
	})
	require.Equal(t, 200, d.op(other).status)
	// Where nobody can say whether a nonce is new, nothing happens.
	f.nonceErr = kv.ErrUnknown
	n := len(f.calls)
	require.Equal(t, 503, d.op(signed).status)
	require.Len(t, f.calls, n)
}

// A token of the API is no signature, and a signature needs no token.
func TestOT87SignatureIsTheOnlyKey(t *testing.T) {
	t.Parallel()
	d, _ := deskDoor(t, tokenMode)
	require.Equal(t, 201, d.op(op{path: "/tasks", body: proposal("")}).status)
	got := d.op(op{path: "/tasks", body: proposal(""), secret: "wrong", header: map[string]string{"Authorization": "Bearer " + serviceToken}})
	require.Equal(t, 401, got.status)
	require.Equal(t, 404, d.op(op{path: "/nothing"}).status)
	require.Equal(t, 405, d.op(op{method: "DELETE", path: "/tasks/" + string(opID)}).status)
}

// OT-11: the owner is the server's; a body that names one is refused.
func TestOT11OwnerIsNeverOfTheBody(t *testing.T) {
	t.Parallel()
	d, f := deskDoor(t)
	for _, more := range []string{
		`,"owner":{"tenant":"acme"}`, `,"tenant":"acme"`, `,"operator":"bob"`, `,"conversation":"c2"`, `,"repo":"acme/other"`, `} {`,
	} {
		got := d.op(op{path: "/tasks", body: proposal(more)})
		require.Equal(t, 400, got.status, more)
	}
	require.Empty(t, f.calls)
	f.tenant = "acme"
	require.Equal(t, 201, d.op(op{path: "/tasks", body: proposal(""), header: map[string]string{"X-Belay-Operator": "bob smith", "X-Belay-Conversation": "c/2"}}).status)
	require.Equal(t, operator.Owner{Tenant: "acme", Operator: "bob smith", Conversation: "c/2"}, f.requests[opID].Owner)
	require.Equal(t, opRepo, f.requests[opID].Intent.Repo)
}

// OT-89: the tenant that an id was proposed under binds every later call,
// wherever the repository belongs by then; OT-14: all others find nothing.
func TestOT89BoundTenant(t *testing.T) {
	t.Parallel()
	d, f := deskDoor(t)
	require.Equal(t, 201, d.op(op{path: "/tasks", body: proposal("")}).status)
	at := "/tasks/" + string(opID)
	for _, tenant := range []string{"acme", ""} {
		f.tenant = tenant
		require.Equal(t, 200, d.op(op{method: "GET", path: at}).status, "found after a move, and while nobody can say")
		require.Equal(t, 200, d.op(op{path: "/tasks", body: proposal("")}).status)
		require.Contains(t, f.calls[len(f.calls)-1], "{invotek ann c1}")
	}
	f.tenant = "invotek"
	f.advance(t, operator.StateSubmitted)
	for name, h := range map[string]map[string]string{
		"operator": {"X-Belay-Operator": "bob"}, "case": {"X-Belay-Operator": "Ann"}, "conversation": {"X-Belay-Conversation": "c2"},
	} {
		for _, o := range []op{
			{method: "GET", path: at}, {path: at + "/confirm", body: `{"revision":1}`}, {path: at + "/reconcile"}, {path: "/tasks", body: proposal("")},
			{path: at + "/release", body: `{"number":8,"head":"` + strings.Repeat("a", 40) + `"}`},
		} {
			o.header = h
			got := d.op(o)
			require.Equal(t, 404, got.status, "%s %s", name, o.path)
			require.Equal(t, `{"code":"NotFound"}`, got.text)
		}
	}
	require.Empty(t, f.releases)
	require.Empty(t, f.woken)
	unknown := "/tasks/" + strings.Replace(string(opID), "0b", "0c", 1)
	got := d.op(op{method: "GET", path: unknown})
	require.Equal(t, `{"code":"NotFound"}`, got.text, "the same as of what does not exist")
	n := len(f.calls)
	require.Equal(t, 404, d.op(op{path: unknown + "/confirm", body: `{"revision":1}`}).status)
	require.Len(t, f.calls, n)
}

// OT-39: a tenant that cannot be told is Forbidden, and nothing is written.
func TestOT39UnknownTenantIsForbidden(t *testing.T) {
	t.Parallel()
	d, f := deskDoor(t)
	f.tenant = ""
	got := d.op(op{path: "/tasks", body: proposal("")})
	require.Equal(t, 403, got.status)
	require.Equal(t, `{"code":"Forbidden"}`, got.text)
	require.Empty(t, f.calls)
}

// REQUIREMENTS §API: each code's status; what fails otherwise names nothing.
func TestOperatorCodes(t *testing.T) {
	t.Parallel()
	d, f := deskDoor(t)
	require.Equal(t, 201, d.op(op{path: "/tasks", body: proposal("")}).status)
	confirm := op{path: "/tasks/" + string(opID) + "/confirm", body: `{"revision":1}`}
	for code, status := range map[operator.Code]int{
		operator.Committed: 200, operator.Existing: 200, operator.Conflict: 409, operator.Uncertain: 504, operator.NotFound: 404,
		operator.Forbidden: 403, operator.Expired: 410,
	} {
		f.code = code
		got := d.op(confirm)
		require.Equal(t, status, got.status, code)
		require.Equal(t, object{"code": string(code)}, got.json(t))
	}
	f.code = ""
	for err, status := range map[error]int{
		kv.ErrPoisoned: 500, kv.ErrTorn: 503, kv.ErrUnknown: 503, kv.ErrFull: 503, errors.New("unheard of"): 503,
	} {
		f.err = fmt.Errorf("read request %s: %w", opID, err)
		for _, o := range []op{confirm, {path: "/tasks", body: proposal("")}, {method: "GET", path: "/tasks/" + string(opID)}} {
			got := d.op(o)
			require.Equal(t, status, got.status, err)
			require.NotContains(t, got.text, string(opID))
		}
	}
	f.err, f.tenantErr = nil, kv.ErrUnknown
	require.Equal(t, 503, d.op(confirm).status)
}

func TestOperatorRequestsAreChecked(t *testing.T) {
	t.Parallel()
	d, f := deskDoor(t)
	at := "/tasks/" + string(opID)
	for name, row := range map[string]struct {
		o      op
		status int
	}{
		"no id":             {op{path: "/tasks", body: `{"title":"t"}`}, 400},
		"upper case":        {op{path: "/tasks", body: `{"title":"t","requestId":"` + strings.ToUpper(string(opID)) + `"}`}, 400},
		"with its prefix":   {op{path: "/tasks", body: `{"title":"t","requestId":"cockpit-task:` + string(opID) + `"}`}, 400},
		"no title":          {op{path: "/tasks", body: strings.Replace(proposal(""), "Fix the door", " ", 1)}, 400},
		"two lines":         {op{path: "/tasks", body: strings.Replace(proposal(""), "the", `\n`, 1)}, 400},
		"long title":        {op{path: "/tasks", body: strings.Replace(proposal(""), "the", strings.Repeat("é", 250), 1)}, 400},
		"long body":         {op{path: "/tasks", body: strings.Replace(proposal(""), "It", strings.Repeat("x", maxIssueBody), 1)}, 400},
		"too large":         {op{path: "/tasks", body: proposal(strings.Repeat(" ", 64<<10))}, 413},
		"no JSON":           {op{path: "/tasks", body: "{"}, 400},
		"another type":      {op{path: "/tasks", body: proposal(""), header: map[string]string{"Content-Type": "text/plain"}}, 415},
		"another id":        {op{method: "GET", path: "/tasks/x"}, 400},
		"no revision":       {op{path: at + "/confirm", body: "{}"}, 400},
		"negative revision": {op{path: at + "/confirm", body: `{"revision":-1}`}, 400},
		"unknown field":     {op{path: at + "/confirm", body: `{"revision":1,"owner":{}}`}, 400},
		"another repo":      {op{path: at + "/release", body: `{"repo":"acme/x","number":8,"head":"` + strings.Repeat("a", 40) + `"}`}, 400},
		"no number":         {op{path: at + "/release", body: `{"head":"` + strings.Repeat("a", 40) + `"}`}, 400},
		"short head":        {op{path: at + "/release", body: `{"number":8,"head":"abc"}`}, 400},
	} {
		got := d.op(row.o)
		require.Equal(t, row.status, got.status, "%s: %s", name, got.text)
	}
	require.Empty(t, f.calls)
}

// Reconcile asks the consumer to look, where there is something to look for.
func TestOperatorReconcile(t *testing.T) {
	t.Parallel()
	d, f := deskDoor(t)
	require.Equal(t, 201, d.op(op{path: "/tasks", body: proposal("")}).status)
	at := "/tasks/" + string(opID) + "/reconcile"
	for _, row := range []struct {
		state  operator.State
		status int
		code   string
		wakes  int
	}{
		{operator.StateProposed, 409, "Conflict", 0}, {operator.StateApproved, 409, "Conflict", 0}, {operator.StateAttempting, 200, "Existing", 1},
		{operator.StateUnknown, 200, "Existing", 1}, {operator.StateSubmitted, 200, "Existing", 0}, {operator.StateDelivered, 200, "Existing", 0},
	} {
		f.advance(t, row.state)
		f.woken = nil
		got := d.op(op{path: at})
		require.Equal(t, row.status, got.status, row.state)
		require.Equal(t, row.code, got.json(t)["code"], row.state)
		require.Equal(t, string(row.state), got.json(t)["task"].(object)["state"])
		require.Len(t, f.woken, row.wakes, row.state)
		require.Equal(t, 409, d.op(op{path: at, body: `{"revision":99}`}).status)
		require.Len(t, f.woken, row.wakes, row.state)
	}
}

// OT-92: a release is of the request's own pull request, by its owner.
func TestOT92Release(t *testing.T) {
	t.Parallel()
	d, f := deskDoor(t)
	require.Equal(t, 201, d.op(op{path: "/tasks", body: proposal("")}).status)
	head := strings.Repeat("a", 40)
	release := op{path: "/tasks/" + string(opID) + "/release", body: `{"number":8,"head":"` + head + `"}`}
	f.advance(t, operator.StateUnknown)
	require.Equal(t, 409, d.op(release).status, "there is no issue yet")
	f.advance(t, operator.StateSubmitted)
	got := d.op(release)
	require.Equal(t, 200, got.status, got.text)
	require.Equal(t, "Committed", got.json(t)["code"])
	require.Equal(t, head, got.json(t)["release"].(object)["head"])
	require.Equal(t, map[string]kv.Release{"99#8": {V: 1, Head: head, Owner: opAnn}}, f.releases)
	require.Equal(t, "Existing", d.op(release).json(t)["code"])

	f.pulls[9] = Pull{RepoID: 99, Issue: 6}
	for _, number := range []string{"9", "10"} {
		got := d.op(op{path: release.path, body: strings.Replace(release.body, "8", number, 1)})
		require.Equal(t, 404, got.status, "not of this request's issue")
		require.Equal(t, object{"error": "unknown pull request"}, got.json(t))
	}
	require.Len(t, f.releases, 1)
	f.relErr = kv.ErrConflict
	require.Equal(t, 409, d.op(release).status)
	f.relErr = kv.ErrUnknown
	got = d.op(release)
	require.Equal(t, 504, got.status)
	require.Equal(t, `{"code":"Uncertain"}`, got.text)
	require.Equal(t, AuditRelease, d.audit.entries[len(d.audit.entries)-1].Kind)
}
