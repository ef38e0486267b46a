package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRules has one row for each rule: a file that breaks it, and the line
// that must say so.
func TestRules(t *testing.T) {
	t.Parallel()
	rows := map[string]struct{ text, want string }{
		"unknown section":         {"[servr]\na = 1\n", "line 1: servr: unknown section: did you mean server?"},
		"unknown list":            {"[[callbaks]]\na = 1\n", "callbaks: unknown section: did you mean callbacks?"},
		"unknown at top":          {"listen = \"a\"\n", "line 1: listen: unknown key: did you mean server.listen?"},
		"key of another section":  {"[storage]\nname = 1\n", "storage.name: unknown key: did you mean worker.name?"},
		"section is a value":      {"server = 1\n", "server: is not a section"},
		"string for bool":         {"[server]\nallow_public = \"yes\"\n", `server.allow_public = "yes": is not true or false`},
		"string for number":       {"[worker]\nconcurrency = \"4\"\n", `worker.concurrency = "4": is not a whole number`},
		"fraction":                {"[worker]\nconcurrency = 1.5\n", "worker.concurrency = 1.5: is not a whole number"},
		"number for duration":     {"[worker]\ntimeout = 600\n", "worker.timeout = 600: is not a duration in quotes"},
		"bad duration":            {"[worker]\ntimeout = \"10 min\"\n", `worker.timeout = "10 min": is not a duration`},
		"zero duration":           {"[worker]\ntimeout = \"0s\"\n", `worker.timeout = "0s": is shorter than 1s`},
		"negative duration":       {"[worker]\ndrain_timeout = \"-1s\"\n", "worker.drain_timeout"},
		"zero concurrency":        {"[worker]\nconcurrency = 0\n", "worker.concurrency = 0: is less than 1"},
		"negative retries":        {"[worker]\nmax_retries = -1\n", "worker.max_retries = -1: is less than 0"},
		"zero days":               {"[storage]\ntask_retention_days = 0\n", "storage.task_retention_days = 0: is less than 1"},
		"too many replicas":       {"[nats]\nreplicas = 7\n", "nats.replicas = 7: is more than 5"},
		"negative app":            {"[github]\napp_id = -1\n", "github.app_id = -1: is less than 0"},
		"list of numbers":         {"[github]\nwebhook_secrets = [1]\n", "github.webhook_secrets: is not a list of strings"},
		"address without port":    {"[server]\nlisten = \"127.0.0.1\"\n", `server.listen = "127.0.0.1": is not host:port`},
		"address with a name":     {"[server]\nlisten = \"127.0.0.1:http\"\n", "server.listen"},
		"one address twice":       {"[server]\nadmin_listen = \"127.0.0.1:3000\"\n", "is the address of server.listen"},
		"public and open":         {"[server]\nlisten = \"0.0.0.0:3000\"\n", "lets others reach an API"},
		"public and open, short":  {"[server]\nlisten = \":3000\"\n", "lets others reach an API"},
		"empty dir":               {"[storage]\ndir = \"\"\n", "storage.dir"},
		"deliveries before tasks": {"[storage]\ntask_retention_days = 91\n", "storage.delivery_retention_days = 90: is less than storage.task_retention_days = 91"},
		"ids before deliveries":   {"[storage]\ndedupe_days = 89\n", "storage.dedupe_days = 89: is less than storage.delivery_retention_days = 90"},
		"nats address":            {"[nats]\nurl = \"nats.example\"\n[github]\nwebhook_secrets = [\"0123456789abcdef\"]\n", "nats.url"},
		"both kinds of nats":      {"[nats]\nurl = \"nats://a:4222\"\nconfig = \"c\"\n", "nats.config"},
		"creds when embedded":     {"[nats]\ncreds_file = \"c\"\n", "nats.creds_file"},
		"cert without key":        {"[nats]\nurl = \"tls://a:4222\"\ntls_cert = \"c\"\n", "nats.tls_cert"},
		"no secret, shared nats":  {"[nats]\nurl = \"nats://a:4222\"\n", "github.webhook_secrets: are not set"},
		"key without app":         {"[github]\nprivate_key_file = \"k\"\n", "github.app_id"},
		"app without key":         {"[github]\napp_id = 3\n", "github.private_key_file"},
		"api address":             {"[github]\napi_url = \"api.github.com\"\n", "github.api_url"},
		"empty secret":            {"[github]\nwebhook_secrets = [\"\"]\n", "github.webhook_secrets: has an empty secret"},
		"placeholder":             {"[github]\nwebhook_secrets = [\"ChangeMe\"]\n", "github.webhook_secrets: has a placeholder"},
		"placeholder in brackets": {"[api]\nmode = \"token\"\nservice_token = \"[set]\"\n", "api.service_token: has a placeholder"},
		"token mode, no token":    {"[api]\nmode = \"token\"\n", "api.mode = \"token\": needs a token"},
		"unknown mode":            {"[api]\nmode = \"closed\"\n", `api.mode = "closed": is not one of open, token`},
		"two places for a token":  {"[api]\nservice_token = \"0123456789abcdef\"\nservice_token_file = \"f\"\n", "api.service_token_file: is set beside api.service_token"},
		"missing secret file":     {"[github]\nwebhook_secret_files = [\"/nonexistent/s\"]\n", `github.webhook_secret_files = "/nonexistent/s": no such file or directory`},
		"run_as":                  {"[worker]\nrun_as = \"root; rm\"\n", "worker.run_as"},
		"unknown reviewer":        {"[review]\nfamiliar = \"dora\"\n", `review.familiar = "dora": is not a familiar: write one of: cody`},
		"duplicate id":            {"[[familiars]]\nid = \"Cody\"\nbot_username = \"x[bot]\"\n", "is already that of familiars["},
		"duplicate login":         {"[[familiars]]\nid = \"x\"\nbot_username = \"CODY[bot]\"\n", "give each familiar its own bot_username"},
		"no id":                   {"[[familiars]]\nbot_username = \"x[bot]\"\n", "familiars[0].id: is not set"},
		"id with a dot":           {"[[familiars]]\nid = \"a.b\"\nbot_username = \"x[bot]\"\n", `familiars[0].id = "a.b"`},
		"no login":                {"[[familiars]]\nid = \"x\"\n", "familiars[0].bot_username: is not set"},
		"login with a blank":      {"[[familiars]]\nid = \"x\"\nbot_username = \"a b\"\n", "familiars[0].bot_username"},
		"empty command":           {"[[familiars]]\nid = \"x\"\nbot_username = \"x[bot]\"\ncommand = [\"\"]\n", "familiars[0].command"},
		"empty label":             {"[[familiars]]\nid = \"x\"\nbot_username = \"x[bot]\"\ntrigger_labels = [\"\"]\n", "familiars[0].trigger_labels"},
		"bad variable":            {"[[familiars]]\nid = \"x\"\nbot_username = \"x[bot]\"\nenv = { \"A-B\" = \"1\" }\n", `familiars[0].env = "A-B"`},
		"env of numbers":          {"[[familiars]]\nid = \"x\"\nbot_username = \"x[bot]\"\nenv = { A = 1 }\n", "familiars[0].env: is not a table of strings"},
		"unknown familiar key":    {"[[familiars]]\nid = \"x\"\nbot_username = \"x[bot]\"\ntriger_labels = []\n", "line 4: familiars[0].triger_labels: unknown key: did you mean familiars.trigger_labels?"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, strings.Join(problemsOf(t, row.text+minimal), "\n"), row.want)
		})
	}
}

