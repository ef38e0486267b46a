package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/redact"
)

// The tokens of renting: the service's, and those of its tenants: all of
// installation 7, its repository acme/web, and installation 8.
const (
	serviceToken = "the-token-of-the-service"
	sevenToken   = "the-token-of-seven-0123"
	webToken     = "the-token-of-web-0123456"
	eightToken   = "the-token-of-eight-0123"
)

// renting makes a rig with tenants.
func renting(r *rig) {
	r.cfg.API = config.API{Mode: config.ModeToken, ServiceToken: serviceToken, Tenants: []config.Tenant{
		{Name: "seven", Token: sevenToken, InstallationID: 7},
		{Name: "web", Token: webToken, InstallationID: 7, Repos: []string{"Acme/Web"}},
		{Name: "eight", Token: eightToken, InstallationID: 8},
	}}
}

// as makes a request with a token.
func (r *rig) as(token, method, path, body string) answer {
	r.t.Helper()
	return r.do(method, r.app.URL()+path, body, "Authorization", "Bearer "+token, "Content-Type", "application/json")
}

// acceptFor posts an issue of an installation's repository and waits until its
// task has ended.
func (r *rig) acceptFor(installation int, repo string, number int) (id, delivery string) {
	r.t.Helper()
	body := strings.NewReplacer(`"id":7}`, fmt.Sprintf(`"id":%d}`, installation), "acme/api", repo, "Issue", "Secret of "+repo).Replace(issue(number))
	delivery = uuid.NewString()
	id = r.post("issues", delivery, body).text("task")
	require.NotEmpty(r.t, id)
	natstest.Eventually(r.t, "task "+id+" to end", func() bool {
		a := r.as(serviceToken, http.MethodGet, "/api/github/tasks/"+id, "")
		return strings.Contains(a.body, `"status":"done"`)
	})
	return id, delivery
}

// known is what a request may name.
type known struct {
	task, delivery, outbox, repo string
	installation                 int
}

// probe is a request of a route, as it names something.
type probe func(k known) (path, body string)

func path(format string) probe {
	return func(k known) (string, string) {
		return strings.NewReplacer("TASK", k.task, "DELIVERY", k.delivery, "OUTBOX", k.outbox, "REPO", k.repo, "INST", fmt.Sprint(k.installation)).Replace(format), "{}"
	}
}

// with is the probe with a body, which names things as the path does.
func (p probe) with(body string) probe {
	return func(k known) (string, string) {
		at, _ := p(k)
		text, _ := path(body)(k)
		return at, text
	}
}

// probes are the requests of every route under /api that asks for a token. A
// route that is added has to be added here.
var probes = map[string][]probe{
	"GET /api/github/tasks":                   {path("/api/github/tasks"), path("/api/github/tasks?installation=INST"), path("/api/github/tasks?repo=REPO&status=done")},
	"GET /api/github/tasks/{id}":              {path("/api/github/tasks/TASK")},
	"GET /api/github/tasks/{id}/log":          {path("/api/github/tasks/TASK/log"), path("/api/github/tasks/TASK/log?attempt=1"), path("/api/github/tasks/TASK/log?attempt=9")},
	"POST /api/github/tasks/{id}/retry":       {path("/api/github/tasks/TASK/retry")},
	"POST /api/github/tasks/{id}/cancel":      {path("/api/github/tasks/TASK/cancel")},
	"GET /api/github/outbox":                  {path("/api/github/outbox"), path("/api/github/outbox?task=TASK"), path("/api/github/outbox?installation=INST"), path("/api/github/outbox?repo=REPO")},
	"POST /api/github/outbox/{id}/resolve":    {path("/api/github/outbox/OUTBOX/resolve").with(`{"as":"failed","reason":"x"}`)},
	"POST /api/events":                        {path("/api/events").with(`{"streamId":"TASK","type":"x","id":"e9"}`)},
	"POST /api/control/pause":                 {path("/api/control/pause").with(`{"installation":INST}`), path("/api/control/pause")},
	"POST /api/control/resume":                {path("/api/control/resume").with(`{"installation":INST}`), path("/api/control/resume")},
	"GET /api/github/deliveries":              {path("/api/github/deliveries"), path("/api/github/deliveries?installation=INST"), path("/api/github/deliveries?repo=REPO")},
	"GET /api/github/deliveries/{id}":         {path("/api/github/deliveries/DELIVERY")},
	"POST /api/github/deliveries/{id}/replay": {path("/api/github/deliveries/DELIVERY/replay")},
	"GET /api/github/explain/{id}":            {path("/api/github/explain/TASK"), path("/api/github/explain/DELIVERY")},
	"GET /api/github/usage":                   {path("/api/github/usage"), path("/api/github/usage?installation=INST"), path("/api/github/usage?repo=REPO")},
	"GET /api/github/audit":                   {path("/api/github/audit?task=TASK"), path("/api/github/audit?installation=INST"), path("/api/github/audit?repo=REPO")},
	"GET /api/github/routing":                 {path("/api/github/routing?installation=INST")},
}

