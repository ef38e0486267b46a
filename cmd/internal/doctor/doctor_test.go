package doctor

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
)

// healthy is a configuration without findings, with its data in dir.
func healthy(dir string) string {
	return `
[storage]
dir = "` + dir + `"
[github]
webhook_secrets = ["0123456789abcdef0123"]
[api]
mode = "token"
service_token = "0123456789abcdef4567"
[[familiars]]
id = "cody"
bot_username = "cody[bot]"
trigger_labels = ["cody"]
command = ["run", "--in", "{brief}", "--out", "{result}"]
`
}

// quiet answers every question about the machine in favour.
func quiet() Options {
	return Options{
		LookPath:   func(name string) (string, error) { return name, nil },
		Filesystem: func(string) string { return "" },
		Full:       func(string) int { return 0 },
		LookupUser: func(string) error { return nil },
		UID:        func() int { return 0 },
	}
}

// check runs doctor on a configuration.
func check(t *testing.T, text string, o Options) Findings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "belay.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	cfg, err := config.Load(path, nil)
	var e *config.Error
	if errors.As(err, &e) {
		o.Problems = e.Problems
	} else {
		require.NoError(t, err)
	}
	o.Config = cfg
	return Check(context.Background(), o)
}

func dataDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}

func file(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

// only wants one finding, with a next step.
func only(t *testing.T, got Findings, field string, s Severity, message string) {
	t.Helper()
	require.Len(t, got, 1, "%v", got)
	require.Equal(t, field, got[0].Field)
	require.Equal(t, s, got[0].Severity)
	require.Contains(t, got[0].Message, message)
	require.NotEmpty(t, got[0].Next)
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	got := check(t, healthy(dataDir(t)), quiet())
	require.Empty(t, got)
	require.Equal(t, 0, got.ExitCode())
	require.Empty(t, check(t, healthy(filepath.Join(t.TempDir(), "a", "b")), quiet()), "a folder that can be made is well")
}

// TestFindings has one row for each check that a text of a configuration
// alone can break.
func TestFindings(t *testing.T) {
	t.Parallel()
	open := strings.NewReplacer(`"token"`, `"open"`, "service_token = \"0123456789abcdef4567\"\n", "")
	missing := filepath.Join(t.TempDir(), "no-such-file")
	rows := map[string]struct {
		from, to       string
		field, message string
		severity       Severity
	}{
		"no labels":          {`["cody"]`, `[]`, "familiars[0].trigger_labels", "there are none", Warning},
		"login of a user":    {`"cody[bot]"`, `"cody"`, "familiars[0].bot_username", "does not end in [bot]", Warning},
		"no command":         {`command = ["run", "--in", "{brief}", "--out", "{result}"]`, ``, "familiars[0].command", "there is none", Warning},
		"no brief":           {`"{brief}"`, `"x"`, "familiars[0].command", "{brief}", Warning},
		"short secret":       {`0123456789abcdef0123`, `0123456789`, "github.webhook_secrets[0]", "shorter than 16", Warning},
		"short token":        {`0123456789abcdef4567`, `0123456789`, "api.service_token", "shorter than 16", Warning},
		"token, but open":    {`"token"`, `"open"`, "api.service_token", "open mode", Warning},
		"open token file":    {"", "[[api.tenants]]\ninstallation_id = 7\ntoken_file = \"" + file(t, "0123456789abcdef89ab", 0o644) + "\"\n", "api.tenants[0].token_file", "", Warning},
		"tenant, not listed": {"", "[[installations]]\nid = 8\n[[api.tenants]]\ninstallation_id = 7\ntoken = \"0123456789abcdef89ab\"\n", "api.tenants[0].installation_id", "installation 7 is not listed", Warning},
		"admin for all":      {"[storage]", "[server]\nadmin_listen = \"0.0.0.0:9464\"\n[storage]", "server.admin_listen", "0.0.0.0:9464", Warning},
		"rule":               {"[storage]", "[worker]\nconcurrency = 0\n[storage]", "worker.concurrency", "line 3: 0 is less than 1", Error},
		"label twice":        {"", "[[familiars]]\nid = \"b\"\nbot_username = \"b[bot]\"\ntrigger_labels = [\"cody\"]\ncommand = [\"x\", \"{brief}{result}\"]\n", "familiars[1].trigger_labels", `"cody" is already`, Warning},
		"missing key":        {"[github]", "[github]\napp_id = 1\nprivate_key_file = \"" + missing + "\"", "github.private_key_file", "cannot be read", Error},
		"missing nats":       {"[storage]", "[nats]\nconfig = \"" + missing + "\"\n[storage]", "nats.config", "cannot be read", Error},
		"one replica":        {"[storage]", "[nats]\nurl = \"nats://a:4222\"\n[storage]", "nats.replicas", "one server only", Warning},
		"missing creds":      {"[storage]", "[nats]\nurl = \"nats://a:4222\"\nreplicas = 3\ncreds_file = \"" + missing + "\"\n[storage]", "nats.creds_file", "cannot be read", Error},
		"unsynced cluster":   {"[storage]", "[nats]\nurl = \"nats://a:4222\"\nreplicas = 3\n[storage]", "nats.url", "sync_interval", Warning},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(healthy(dataDir(t)), row.from, row.to, 1)
			if row.from == "" {
				text = healthy(dataDir(t)) + row.to
			}
			for _, f := range check(t, text, quiet()) {
				require.NotEmpty(t, f.Next)
				if f.Field == row.field && f.Severity == row.severity && strings.Contains(f.Message, row.message) {
					return
				}
			}
			t.Fatalf("no finding for %s: %v", row.field, check(t, text, quiet()))
		})
	}
	only(t, check(t, open.Replace(healthy(dataDir(t))), quiet()), "api.mode", Warning, "every process and user of this host")
	public := "[server]\nlisten = \"0.0.0.0:3000\"\nallow_public = true\n" + open.Replace(healthy(dataDir(t)))
	only(t, check(t, public, quiet()), "api.mode", Warning, "everybody who reaches 0.0.0.0:3000")
}