func TestNoFamiliars(t *testing.T) {
	t.Parallel()
	require.Contains(t, problemsOf(t, "[server]\n")[0], "familiars: there is none")
	require.Contains(t, problemsOf(t, "familiars = 1\n")[0], "familiars: is not a list")
	require.Contains(t, problemsOf(t, "familiars = [1]\n")[0], "familiars[0]: is not a familiar")
}

func TestFamiliarLines(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, minimal+"[[familiars]]\nid = \"second\"\nbot_username = \"s[bot]\"\ntimeout = \"x\"\n")
	require.Equal(t, []string{`line 8: familiars[1].timeout = "x": is not a duration: write a duration of at least 1s, such as "90s", "10m" or "1h30m"`}, got)
}

func TestPublicIsAllowedWithATokenOrAFlag(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"[server]\nlisten = \"0.0.0.0:3000\"\nallow_public = true\n",
		"[server]\nlisten = \"0.0.0.0:3000\"\n[api]\nmode = \"token\"\nservice_token = \"0123456789abcdef\"\n",
		"[server]\nlisten = \"[::1]:3000\"\n",
		"[server]\nlisten = \"localhost:0\"\nadmin_listen = \"localhost:0\"\n",
	} {
		_, err := load(t, text+minimal)
		require.NoError(t, err, text)
	}
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, minimal, "BELAY_WORKER_CONCURENCY=3")
	require.Equal(t, []string{"BELAY_WORKER_CONCURENCY: unknown variable: did you mean BELAY_WORKER_CONCURRENCY?"}, got)
	_, err := load(t, minimal, "BELAY_TOKEN=x", "BELAY_NATS_PASSWORD=x", "BELAY_NATS_SERVICE_HOST=10.0.0.1",
		"BELAY_NATS_PORT=tcp://10.0.0.1:4222", "BELAY_NATS_PORT_4222_TCP_ADDR=10.0.0.1", "BELAYWORKER_X=1", "PATH=/bin")
	require.NoError(t, err)
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	one, two, empty := file("one", " first-long-secret\n"), file("two", "second-long-secret"), file("empty", "\n")
	c, err := load(t, minimal, "BELAY_GITHUB_WEBHOOK_SECRET_FILES="+one+","+two, "BELAY_API_SERVICE_TOKEN_FILE="+one)
	require.NoError(t, err)
	require.Len(t, c.GitHub.WebhookSecrets, 2)
	require.Equal(t, "first-long-secret", c.GitHub.WebhookSecrets[0].Reveal())
	require.Equal(t, "second-long-secret", c.GitHub.WebhookSecrets[1].Reveal())
	require.Equal(t, "first-long-secret", c.API.ServiceToken.Reveal())

	c, err = load(t, "[api]\nservice_token_file = \"/nonexistent\"\n"+minimal, "BELAY_API_SERVICE_TOKEN=from-the-environment")
	require.NoError(t, err, "the environment wins over the file's file")
	require.Equal(t, "from-the-environment", c.API.ServiceToken.Reveal())

	require.Contains(t, problemsOf(t, minimal, "BELAY_API_SERVICE_TOKEN_FILE="+empty)[0], "is empty")
}

func TestProblemsNeverShowSecrets(t *testing.T) {
	t.Parallel()
	text := "[github]\nwebhook_secrets = \"hunter2hunter2\"\n[api]\nservice_token = [\"hunter2hunter2\"]\n" +
		"[nats]\nurl = \"http://me:hunter2hunter2@nats:4222\"\n" +
		"[[familiars]]\nid = \"x\"\nbot_username = \"x[bot]\"\nenv = [\"hunter2hunter2\"]\n"
	got := strings.Join(problemsOf(t, text), "\n")
	require.Contains(t, got, "github.webhook_secrets")
	require.Contains(t, got, "api.service_token")
	require.Contains(t, got, "nats.url")
	require.NotContains(t, got, "hunter2")
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"lisen", "listen", 1}, {"ab", "ba", 2}} {
		require.Equal(t, row.want, distance(row.a, row.b), "%s %s", row.a, row.b)
	}
}
