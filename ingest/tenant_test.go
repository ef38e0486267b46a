package ingest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/view"
)

// tenantsMode knows the service and three tenants: all of installation 7, its
// repository acme/api, and installation 8. A tenant's token is its name.
func tenantsMode(o *Options) {
	seven, eight := int64(7), int64(8)
	tenant := func(name string, sc Scope) Tenant {
		return Tenant{Name: name, Token: sha256.Sum256([]byte(name)), Scope: sc}
	}
	o.Access = func() Access {
		return Access{
			Mode: ModeToken, ServiceToken: sha256.Sum256([]byte(serviceToken)),
			Tenants: []Tenant{
				tenant("seven", Scope{Installation: &seven}),
				tenant("api", Scope{&seven, []string{"Acme/API"}}),
				tenant("eight", Scope{Installation: &eight}),
			},
		}
	}
}

// as makes a request with a token.
func (d *door) as(token, method, path string) answered {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.base+path, http.NoBody)
	require.NoError(d.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	return d.do(req)
}

func TestDT99TokensNameTheirCallers(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t, tenantsMode)
	seven, eight := int64(7), int64(8)
	for _, c := range []struct {
		token string
		want  Caller
	}{
		{serviceToken, Caller{Name: "service"}},
		{"seven", Caller{"tenant:seven", Scope{Installation: &seven}}},
		{"api", Caller{"tenant:api", Scope{&seven, []string{"Acme/API"}}}},
		{"eight", Caller{"tenant:eight", Scope{Installation: &eight}}},
	} {
		require.Equal(t, 200, d.as(c.token, http.MethodGet, "/api/github/tasks").status, c.token)
		require.Equal(t, view.Query{Installation: c.want.Scope.Installation, Repos: c.want.Scope.Repos, Limit: 100}, f.query, c.token)
		require.Equal(t, c.want.Name+" tasks", d.audit.reads[len(d.audit.reads)-1])
	}
	for _, token := range []string{"", "sevens", "seve", "SEVEN", "seven eight", "tenant:seven"} {
		require.Equal(t, 401, d.as(token, http.MethodGet, "/api/github/tasks").status, token)
	}
	require.Equal(t, 200, d.as("api", http.MethodGet, "/api/github/tasks/t-1").status, "the letter case of a repository's name tells none apart")
	require.Equal(t, 404, d.as("eight", http.MethodGet, "/api/github/tasks/t-1").status)
	require.Equal(t, 202, d.as("api", http.MethodPost, "/api/github/tasks/t-1/retry").status)
	require.Equal(t, kv.AuditEntry{
		Kind: AuditRetry, Caller: "tenant:api", InstallationID: 7, Repo: "acme/api", TaskID: "t-1", DeliveryID: "d-1", Detail: "done",
	}, d.audit.entries[0])
}

// Of every token there is, all are compared: one that comes first or last, or
// fits none, takes the same way. The rule is in the code's form; what can be
// seen is that none hides another.
func TestDT99AllOfManyTokensCount(t *testing.T) {
	t.Parallel()
	const n = 1000
	a := Access{Mode: ModeToken}
	for i := range n {
		inst := int64(i + 1)
		a.Tenants = append(a.Tenants, Tenant{Name: fmt.Sprint(i), Token: sha256.Sum256(fmt.Appendf(nil, "token-%d", i)), Scope: Scope{Installation: &inst}})
	}
	require.NoError(t, a.check())
	for i := range n {
		c, ok := a.caller(fmt.Sprintf("token-%d", i))
		require.True(t, ok)
		require.Equal(t, fmt.Sprintf("tenant:%d", i), c.Name)
		require.EqualValues(t, i+1, c.Scope.installation())
	}
	for _, token := range []string{"", "token-", "token-1000"} {
		c, ok := a.caller(token)
		require.False(t, ok, token)
		require.Zero(t, c)
	}
}

func TestDT99AccessIsChecked(t *testing.T) {
	t.Parallel()
	seven := int64(7)
	whole := Tenant{Name: "a", Token: sha256.Sum256([]byte("a")), Scope: Scope{Installation: &seven}}
	require.NoError(t, (&Access{Mode: ModeToken, Tenants: []Tenant{whole}}).check(), "no service token is needed beside tenants'")
	for name, a := range map[string]Access{
		"open":            {Mode: ModeOpen, Tenants: []Tenant{whole}},
		"nobody":          {Mode: ModeToken},
		"no name":         {Mode: ModeToken, Tenants: []Tenant{{Token: whole.Token, Scope: whole.Scope}}},
		"no token":        {Mode: ModeToken, Tenants: []Tenant{{Name: "a", Scope: whole.Scope}}},
		"no installation": {Mode: ModeToken, Tenants: []Tenant{{Name: "a", Token: whole.Token}}},
	} {
		require.Error(t, a.check(), name)
	}
}

