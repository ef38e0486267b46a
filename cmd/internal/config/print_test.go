package config

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func printed(t *testing.T, c *Config) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, c.Print(&b))
	return b.String()
}

func TestPrintNamesOriginsAndHidesSecrets(t *testing.T) {
	t.Parallel()
	c, err := load(t, "[github]\nwebhook_secrets = [\"hunter2hunter2\", \"hunter3hunter3\"]\n[worker]\ntimeout = \"1h\"\n"+
		minimal+"env = { KEY = \"hunter4\", EMPTY = \"\" }\n",
		"BELAY_API_SERVICE_TOKEN=hunter5hunter5", "BELAY_NATS_URL=nats://u:hunter6@n:4222", "BELAY_SERVER_LISTEN=127.0.0.1:1")
	require.NoError(t, err)
	text := printed(t, c)
	require.NotContains(t, text, "hunter")
	for _, line := range []string{
		`listen = "127.0.0.1:1" # env BELAY_SERVER_LISTEN`,
		`admin_listen = "127.0.0.1:9464" # default`,
		`timeout = "1h" # file`,
		`drain_timeout = "20s" # default`,
		`webhook_secrets = ["[set]", "[set]"] # file`,
		`service_token = "[set]" # env BELAY_API_SERVICE_TOKEN`,
		`url = "nats://[redacted]@n:4222" # env BELAY_NATS_URL`,
		`env = { EMPTY = "[unset]", KEY = "[set]" } # file`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Contains(t, printed(t, Default("")), `webhook_secrets = ["[unset]"] # default`)
}

func TestPrintIsTOMLAgain(t *testing.T) {
	t.Parallel()
	const nasty = "a \"b\" \\ \x1b[31m\n\t\u2028 é"
	c, err := load(t, minimal)
	require.NoError(t, err)
	c.Familiars[0].Env = nil
	c.Review.AuditInstruction = nasty
	text := printed(t, c)
	require.NotContains(t, text, "\x1b")
	text = regexp.MustCompile(`(?m)^(webhook_secrets|marker_secrets|private_key|service_token) = .*\n`).ReplaceAllString(text, "")
	again, err := load(t, text)
	require.NoError(t, err)
	require.Equal(t, nasty, again.Review.AuditInstruction)
	require.Equal(t, c.Worker, again.Worker)
	require.Equal(t, c.Storage, again.Storage)
	require.Equal(t, c.Familiars[0].ID, again.Familiars[0].ID)
}

func TestPrintedSecretsAreNoSecrets(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, "[github]\nwebhook_secrets = [\"[set]\"]\n"+minimal)
	require.Contains(t, got[0], "has a placeholder")
}

// comments matches a key of the example that is commented out.
var comments = regexp.MustCompile(`(?m)^# ([a-z_0-9.]+ = )`)

func TestExampleCoversEveryKey(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	section := ""
	for line := range strings.SplitSeq(Example, "\n") {
		if m := regexp.MustCompile(`^(?:# )?\[+([a-z.]+)\]+$`).FindStringSubmatch(line); m != nil {
			section = m[1]
		}
		if m := regexp.MustCompile(`^(# )?([a-z_0-9.]+) = `).FindStringSubmatch(line); m != nil {
			have[section+"."+m[2]] = true
		}
	}
	for _, key := range knownKeys() {
		require.True(t, have[key], "example.toml does not have %s", key)
		delete(have, key)
	}
	require.Empty(t, have, "example.toml has keys that do not exist")
}

func TestExampleLoads(t *testing.T) {
	t.Parallel()
	c, err := load(t, Example)
	require.NoError(t, err, "as it is")
	plain, err := load(t, minimal)
	require.NoError(t, err)
	require.Equal(t, plain.Worker, c.Worker, "what is not commented out is the default")
	require.Equal(t, plain.Storage, c.Storage)
	require.Equal(t, plain.Review, c.Review)
	require.Equal(t, plain.Server, c.Server)

	all := comments.ReplaceAllString(Example, "$1")
	all = regexp.MustCompile(`(?m)^# (\[\[(callbacks|installations|rules|sources|operator\.keys|api\.tenants)\]\])$`).ReplaceAllString(all, "$1")
	all = regexp.MustCompile(`(?m)^(config|private_key|[a-z_]*secret_files|service_token_file|bearer_file|secret_file|token_file) = .*\n`).ReplaceAllString(all, "")
	all = strings.Replace(all, `mode = "open"`, `mode = "token"`, 1)
	c, err = load(t, all)
	require.NoError(t, err, "with every key but those that exclude another")
	require.Len(t, c.NATSURLs(), 2)
	require.Equal(t, "/opt/tool", c.Familiars[0].Env["TOOL_HOME"].Reveal())
	require.Equal(t, "ci", c.Familiars[0].Callback)
	require.Equal(t, 10*time.Second, c.Callbacks[0].Timeout)
	require.Equal(t, "worker", c.Operator.Keys[0].ID)
	require.Equal(t, "branch", c.Rules[0].Supersede)
	require.EqualValues(t, 234567, c.Sources[0].AppID)
	require.Equal(t, "acme", c.Operator.Tenants["acme/site"])
	require.Equal(t, Limits{MaxConcurrent: 2, MaxTasksPerDay: 200}, c.Installations[0].Limits)
}
