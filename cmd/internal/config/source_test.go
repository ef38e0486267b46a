package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

// acme is a [[sources]] without problems.
const acme = "[[sources]]\nname = \"acme\"\napp_id = 7\nprivate_key_file = \"k\"\nwebhook_secrets = [\"0123456789abcdef0123\"]\n"

func TestSources(t *testing.T) {
	t.Parallel()
	path := write(t, "fedcba9876543210fedc\n")
	c, err := load(t, acme+"[[sources]]\nname = \"hooks\"\nwebhook_secret_files = [\""+path+"\"]\n"+minimal, "BELAY_SOURCES_ACME_WEBHOOK_URL=https://b.example/webhook/acme")
	require.NoError(t, err)
	all := c.AllSources()
	require.Len(t, all, 3)
	require.Equal(t, "default", all[0].Name)
	require.Equal(t, NamedSource{"acme", "sources[0]", GitHub{
		AppID: 7, PrivateKeyFile: "k", WebhookSecrets: []redact.Secret{"0123456789abcdef0123"}, APIURL: "https://api.github.com",
		WebhookURL: "https://b.example/webhook/acme",
	}}, all[1])
	require.Equal(t, []redact.Secret{"fedcba9876543210fedc"}, all[2].WebhookSecrets)
	require.False(t, all[2].HasApp(), "one without an App is for repository hooks")
	s, ok := c.SourceByName("hooks")
	require.True(t, ok)
	require.Equal(t, all[2], s)
	_, ok = c.SourceByName("other")
	require.False(t, ok)
	require.NotContains(t, printed(t, c), "0123456789")
}

// TestSourceRules has one row for each rule about sources.
func TestSourceRules(t *testing.T) {
	t.Parallel()
	change := func(from, to string) string { return strings.Replace(acme, from, to, 1) }
	other := strings.NewReplacer("acme", "other", "app_id = 7", "app_id = 8", "0123456789", "9876543210")
	for name, row := range map[string]struct{ text, want string }{
		"no name":             {change("name = \"acme\"\n", ""), "sources[0].name: is not set: write lower-case letters"},
		"capitals":            {change("acme", "Acme"), `line 2: sources[0].name = "Acme": is not a valid name`},
		"a hook's number":     {change("acme", "321"), `sources[0].name = "321": is not a valid name`},
		"default":             {change("acme", "default"), `sources[0].name = "default": is that of [github]: give it another name`},
		"one name twice":      {acme + strings.Replace(other.Replace(acme), "other", "acme", 1), `sources[1].name = "acme": is already that of sources[0]: give each source its own name`},
		"no secret":           {change("webhook_secrets = [\"0123456789abcdef0123\"]\n", ""), "sources[0].webhook_secrets: are not set: write those that GitHub signs with"},
		"an empty secret":     {change("0123456789abcdef0123", ""), "line 5: sources[0].webhook_secrets: has an empty secret"},
		"a placeholder":       {change("0123456789abcdef0123", "changeme"), "sources[0].webhook_secrets: has a placeholder"},
		"a missing file":      {change("webhook_secrets = [\"0123456789abcdef0123\"]", "webhook_secret_files = [\"/nonexistent/s\"]"), `sources[0].webhook_secret_files = "/nonexistent/s": no such file`},
		"a key without App":   {change("app_id = 7\n", ""), "sources[0].app_id = 0: is not set, but sources[0].private_key_file is"},
		"an App without key":  {change("private_key_file = \"k\"\n", ""), "sources[0].private_key_file: is not set, but sources[0].app_id is"},
		"both keys":           {acme + "private_key = \"x-y-z\"\n", "sources[0].private_key_file = \"k\": is set beside sources[0].private_key"},
		"plain http":          {acme + "api_url = \"http://ghes.example/api/v3\"\n", "sources[0].api_url = \"http://ghes.example/api/v3\": is plain http"},
		"no address":          {acme + "webhook_url = \"belay.example\"\n", "sources[0].webhook_url = \"belay.example\": is not an http address"},
		"one App twice":       {acme + strings.Replace(other.Replace(acme), "app_id = 8", "app_id = 7", 1), "sources[1].app_id = 7: is the App of sources[0]: give each source its own App"},
		"one secret twice":    {acme + strings.Replace(other.Replace(acme), "9876543210", "0123456789", 1), "sources[1].webhook_secrets: has a secret of sources[0] too: it would verify for both"},
		"a secret of default": {"[github]\nwebhook_secrets = [\"0123456789abcdef0123\"]\n" + acme, "sources[0].webhook_secrets: has a secret of github too"},
		"an unknown key":      {change("app_id", "appid"), "line 3: sources[0].appid: unknown key: did you mean sources.app_id?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := strings.Join(problemsOf(t, row.text+minimal), "\n")
			require.Contains(t, all, row.want)
			require.NotContains(t, all, "0123456789")
		})
	}
}

// X04: the number of sources is bounded, whatever the file has.
func TestX04SourcesAreCapped(t *testing.T) {
	t.Parallel()
	text := ""
	for i := range MaxSources {
		text += fmt.Sprintf("[[sources]]\nname = \"s%d\"\nwebhook_secrets = [\"0123456789abcdef%04d\"]\n", i, i)
	}
	_, err := load(t, text+minimal)
	require.NoError(t, err)
	require.Equal(t, []string{"sources: there are 65, and 64 are possible: run another belay for the others"}, problemsOf(t, text+acme+minimal))
}

// Secrets of a source are rotated while belay runs; its App needs a restart.
func TestSecretsOfASourceAreLive(t *testing.T) {
	t.Parallel()
	c, err := load(t, acme+minimal)
	require.NoError(t, err)
	rotated, err := load(t, strings.Replace(acme, "0123456789", "aaaaaaaaaa", 1)+minimal)
	require.NoError(t, err)
	require.Empty(t, c.RestartKeys(rotated))
	app, err := load(t, strings.Replace(acme, "app_id = 7", "app_id = 8", 1)+minimal)
	require.NoError(t, err)
	require.Equal(t, []string{"sources[0].app_id"}, c.RestartKeys(app))
	more, err := load(t, minimal)
	require.NoError(t, err)
	require.Equal(t, []string{"sources"}, c.RestartKeys(more))
}