// apiRoutes walks over every route that the public listener has under /api.
func (r *rig) apiRoutes() []string {
	r.t.Helper()
	var out []string
	require.NoError(r.t, chi.Walk(r.app.http.Public().(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if strings.HasPrefix(route, "/api/") {
			out = append(out, method+" "+strings.TrimSuffix(route, "/"))
		}
		return nil
	}))
	return out
}

// DT-99, on every route there is: what belongs to another tenant answers as
// what does not exist, word for word, and changes by nothing that is asked.
func TestDT99EveryRouteKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	r := newRig(t, renting, calling(rc)).start()
	id, delivery := r.acceptFor(7, "acme/api", 41)
	mine, _ := r.acceptFor(8, "other/x", 42)
	theirs := known{id, delivery, id + "-0", "acme/api", 7}
	nobody := known{uuid.NewString(), uuid.NewString(), uuid.NewString() + "-0", "none/such", 999}
	require.Equal(t, 202, r.as(serviceToken, http.MethodPost, "/api/events", `{"streamId":"`+id+`","type":"secret","id":"e1"}`).status)
	natstest.Eventually(t, "the reply to be recorded", func() bool {
		return strings.Contains(r.as(sevenToken, http.MethodGet, "/api/github/outbox?task="+id, "").body, id)
	})
	before := r.as(serviceToken, http.MethodGet, "/api/github/tasks/"+id, "").body

	seen := 0
	for _, route := range r.apiRoutes() {
		if strings.HasPrefix(strings.SplitN(route, " ", 2)[1], "/api/operator/") {
			for _, token := range []string{serviceToken, sevenToken, ""} {
				method, at, _ := strings.Cut(route, " ")
				require.NotEqual(t, http.StatusOK, r.as(token, method, strings.ReplaceAll(at, "{id}", nobody.task), "{}").status, route)
			}
			continue
		}
		list, ok := probes[route]
		require.True(t, ok, "route %s is new: say in probes how it is asked for", route)
		seen++
		method, _, _ := strings.Cut(route, " ")
		for _, p := range list {
			at, body := p(theirs)
			for _, token := range []string{"", "wrong", sevenToken[1:]} {
				a := r.as(token, method, at, body)
				require.Equal(t, http.StatusUnauthorized, a.status, at)
				require.JSONEq(t, `{"ok":false,"error":"unauthorized"}`, a.body, at)
			}
			for name, token := range map[string]string{"eight": eightToken, "web": webToken} {
				no := nobody
				if name == "web" {
					no.installation = 7 // its own, of which it sees nothing
				}
				foreign := r.as(token, method, at, body)
				atNobody, bodyNobody := p(no)
				unknown := r.as(token, method, atNobody, bodyNobody)
				require.Equal(t, unknown.status, foreign.status, "%s %s", name, at)
				require.Equal(t, unknown.body, foreign.body, "%s %s", name, at)
				require.NotEqual(t, http.StatusServiceUnavailable, foreign.status)
				for _, secret := range []string{id, delivery, "acme/api", "Secret of acme", `"e1"`} {
					require.NotContains(t, foreign.body, secret, "%s %s", name, at)
				}
				require.Equal(t, http.StatusOK, r.as(token, http.MethodGet, "/api/github/tasks", "").status, "it is let in all the same")
			}
			if method == http.MethodGet { // the probes do name something
				require.Contains(t, []int{200, 404}, r.as(sevenToken, method, at, body).status)
				require.Equal(t, r.as(serviceToken, method, at, body).status, r.as(sevenToken, method, at, body).status, at)
			}
		}
	}
	require.Len(t, probes, seen, "each route of probes is there")
	require.Equal(t, before, r.as(serviceToken, http.MethodGet, "/api/github/tasks/"+id, "").body, "nothing changed")
	require.Contains(t, r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body, "belay_pauses 0")
	require.Contains(t, r.as(eightToken, http.MethodGet, "/api/github/tasks", "").body, mine)
	require.Contains(t, r.as(sevenToken, http.MethodGet, "/api/github/tasks/"+id+"/log", "").body, "acme/api")
}

