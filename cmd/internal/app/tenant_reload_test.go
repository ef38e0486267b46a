package app

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
)

// DT-99: a reload brings tenants in, changes their scope and locks them out,
// from the next request on.
func TestDT99ReloadChangesTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t, renting).start()
	id, _ := r.acceptFor(7, "acme/api", 1)
	status := func(token string) int { return r.as(token, http.MethodGet, "/api/github/tasks/"+id, "").status }
	const late = "the-token-of-late-012345"
	require.Equal(t, []int{200, 404, 401}, []int{status(sevenToken), status(eightToken), status(late)})
	r.reload(func(c *config.Config) {
		c.API.Tenants = slices.Clone(c.API.Tenants)[:2] // eight is out
		c.API.Tenants[0].InstallationID = 8
		c.API.Tenants = append(c.API.Tenants, config.Tenant{Name: "late", Token: late, InstallationID: 7})
	})
	require.Equal(t, []int{404, 401, 200}, []int{status(sevenToken), status(eightToken), status(late)})
}

// DT-100: the routing that is shown is that of the configuration in force, with
// the accounts that it names, and what is not listed gets nothing.
func TestDT100RoutingIsTheOneInForce(t *testing.T) {
	t.Parallel()
	r := newRig(t, renting).start()
	r.acceptFor(7, "acme/api", 1)
	rows := func(token string) string { return r.as(token, http.MethodGet, "/api/github/routing", "").body }
	all := `"triggers":["assignments","labels","commands"]`
	require.JSONEq(t, `{"ok":true,"routing":[{"installationId":7,"account":"acme","familiars":["belay"],`+all+`,"repos":{"allow":null,"deny":[]},"listed":false}]}`, rows(serviceToken))
	r.reload(func(c *config.Config) {
		on := config.Triggers{Assignments: true, Labels: true, Commands: true, Reviews: true}
		c.Installations = []config.Installation{{ID: 8, Account: "Other Inc", Triggers: on, Repos: config.Repos{Deny: []string{"other/y"}}}}
	})
	eight := `{"installationId":8,"account":"Other Inc","familiars":["belay"],` + all + `,"repos":{"allow":null,"deny":["other/y"]},"listed":true}`
	seven := `{"installationId":7,"account":"acme","familiars":[],"triggers":[],"repos":{"allow":[],"deny":[]},"listed":false}`
	require.JSONEq(t, `{"ok":true,"routing":[`+seven+`,`+eight+`]}`, rows(serviceToken))
	require.JSONEq(t, `{"ok":true,"routing":[`+eight+`]}`, rows(eightToken))
	require.JSONEq(t, `{"ok":true,"routing":[`+seven+`]}`, rows(sevenToken))
}
