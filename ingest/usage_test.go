package ingest

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/view"
)

// sums stands in for what usage, audit and routing are read from.
type sums struct {
	usage  view.UsagePage
	asked  view.UsageQuery
	trail  kv.AuditPage
	query  kv.AuditQuery
	err    error
	places []int64
}

func (f *sums) Usage(q view.UsageQuery) (view.UsagePage, error) {
	f.asked = q
	return f.usage, f.err
}

func (f *sums) Page(_ context.Context, q kv.AuditQuery) (kv.AuditPage, error) {
	f.query = q
	return f.trail, f.err
}

func (f *sums) Installations() []int64 { return f.places }

func (f *sums) Account(installation int64) string {
	return map[int64]string{7: "acme", 8: "other"}[installation]
}

func sumDoor(t testing.TB, change ...func(*Options)) (*door, *sums) {
	t.Helper()
	f := &sums{places: []int64{7, 8, 9}}
	d, _ := apiDoor(t, append([]func(*Options){func(o *Options) {
		o.Usage, o.Trail, o.Places = f, f, f
		o.Now = func() time.Time { return time.Date(2026, 5, 31, 23, 0, 0, 0, time.FixedZone("west", -5*3600)) }
	}}, change...)...)
	return d, f
}

func TestDT100Usage(t *testing.T) {
	t.Parallel()
	d, f := sumDoor(t)
	f.usage = view.UsagePage{Next: "c2", Rows: []view.Usage{
		{InstallationID: 7, Repo: "acme/api", FamiliarID: "cody", Tasks: 5, Completed: 3, Failed: 1, Runtime: 61500 * time.Millisecond},
	}}
	got := d.get(d.base + "/api/github/usage")
	require.Equal(t, 200, got.status)
	require.Equal(t, object{"ok": true, "nextCursor": "c2", "usage": []any{object{
		"installationId": 7., "repo": "acme/api", "familiarId": "cody", "tasks": 5., "completed": 3., "failed": 1., "runtimeSecs": 61.5,
	}}}, got.json(t))
	require.Equal(t, []string{"local usage"}, d.audit.reads)
	require.Equal(t, view.UsageQuery{Limit: 100}, f.asked)
	f.usage = view.UsagePage{}
	require.Equal(t, object{"ok": true, "usage": []any{}}, d.get(d.base+"/api/github/usage").json(t), "X11: nothing is an empty list")

	day := func(n int) time.Time { return time.Date(2026, 5, n, 0, 0, 0, 0, time.UTC) }
	require.Equal(t, 200, d.get(d.base+"/api/github/usage?since=2026-05-01&until=2026-05-01&repo=acme/api&installation=7&limit=2&cursor=x").status)
	seven := int64(7)
	require.Equal(t, view.UsageQuery{Installation: &seven, Repo: "acme/api", Since: day(1), Until: day(1), Limit: 2, Cursor: "x"}, f.asked)
	require.Equal(t, 200, d.get(d.base+"/api/github/usage?days=1").status)
	require.Equal(t, "2026-06-01", f.asked.Since.Format(time.DateOnly), "today, in UTC")
	require.Equal(t, 200, d.get(d.base+"/api/github/usage?days=30").status)
	require.Equal(t, "2026-05-03", f.asked.Since.Format(time.DateOnly))
	require.True(t, f.asked.Until.IsZero())
	for query, name := range map[string]string{
		"since=yesterday": "since", "since=2026-02-30": "since", "until=2026-05-01T00:00:00Z": "until", "since=2026-05-02&until=2026-05-01": "until",
		"days=0": "days", "days=x": "days", "days=3651": "days", "days=7&since=2026-05-01": "days", "days=7&until=2026-05-01": "days",
		"status=done": "status", "limit=1001": "limit", "installation=x": "installation", "since=2026-05-01&since=2026-05-01": "since",
	} {
		got := d.get(d.base + "/api/github/usage?" + query)
		require.Equal(t, 400, got.status, query)
		require.Contains(t, got.json(t)["error"], name, query)
	}
	f.err = fmt.Errorf("usage: %w", view.ErrCursor)
	require.Equal(t, 400, d.get(d.base+"/api/github/usage?cursor=zzz").status)
}

func TestDT100Audit(t *testing.T) {
	t.Parallel()
	d, f := sumDoor(t)
	f.trail = kv.AuditPage{Next: "c2", Entries: []kv.AuditEntry{
		{V: 1, At: testTime, Kind: "retry", Caller: "tenant:acme", InstallationID: 7, Repo: "acme/api", TaskID: "t-1", DeliveryID: "d-1", Detail: "done"},
		{V: 1, At: testTime, Kind: "read", Caller: "service", Detail: "tasks 3", Count: 3},
	}}
	got := d.get(d.base + "/api/github/audit?kind=retry&caller=tenant:acme&task=T-1&repo=acme/api&installation=7&limit=2&cursor=x")
	require.Equal(t, 200, got.status)
	require.Equal(t, object{"ok": true, "nextCursor": "c2", "audit": []any{
		object{"at": testTime.String(), "taskId": "t-1", "repo": "acme/api", "kind": "retry", "detail": "done", "caller": "tenant:acme"},
		object{"at": testTime.String(), "kind": "read", "detail": "tasks 3", "caller": "service"},
	}}, got.json(t))
	seven := int64(7)
	require.Equal(t, kv.AuditQuery{Installation: &seven, Repo: "acme/api", Kind: "retry", Caller: "tenant:acme", TaskID: "t-1", Limit: 2, Cursor: "x"}, f.query)
	require.Equal(t, []string{"local audit"}, d.audit.reads, "reading the trail is a read as well")
	f.trail = kv.AuditPage{}
	require.Equal(t, object{"ok": true, "audit": []any{}}, d.get(d.base+"/api/github/audit").json(t))
	require.Equal(t, 400, d.get(d.base+"/api/github/audit?limit=0").status)
	f.err = fmt.Errorf("audit: %w", kv.ErrCursor)
	require.Equal(t, object{"error": "parameter cursor is not one of this list"}, d.get(d.base+"/api/github/audit?cursor=zzz").json(t))
	f.err = kv.ErrUnknown
	require.Equal(t, 503, d.get(d.base+"/api/github/audit").status)
}

