package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

// minimal is the shortest file without problems.
const minimal = `
[[familiars]]
id = "cody"
bot_username = "cody[bot]"
`

// write puts a file into a folder of the test.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "belay.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// load reads a text and an environment.
func load(t *testing.T, text string, environ ...string) (*Config, error) {
	t.Helper()
	return Load(write(t, text), environ)
}

// problemsOf returns the problems of a text, as lines.
func problemsOf(t *testing.T, text string, environ ...string) []string {
	t.Helper()
	c, err := load(t, text, environ...)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.NotNil(t, c, "doctor looks on at what was understood")
	var out []string
	for _, p := range e.Problems {
		require.NotEmpty(t, p.Next, "%s has no next step", p.Key)
		out = append(out, p.String())
	}
	return out
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := load(t, minimal)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, Server{Listen: "127.0.0.1:3000", AdminListen: "127.0.0.1:9464", Role: "all"}, c.Server)
	require.Equal(t, Storage{Dir: "data", TaskRetentionDays: 30, DeliveryRetentionDays: 90, DedupeDays: 365}, c.Storage)
	require.Equal(t, NATS{Replicas: 1}, c.NATS)
	require.Equal(t, GitHub{APIURL: "https://api.github.com"}, c.GitHub)
	require.Equal(t, Worker{
		Name: host, Concurrency: 4, WorkspaceDir: filepath.Join("data", "workspaces"),
		Timeout: 10 * time.Minute, MaxRetries: 2, DrainTimeout: 20 * time.Second,
	}, c.Worker)
	require.Equal(t, API{Mode: ModeOpen}, c.API)
	require.Equal(t, Review{Familiar: "cody", OnSupersede: OnSupersedeFinish}, c.Review)
	require.Equal(t, []Familiar{{ID: "cody", DisplayName: "cody", BotUsername: "cody[bot]", Timeout: 10 * time.Minute}}, c.Familiars)
	require.True(t, c.Embedded())
}

func TestWithoutFile(t *testing.T) {
	t.Parallel()
	c, err := Load("", nil)
	require.NoError(t, err)
	require.Equal(t, []Familiar{{
		ID: "belay", DisplayName: "Belay", BotUsername: "belay[bot]", TriggerLabels: []string{"belay"}, Timeout: 10 * time.Minute,
	}}, c.Familiars)
	require.Equal(t, "127.0.0.1:3000", c.Server.Listen)
	require.Equal(t, c.Familiars, Default("x").Familiars)
	require.Equal(t, "x", Default("x").Storage.Dir)
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	c, err := load(t, "[worker]\nconcurrency = 7\nmax_retries = 0\n"+minimal,
		"BELAY_WORKER_CONCURRENCY=9", "BELAY_SERVER_ALLOW_PUBLIC=true", "BELAY_WORKER_TIMEOUT=90s",
		"BELAY_GITHUB_WEBHOOK_SECRETS= first-long-secret , second-long-secret ", "BELAY_GITHUB_APP_ID=5",
		"BELAY_GITHUB_PRIVATE_KEY_FILE=k.pem", "BELAY_STORAGE_DIR=")
	require.NoError(t, err)
	require.Equal(t, 9, c.Worker.Concurrency)
	require.Equal(t, 0, c.Worker.MaxRetries)
	require.Equal(t, 90*time.Second, c.Worker.Timeout)
	require.Equal(t, 90*time.Second, c.Familiars[0].Timeout)
	require.True(t, c.Server.AllowPublic)
	require.Equal(t, int64(5), c.GitHub.AppID)
	require.Equal(t, []redact.Secret{"first-long-secret", "second-long-secret"}, c.GitHub.WebhookSecrets)
	require.Equal(t, "data", c.Storage.Dir, "an empty variable is one that is not set")
	require.Equal(t, OriginFile, c.Origin("worker.max_retries"))
	require.Equal(t, Origin("env BELAY_WORKER_CONCURRENCY"), c.Origin("worker.concurrency"))
	require.Equal(t, OriginDefault, c.Origin("storage.dir"))
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	_, err := Load(filepath.Join(t.TempDir(), "no.toml"), nil)
	require.ErrorIs(t, err, ErrUnreadable)
	require.ErrorIs(t, err, os.ErrNotExist)
	for text, want := range map[string]string{
		"[server]\nlisten = 127.0.0.1:3000\n":        "line 2",
		"[server]\nlisten = \"a\"\nlisten = \"b\"\n": "already defined",
		"[server\n": "line 1",
		"[[familiars]]\nid = \"a\"\nskills = [\"go\"\n": "TOML",
	} {
		c, err := load(t, text)
		require.ErrorIs(t, err, ErrUnreadable)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
		require.Nil(t, c)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	environ := []string{"BELAY_CONFIG=env.toml"}
	require.Equal(t, "flag.toml", Find("flag.toml", environ))
	require.Equal(t, "env.toml", Find("", environ))
	require.Empty(t, Find("", nil), "the package's folder has no belay.toml")
}

func TestBlackBoxShape(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
[server]
listen = "127.0.0.1:20000"
admin_listen = "127.0.0.1:20001"
[storage]
dir = "d/data"
[nats]
config = "d/nats.conf"
[github]
webhook_secrets = ["a-long-enough-test-secret", "the-previous-secret-of-theirs"]
[worker]
concurrency = 4
[review]
familiar = "cody"
pull_request = true
[[familiars]]
id = "cody"
display_name = "Cody"
bot_username = "coven-cody[bot]"
trigger_labels = ["bug", "coven:fix"]
`)
	require.NoError(t, err)
	require.Len(t, c.GitHub.WebhookSecrets, 2)
	require.True(t, c.Review.PullRequest)
}

func TestErrorsAreReportedTogether(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, "[server]\nlisten = 3000\nlisen = \"x\"\n[worker]\nconcurrency = 0\ntimeout = \"soon\"\n"+minimal,
		"BELAY_REVIEW_ON_SUPERSEDE=stop")
	require.Len(t, got, 5)
	all := strings.Join(got, "\n")
	for _, want := range []string{
		"line 2: server.listen = 3000: is not a string",
		"line 3: server.lisen: unknown key: did you mean server.listen?",
		"line 5: worker.concurrency = 0: is less than 1",
		`line 6: worker.timeout = "soon": is not a duration`,
		`review.on_supersede ($BELAY_REVIEW_ON_SUPERSEDE) = "stop": is not one of finish, cancel`,
	} {
		require.Contains(t, all, want)
	}
	_, err := load(t, "[server]\nlisen = 1\n"+minimal)
	require.False(t, errors.Is(err, ErrUnreadable))
}