// DT-99: within its scope a tenant acts, and what it did and was refused is in
// stream AUDIT under its name, beside what it read in a minute, counted.
func TestDT99TenantsActAndAreAudited(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	r := newRig(t, renting, func(r *rig) {
		r.opts.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}).start()
	id, _ := r.acceptFor(7, "ACME/web", 1)
	require.Equal(t, http.StatusAccepted, r.as(webToken, http.MethodPost, "/api/github/tasks/"+id+"/retry", "{}").status, "letter case aside")
	require.Equal(t, http.StatusAccepted, r.as(webToken, http.MethodPost, "/api/events", `{"streamId":"`+id+`","type":"progress","id":"e1"}`).status)
	require.Equal(t, http.StatusUnauthorized, r.as(webToken, http.MethodPost, "/api/control/pause", `{"installation":7}`).status, "it sees a part only")
	require.Equal(t, http.StatusUnauthorized, r.as(sevenToken, http.MethodPost, "/api/control/pause", `{}`).status)
	require.Equal(t, http.StatusUnauthorized, r.as(sevenToken, http.MethodPost, "/api/control/pause", `{"installation":8}`).status)
	require.Equal(t, http.StatusOK, r.as(sevenToken, http.MethodPost, "/api/control/pause", `{"installation":7}`).status)
	require.Equal(t, http.StatusOK, r.as(sevenToken, http.MethodPost, "/api/control/resume", `{"installation":7}`).status)
	for range 3 {
		require.Equal(t, http.StatusOK, r.as(webToken, http.MethodGet, "/api/github/tasks", "").status)
	}
	ahead.Store(int64(2 * time.Minute))
	require.Equal(t, http.StatusOK, r.as(serviceToken, http.MethodGet, "/api/github/tasks", "").status, "what a minute counted is stored when it is over")

	trail, err := r.app.js.Stream(t.Context(), kv.StreamAudit)
	require.NoError(t, err)
	last := func(subject string) (e kv.AuditEntry) {
		t.Helper()
		natstest.Eventually(t, subject, func() bool {
			m, err := trail.GetLastMsgForSubject(t.Context(), subject)
			return err == nil && json.Unmarshal(m.Data, &e) == nil
		})
		return e
	}
	for subject, want := range map[string]kv.AuditEntry{
		"audit.retry.7":  {Kind: "retry", Caller: "tenant:web", InstallationID: 7, Repo: "ACME/web", Detail: "done"},
		"audit.event.7":  {Kind: "event", Caller: "tenant:web", InstallationID: 7, Repo: "ACME/web", Detail: "progress e1 to " + id},
		"audit.pause.7":  {Kind: "pause", Caller: "tenant:seven", InstallationID: 7, Detail: "one installation"},
		"audit.resume.7": {Kind: "resume", Caller: "tenant:seven", InstallationID: 7, Detail: "one installation"},
	} {
		got := last(subject)
		require.Equal(t, want, kv.AuditEntry{Kind: got.Kind, Caller: got.Caller, InstallationID: got.InstallationID, Repo: got.Repo, Detail: got.Detail}, subject)
	}
	read := last("audit.read.7")
	require.Equal(t, "tenant:web", read.Caller)
	require.Contains(t, read.Detail, "tasks 3")
	require.Contains(t, last("audit.denied").Detail, "POST /api/control/pause")

	entries := func(token, query string) (out []struct{ Kind, Caller, Repo string }) {
		var page struct {
			Audit []struct{ Kind, Caller, Repo string }
		}
		a := r.as(token, http.MethodGet, "/api/github/audit?limit=1000"+query, "")
		require.Equal(t, http.StatusOK, a.status, a.body)
		require.NoError(t, json.Unmarshal([]byte(a.body), &page))
		return page.Audit
	}
	require.NotEmpty(t, entries(serviceToken, "&kind=denied&caller=tenant:web"))
	for _, e := range entries(webToken, "") {
		require.Equal(t, "ACME/web", e.Repo, "%v", e)
	}
	require.NotEmpty(t, entries(webToken, "&kind=retry"))
	require.NotEmpty(t, entries(sevenToken, "&kind=read&caller=tenant:web"))
	require.Empty(t, entries(sevenToken, "&kind=denied"))
	require.Empty(t, entries(eightToken, "&kind=retry"))
	for _, token := range []string{serviceToken, sevenToken, webToken, eightToken} {
		require.NotContains(t, r.log.String(), token)
	}
}