func TestCommandIsLookedUp(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.LookPath = func(name string) (string, error) { return "", os.ErrNotExist }
	only(t, check(t, healthy(dataDir(t)), o), "familiars[0].command", Error, "run is not found in $PATH")
}

func TestRunAs(t *testing.T) {
	t.Parallel()
	text := "[worker]\nrun_as = \"nobody-here\"\n" + healthy(dataDir(t))
	o := quiet()
	o.LookupUser = func(string) error { return errors.New("unknown user") }
	only(t, check(t, text, o), "worker.run_as", Error, "no user")
	o = quiet()
	o.UID = func() int { return 1000 }
	only(t, check(t, text, o), "worker.run_as", Error, "only root")
}

func TestStorage(t *testing.T) {
	t.Parallel()
	only(t, check(t, healthy(file(t, "", 0o600)), quiet()), "storage.dir", Error, "is a file")
	only(t, check(t, healthy(filepath.Join(file(t, "", 0o600), "data")), quiet()), "storage.dir", Error, "not a directory")
	o := quiet()
	o.Filesystem = func(string) string { return "tmpfs" }
	only(t, check(t, healthy(dataDir(t)), o), "storage.dir", Warning, "tmpfs")
	loose := dataDir(t)
	require.NoError(t, os.Chmod(loose, 0o755))
	only(t, check(t, healthy(loose), quiet()), "storage.dir", Warning, "every user")
	dir := dataDir(t)
	require.Empty(t, check(t, healthy(dir), quiet()))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "the probe is gone")
}

func TestWorkspaceDir(t *testing.T) {
	t.Parallel()
	text := "[worker]\nworkspace_dir = \"" + file(t, "", 0o600) + "\"\n" + healthy(dataDir(t))
	only(t, check(t, text, quiet()), "worker.workspace_dir", Error, "is a file")
}

func TestFilesystemOfThisMachine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "", filesystem("/nonexistent"))
	require.Equal(t, "", filesystem("/proc"), "known, but not volatile by name")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	good := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	with := func(path string) string {
		return strings.Replace(healthy(dataDir(t)), "[github]", "[github]\napp_id = 1\nprivate_key_file = \""+path+"\"", 1)
	}
	require.Empty(t, check(t, with(file(t, good, 0o600)), quiet()))
	only(t, check(t, with(file(t, "not a key", 0o600)), quiet()), "github.private_key_file", Warning, "does not look like PEM")
	only(t, check(t, with(file(t, "", 0o600)), quiet()), "github.private_key_file", Error, "is empty")
	only(t, check(t, with(file(t, good, 0o644)), quiet()), "github.private_key_file", Warning, "mode 0644")
}

func TestSecretFilesArePrivate(t *testing.T) {
	t.Parallel()
	text := strings.Replace(healthy(dataDir(t)), `webhook_secrets = ["0123456789abcdef0123"]`,
		`webhook_secret_files = ["`+file(t, "0123456789abcdef0123", 0o640)+`"]`, 1)
	only(t, check(t, text, quiet()), "github.webhook_secret_files", Warning, "mode 0640")
}

func TestNoFindingShowsASecret(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("0123456789abcdef0123", "hunter2", "0123456789abcdef4567", "hunter3").Replace(healthy(dataDir(t)))
	var b strings.Builder
	got := check(t, text, quiet())
	require.NoError(t, got.WriteText(&b))
	require.NoError(t, got.WriteJSON(&b))
	require.Contains(t, b.String(), "github.webhook_secrets[0]")
	require.NotContains(t, b.String(), "hunter")
}

func TestOutput(t *testing.T) {
	t.Parallel()
	fs := Findings{{"config", "a.b", Error, "is wrong", "mend it"}, {"disk", "c", Warning, "is odd", ""}}
	require.Equal(t, 1, fs.ExitCode())
	require.Equal(t, 0, fs[1:].ExitCode())
	var b strings.Builder
	require.NoError(t, fs.WriteText(&b))
	require.Equal(t, "error: a.b: is wrong\n  next: mend it\nwarning: c: is odd\n1 errors, 1 warnings\n", b.String())
	b.Reset()
	require.NoError(t, Findings(nil).WriteText(&b))
	require.Equal(t, "all well\n", b.String())
	b.Reset()
	require.NoError(t, fs.WriteJSON(&b))
	var got struct {
		OK       bool
		Findings []map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(b.String()), &got))
	require.False(t, got.OK)
	require.Equal(t, map[string]string{"check": "config", "field": "a.b", "severity": "error", "message": "is wrong", "next": "mend it"}, got.Findings[0])
}
