package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

// tenants is an [api] with one tenant, without problems.
const tenants = "[api]\nmode = \"token\"\nservice_token = \"the-service-token-0123\"\n" +
	"[[api.tenants]]\nname = \"acme\"\ntoken = \"the-token-of-acme-0123\"\ninstallation_id = 7\nrepos = [\"acme/api\"]\n"

func TestDT99TenantsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	path := write(t, "the-token-of-file-0123\n")
	c, err := load(t, tenants+"[[api.tenants]]\ntoken_file = \""+path+"\"\ninstallation_id = 8\n"+minimal)
	require.NoError(t, err)
	require.Equal(t, []Tenant{
		{Name: "acme", Token: "the-token-of-acme-0123", InstallationID: 7, Repos: []string{"acme/api"}},
		{Name: "installation-8", Token: "the-token-of-file-0123", TokenFile: path, InstallationID: 8},
	}, c.API.Tenants)
	text := printed(t, c)
	require.NotContains(t, text, "0123")
	require.Contains(t, text, "[[api.tenants]]\nname = \"acme\" # file\ntoken = \"[set]\" # file\n")
	require.Contains(t, text, "name = \"installation-8\" # default\ntoken = \"[unset]\" # default\ntoken_file = ")

	c, err = load(t, tenants+"[[api.tenants]]\ninstallation_id = 8\n"+minimal,
		"BELAY_API_TENANTS_ACME_TOKEN=another-token-of-acme", "BELAY_API_TENANTS_INSTALLATION_8_TOKEN_FILE="+path, "BELAY_API_TENANTS_ACME_REPOS=acme/a,acme/b")
	require.NoError(t, err)
	require.Equal(t, redact.Secret("another-token-of-acme"), c.API.Tenants[0].Token)
	require.Equal(t, []string{"acme/a", "acme/b"}, c.API.Tenants[0].Repos)
	require.Equal(t, redact.Secret("the-token-of-file-0123"), c.API.Tenants[1].Token)

	c, err = load(t, strings.Replace(tenants, "service_token = \"the-service-token-0123\"\n", "", 1)+minimal)
	require.NoError(t, err, "a service token is not needed beside tenants'")
	require.Empty(t, c.API.ServiceToken)
}

// TestDT99TenantRules has one row for each rule about tenants.
func TestDT99TenantRules(t *testing.T) {
	t.Parallel()
	change := func(from, to string) string { return strings.Replace(tenants, from, to, 1) }
	second := func(token string) string {
		return tenants + "[[api.tenants]]\nname = \"two\"\ntoken = \"" + token + "\"\ninstallation_id = 8\n"
	}
	rows := map[string]struct{ text, want string }{
		"open mode":        {change(`"token"`, `"open"`), `line 2: api.mode = "open": asks for no token, so nothing would keep tenants apart: set mode = "token" under [api]`},
		"not a list":       {"[api]\ntenants = \"x\"\n", "api.tenants: is not a list of api.tenants: write [[api.tenants]]"},
		"unknown key":      {change("repos =", "repo ="), "line 8: api.tenants[0].repo: unknown key: did you mean "},
		"no installation":  {change("installation_id = 7\n", ""), "api.tenants[0].installation_id: is not the id of an installation"},
		"installation 0":   {change("= 7", "= 0"), "line 7: api.tenants[0].installation_id: is not the id of an installation: write the number"},
		"negative":         {change("= 7", "= -7"), "line 7: api.tenants[0].installation_id: is not the id"},
		"in quotes":        {change("= 7", `= "7"`), `line 7: api.tenants[0].installation_id = "7": is not a whole number`},
		"name with a dot":  {change(`"acme"`, `"a.b"`), `line 5: api.tenants[0].name = "a.b": is not a valid name`},
		"one name twice":   {strings.Replace(second("the-token-of-two-01234"), `"two"`, `"ACME"`, 1), `line 10: api.tenants[1].name = "ACME": is already that of api.tenants[0]`},
		"unnamed twice":    {strings.Replace(strings.ReplaceAll(strings.ReplaceAll(second("the-token-of-two-01234"), "name = \"two\"\n", ""), "name = \"acme\"\n", ""), "= 8", "= 7", 1), `api.tenants[1].name = "installation-7": is already that of api.tenants[0]`},
		"no token":         {change("token = \"the-token-of-acme-0123\"\n", ""), "api.tenants[0].token: is not set: set token or token_file"},
		"empty token":      {change("the-token-of-acme-0123", ""), "line 6: api.tenants[0].token: has an empty secret"},
		"placeholder":      {change("the-token-of-acme-0123", "changeme"), "line 6: api.tenants[0].token: has a placeholder"},
		"short token":      {change("the-token-of-acme-0123", "fifteen-letters"), "line 6: api.tenants[0].token: has a token of 15 characters, at least 16 are needed"},
		"blank in a token": {change("the-token-of-acme-0123", "the token of acme 0123"), "line 6: api.tenants[0].token: has a token with a blank in it"},
		"service token":    {change("the-token-of-acme-0123", "the-service-token-0123"), "line 6: api.tenants[0].token: has the token of api.service_token: give each its own"},
		"one token twice":  {second("the-token-of-acme-0123"), "line 11: api.tenants[1].token: has the token of api.tenants[0]: give each its own"},
		"beside its file":  {tenants + "token_file = \"f\"\n", "api.tenants[0].token_file: is set beside api.tenants[0].token"},
		"missing file":     {change("token = \"the-token-of-acme-0123\"", "token_file = \"/nonexistent/t\""), `line 6: api.tenants[0].token_file = "/nonexistent/t": no such file`},
		"no repos":         {change(`["acme/api"]`, "[]"), "line 8: api.tenants[0].repos: is empty, so the token would see nothing"},
		"half a repo":      {change(`"acme/api"`, `"api"`), `line 8: api.tenants[0].repos = "api": is not a repository: write owner/name`},
	}
	for name, r := range rows {
		got := problemsOf(t, r.text+minimal)
		require.Len(t, got, 1, "%s: %v", name, got)
		require.Contains(t, got[0], r.want, name)
		require.NotContains(t, got[0], "0123", name)
	}
}