// DT-102: once an installation was deleted, no route shows anything of it any
// more, not even to the service; only the audit trail knows that it was there,
// and the log that it went.
func TestDT102NothingOfADeletedInstallationCanBeRead(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	r := newRig(t, renting, calling(rc)).start()
	id, delivery := r.acceptFor(7, "acme/api", 41)
	other, _ := r.acceptFor(8, "other/x", 42)
	require.Equal(t, 202, r.as(serviceToken, http.MethodPost, "/api/events", `{"streamId":"`+id+`","type":"secret","id":"e1"}`).status)
	get := func(path string) answer { return r.as(serviceToken, http.MethodGet, path, "") }
	natstest.Eventually(t, "the reply to be recorded", func() bool { return strings.Contains(get("/api/github/outbox").body, id) })

	const gone = "11111111-0000-4000-8000-000000000001"
	a := r.post("installation", gone, `{"action":"deleted","installation":{"id":7,"account":{"login":"acme"}},"sender":{"login":"octocat"}}`)
	require.Equal(t, "installation_deleted", a.text("ignored"), a.body)
	natstest.Eventually(t, "the purge to be audited", func() bool { return strings.Contains(get("/api/github/audit?kind=uninstalled").body, "installation 7") })
	natstest.Eventually(t, "the read model to follow", func() bool {
		return get("/api/github/tasks/"+id).status == http.StatusGone && !strings.Contains(get("/api/github/outbox").body, id)
	})
	theirs := known{id, delivery, id + "-0", "acme/api", 7}
	for route, list := range probes {
		method, _, _ := strings.Cut(route, " ")
		if strings.HasSuffix(route, "/audit") || strings.HasPrefix(route, "POST /api/control/") || route == "POST /api/events" {
			continue
		}
		for _, p := range list {
			at, body := p(theirs)
			for _, token := range []string{serviceToken, sevenToken} {
				a := r.as(token, method, at, body)
				if strings.HasSuffix(route, "/explain/{id}") { // it says that there is a tombstone of the id that it was asked for
					a.body = strings.ReplaceAll(a.body, id, "")
				}
				for _, secret := range []string{id, delivery, "acme", `"e1"`} {
					require.NotContains(t, a.body, secret, "%s %s", method, at)
				}
			}
		}
	}
	require.Contains(t, get("/api/github/deliveries/"+gone).body, "installation_deleted")
	require.Equal(t, http.StatusNotFound, get("/api/github/deliveries/"+delivery).status)
	require.NotContains(t, get("/api/github/usage").body, `"installationId":7`)
	require.NotContains(t, get("/api/github/routing").body, `"installationId":7`)
	require.Contains(t, get("/api/github/tasks").body, other, "of others everything stays")
}

// X04: no name of the configuration becomes a label: a thousand tenants, each
// of which is let in once and refused once, add no series.
func TestX04TenantsAreNoLabels(t *testing.T) {
	t.Parallel()
	r := newRig(t, renting, func(r *rig) {
		for i := range 1000 {
			r.cfg.API.Tenants = append(r.cfg.API.Tenants, config.Tenant{
				Name: fmt.Sprintf("customer-%d", i), Token: redact.Secret(fmt.Sprintf("the-token-of-customer-%d", i)), InstallationID: int64(100 + i),
			})
		}
	}).start()
	metrics := func() string { return r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body }
	ask := func(i int) {
		token := fmt.Sprintf("the-token-of-customer-%d", i)
		require.Equal(t, http.StatusOK, r.as(token, http.MethodGet, "/api/github/tasks", "").status)
		require.Equal(t, http.StatusUnauthorized, r.as(token, http.MethodPost, "/api/control/pause", "{}").status)
	}
	ask(0)
	before := strings.Count(metrics(), "\n")
	for i := range 1000 {
		ask(i)
	}
	after := metrics()
	require.Contains(t, after, "belay_api_denials_total 1001\n")
	require.NotContains(t, after, "customer-")
	require.InDelta(t, before, strings.Count(after, "\n"), 5, "what Go and the process themselves add")
}