func TestDT100Routing(t *testing.T) {
	t.Parallel()
	d, f := sumDoor(t)
	row := func(id float64, account string) object {
		return object{
			"installationId": id, "account": account, "familiars": []any{"cody"}, "triggers": []any{"assignments", "labels", "commands", "reviews"},
			"repos": object{"allow": nil, "deny": []any{}}, "listed": false,
		}
	}
	require.Equal(t, object{"ok": true, "routing": []any{row(7, "acme"), row(8, "other"), row(9, "")}}, d.get(d.base+"/api/github/routing").json(t))
	require.Equal(t, []string{"local routing"}, d.audit.reads)
	first := d.get(d.base + "/api/github/routing?limit=2").json(t)
	require.Len(t, first["routing"], 2)
	rest := d.get(d.base + "/api/github/routing?limit=2&cursor=" + first["nextCursor"].(string)).json(t)
	require.Equal(t, object{"ok": true, "routing": []any{row(9, "")}}, rest)
	require.Equal(t, object{"ok": true, "routing": []any{row(8, "other")}}, d.get(d.base+"/api/github/routing?installation=8").json(t))
	for query, name := range map[string]string{"cursor=zz": "cursor", "repo=acme/api": "repo", "status=done": "status", "limit=x": "limit"} {
		got := d.get(d.base + "/api/github/routing?" + query)
		require.Equal(t, 400, got.status, query)
		require.Contains(t, got.json(t)["error"], name)
	}
	f.places = nil
	require.Equal(t, object{"ok": true, "routing": []any{}}, d.get(d.base+"/api/github/routing").json(t))
}

// As soon as installations are listed, the others get nothing.
func TestDT100RoutingOfListedInstallations(t *testing.T) {
	t.Parallel()
	d, _ := sumDoor(t, tenantsMode, func(o *Options) {
		o.Config = func() *github.Config {
			c := testConfig()
			c.Installations = map[int64]*github.Installation{
				7:  {Familiars: c.Familiars, Lanes: github.Lanes{Label: true}, Deny: []string{"acme/web"}},
				70: {Familiars: nil, Lanes: github.AllLanes, Reviews: true, Allow: []string{"big/*"}},
			}
			return c
		}
	})
	rows := d.as(serviceToken, http.MethodGet, "/api/github/routing").json(t)["routing"].([]any)
	none := object{"allow": []any{}, "deny": []any{}}
	require.Equal(t, []any{
		object{"installationId": 7., "account": "acme", "familiars": []any{"cody"}, "triggers": []any{"labels"}, "repos": object{"allow": nil, "deny": []any{"acme/web"}}, "listed": true},
		object{"installationId": 8., "account": "other", "familiars": []any{}, "triggers": []any{}, "repos": none, "listed": false},
		object{"installationId": 9., "account": "", "familiars": []any{}, "triggers": []any{}, "repos": none, "listed": false},
		object{"installationId": 70., "account": "", "familiars": []any{}, "triggers": []any{"assignments", "labels", "commands", "reviews"}, "repos": object{"allow": []any{"big/*"}, "deny": []any{}}, "listed": true},
	}, rows)
	api := d.as("api", http.MethodGet, "/api/github/routing").json(t)["routing"].([]any)
	require.Len(t, api, 1)
	require.Equal(t, object{"allow": []any{"Acme/API"}, "deny": []any{}}, api[0].(object)["repos"], "of what is listed it sees its own part")
}

// DT-99: of usage, audit and routing a tenant sees its own part.
func TestDT99SumsWithinAScope(t *testing.T) {
	t.Parallel()
	d, f := sumDoor(t, tenantsMode)
	seven := int64(7)
	require.Equal(t, 200, d.as("api", http.MethodGet, "/api/github/usage").status)
	require.Equal(t, view.UsageQuery{Installation: &seven, Repos: []string{"Acme/API"}, Limit: 100}, f.asked)
	require.Equal(t, 200, d.as("api", http.MethodGet, "/api/github/audit").status)
	require.Equal(t, kv.AuditQuery{Installation: &seven, Repos: []string{"Acme/API"}, Limit: 100}, f.query)
	rows := d.as("api", http.MethodGet, "/api/github/routing").json(t)["routing"].([]any)
	require.Len(t, rows, 1)
	require.Equal(t, 7., rows[0].(object)["installationId"])
	require.Equal(t, object{"allow": []any{"Acme/API"}, "deny": []any{}}, rows[0].(object)["repos"])
	f.asked.Limit, f.query.Limit = -1, -1
	for _, list := range []string{"usage", "audit", "routing"} {
		foreign := d.as("api", http.MethodGet, "/api/github/"+list+"?installation=8")
		require.Equal(t, object{"ok": true, list: []any{}}, foreign.json(t))
		require.Equal(t, foreign.text, d.as("api", http.MethodGet, "/api/github/"+list+"?installation=999").text)
	}
	require.Equal(t, -1, f.asked.Limit, "nobody is asked for another's")
	require.Equal(t, -1, f.query.Limit)
}