// A cursor is good for the list, the filters and the tenant that it was given
// to, and for nobody else.
func TestDT99CursorsAreTheirTenants(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t, tenantsMode)
	f.page.Next, f.next = "AAAA", "BBBB"
	const tasks = "/api/github/tasks"
	cursor := func(token, path string) string {
		c, _ := d.as(token, http.MethodGet, path).json(t)["nextCursor"].(string)
		return c
	}
	seven := cursor("seven", tasks)
	require.Equal(t, 200, d.as("seven", http.MethodGet, tasks+"?limit=5&cursor="+seven).status)
	require.Equal(t, "AAAA", f.query.Cursor)
	require.Equal(t, seven, cursor("seven", tasks), "the same each time, on each process")
	require.Equal(t, "AAAA", cursor(serviceToken, tasks))
	require.Equal(t, 200, d.as(serviceToken, http.MethodGet, tasks+"?cursor=AAAA").status)
	f.query = view.Query{}
	for _, c := range []struct{ token, path, cursor string }{
		{"eight", tasks, seven},
		{"api", tasks, seven},
		{"seven", tasks, cursor("api", tasks)},
		{"seven", tasks, "AAAA"},
		{"seven", tasks, seven[:len(seven)-4]},
		{"seven", tasks + "?repo=acme/api", seven},
		{"seven", tasks, cursor("seven", tasks+"?status=done")},
		{"seven", "/api/github/deliveries", seven},
		{"eight", "/api/github/deliveries", cursor("seven", "/api/github/deliveries")},
	} {
		f.query.Limit, f.asked.Limit = -1, -1
		at := "?cursor="
		if c.path != tasks && c.path != "/api/github/deliveries" {
			at = "&cursor="
		}
		got := d.as(c.token, http.MethodGet, c.path+at+c.cursor)
		require.Equal(t, 400, got.status, "%v", c)
		require.Equal(t, object{"error": "parameter cursor is not one of this list"}, got.json(t))
		require.Equal(t, -1, f.query.Limit, "nothing was read: %v", c)
		require.Equal(t, -1, f.asked.Limit)
	}
}

// A tenant that wants to change what is another's, or nobody's, gets one
// answer; that it tried is in the trail.
func TestDT99MissesAreAudited(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t, tenantsMode)
	for _, path := range []string{"/api/github/tasks/t-1/retry", "/api/github/tasks/t-9/retry", "/api/github/tasks/t-1/cancel"} {
		require.Equal(t, object{"error": "unknown task"}, d.as("eight", http.MethodPost, path).json(t))
		require.Equal(t, "POST "+path+" tenant:eight", d.audit.denied[len(d.audit.denied)-1])
	}
	require.Len(t, d.audit.denied, 3)
	require.Equal(t, 404, d.as(serviceToken, http.MethodPost, "/api/github/tasks/t-9/retry").status)
	require.Len(t, d.audit.denied, 3, "the service only made a mistake")
	require.Empty(t, f.commands)
	require.Equal(t, "0", d.metric("belay_api_denials_total"), "those count what is answered 401")
}

// What is not the caller's is looked for as what is not there: the same calls
// of the stores, so it takes as long, and the same words.
func TestDT99ForeignIsLikeUnknown(t *testing.T) {
	t.Parallel()
	d, f := apiDoor(t, tenantsMode)
	calls := func(path string) (answered, kv.DeliveryQuery) {
		f.asked = kv.DeliveryQuery{}
		got := d.as("eight", http.MethodGet, path)
		got.header.Del("Date")
		return got, f.asked
	}
	for _, path := range []string{"/api/github/tasks/%s", "/api/github/tasks/%s/log", "/api/github/deliveries/%s"} {
		foreign, asked := calls(fmt.Sprintf(path, "t-1"))
		unknown, askedToo := calls(fmt.Sprintf(path, "t-9"))
		require.Equal(t, 404, foreign.status, path)
		require.Equal(t, unknown, foreign, path)
		require.Equal(t, askedToo, asked, path)
		require.EqualValues(t, 8, *asked.Installation, "within the scope: %s", path)
	}
	f.getErr = kv.ErrUnknown
	got, _ := calls("/api/github/tasks/t-1")
	require.Equal(t, 404, got.status, "the record of another is not even read")
}
