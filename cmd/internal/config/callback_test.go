package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv/redact"
)

// Secrets of the form that Standard Webhooks have.
const (
	whsec    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw2J9Pm0aGx1c="
	whsecOld = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDaWYZqfIKcW0="
)

// ci is a callback without problems.
const ci = "[[callbacks]]\nname = \"ci\"\nurl = \"https://ci.example/hook\"\nsecrets = [\"" + whsec + "\"]\n"

func TestCallbacks(t *testing.T) {
	t.Parallel()
	c, err := load(t, minimal+"callback = \"CI-2\"\n"+ci+strings.Replace(ci, `"ci"`, `"CI-2"`, 1)+"allow_private = true\ntimeout = \"45s\"\nbearer = \"0123456789abcdef\"\n")
	require.NoError(t, err)
	require.Equal(t, []Callback{
		{Name: "ci", URL: "https://ci.example/hook", Secrets: []redact.Secret{whsec}, Timeout: 10 * time.Second},
		{Name: "CI-2", URL: "https://ci.example/hook", Secrets: []redact.Secret{whsec}, Timeout: 45 * time.Second, AllowPrivate: true, Bearer: "0123456789abcdef"},
	}, c.Callbacks)
	b, ok := c.CallbackByName(c.Familiars[0].Callback)
	require.True(t, ok)
	require.True(t, b.AllowPrivate)
	_, ok = c.CallbackByName("nobody")
	require.False(t, ok)
}

// TestOB50CallbackRules has one row for each rule about callbacks.
func TestOB50CallbackRules(t *testing.T) {
	t.Parallel()
	change := func(from, to string) string { return strings.Replace(ci, from, to, 1) }
	rows := map[string]struct{ text, want string }{
		"not a list":       {"[callbacks]\nname = \"x\"\n", "callbacks: is not a list of callbacks: write [[callbacks]], with two brackets"},
		"not a table":      {"callbacks = [1]\n", "callbacks[0]: is not a callback"},
		"unknown key":      {change("url", "uri"), "line 3: callbacks[0].uri: unknown key: did you mean callbacks.url?"},
		"no name":          {change("name = \"ci\"\n", ""), "callbacks[0].name: is not set"},
		"name with a dot":  {change(`"ci"`, `"c.i"`), `line 2: callbacks[0].name = "c.i": is not a valid name`},
		"one name twice":   {ci + change(`"ci"`, `"CI"`), `line 6: callbacks[1].name = "CI": is already that of callbacks[0]: give each callback its own name`},
		"no url":           {change("url = \"https://ci.example/hook\"\n", ""), "callbacks[0].url: is not set"},
		"no address":       {change("https://ci.example/hook", "ci.example"), "callbacks[0].url = \"ci.example\": is not an address"},
		"plain http":       {change("https", "http"), "is plain http: write https://, or set allow_private = true"},
		"ftp":              {change("https", "ftp"), "is not an https address"},
		"user":             {change("https://", "https://u:hunter2@"), `callbacks[0].url = "https://[redacted]@ci.example/hook": carries a user`},
		"fragment":         {change("/hook", "/hook#x"), "has a fragment"},
		"printed":          {change("/hook", "/hook?[redacted]"), "is what `belay config print` shows"},
		"private":          {change("ci.example", "10.1.2.3"), "callbacks[0].url = \"https://10.1.2.3/hook\": address 10.1.2.3 is denied"},
		"mapped":           {change("ci.example", "[::ffff:127.0.0.1]"), "is denied"},
		"localhost":        {change("ci.example", "LocalHost:8080"), "is this host"},
		"no secret":        {change("secrets = [\""+whsec+"\"]\n", ""), "callbacks[0].secrets: are not set: make one with `echo whsec_$(openssl rand -base64 32)`"},
		"empty secret":     {change(whsec, " "), "callbacks[0].secrets: has an empty secret"},
		"not base64":       {change(whsec, "hunter2-hunter2-hunter2"), "callbacks[0].secrets: has a secret that is not base64"},
		"short secret":     {change(whsec, "whsec_aHVudGVyMg=="), "callbacks[0].secrets: has a secret of 7 bytes, at least 24 are needed"},
		"three secrets":    {change(`"]`, `", "`+whsecOld+`", "`+whsecOld+`"]`), "callbacks[0].secrets: are 3: keep the new one"},
		"beside its file":  {ci + "secret_files = [\"f\"]\n", "callbacks[0].secret_files: is set beside callbacks[0].secrets"},
		"missing file":     {change("secrets = [\""+whsec+"\"]", "secret_files = [\"/nonexistent/s\"]"), `callbacks[0].secret_files = "/nonexistent/s": no such file`},
		"empty bearer":     {ci + "bearer = \"changeme\"\n", "callbacks[0].bearer: has a placeholder"},
		"timeout too long": {ci + "timeout = \"46s\"\n", `callbacks[0].timeout = "46s": is longer than 45s: write a duration from 1s to 45s`},
		"no timeout":       {ci + "timeout = \"0s\"\n", "is shorter than 1s"},
		"string for bool":  {ci + "allow_private = \"no\"\n", "line 5: callbacks[0].allow_private = \"no\": is not true or false"},
		"unknown callback": {ci + "[[familiars]]\nid = \"x\"\nbot_username = \"x[bot]\"\ncallback = \"cd\"\n", `line 8: familiars[0].callback = "cd": is not a callback: write one of: ci`},
		"no callbacks":     {"[[familiars]]\nid = \"x\"\nbot_username = \"x[bot]\"\ncallback = \"ci\"\n", `is not a callback: add [[callbacks]] with name = "ci"`},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := strings.Join(problemsOf(t, row.text+minimal), "\n")
			require.Contains(t, all, row.want)
			require.NotContains(t, all, "hunter2")
		})
	}
}

// What Load lets through the relay takes, and what it refuses the relay would.
func TestOB49OB50CallbackRulesAgreeWithTheRelay(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		"https://ci.example/hook", "http://ci.example/hook", "ftp://ci.example", "ci.example", "https://", "https://u@ci.example", "https://ci.example/#f", "https://ci.example?token=x", "%zz", "",
	} {
		for _, private := range []bool{false, true} {
			for _, secret := range []string{whsec, strings.TrimPrefix(whsec, "whsec_"), "whsec_aHVudGVyMg==", "no base64!", ""} {
				b := Callback{Name: "ci", URL: at, Secrets: []redact.Secret{redact.Secret(secret)}, AllowPrivate: private, Timeout: time.Second}
				c := &Config{Callbacks: []Callback{b}}
				p := &problems{}
				c.validateCallbacks(p)
				made, err := relay.NewCallback(relay.CallbackOptions{Name: b.Name, URL: b.URL, Secrets: b.Secrets, AllowPrivate: private, Timeout: b.Timeout})
				require.Equal(t, err == nil, len(p.list) == 0, "%s %v %q: %v, %v", at, private, secret, err, p.list)
				if err == nil {
					made.Close()
				}
			}
		}
	}
}

func TestListsReadTheEnvironment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(whsecOld+"\n"), 0o600))
	text := minimal + "[[familiars]]\nid = \"dora-2\"\nbot_username = \"d[bot]\"\n" + ci
	c, err := load(t, text, "BELAY_CALLBACKS_CI_SECRETS="+whsec+","+whsecOld, "BELAY_CALLBACKS_CI_URL=https://other.example",
		"BELAY_CALLBACKS_CI_TIMEOUT=3s", "BELAY_FAMILIARS_DORA_2_COMMAND=run,{brief}", "BELAY_FAMILIARS_CODY_CALLBACK=ci")
	require.NoError(t, err)
	require.Len(t, c.Callbacks[0].Secrets, 2)
	require.Equal(t, "https://other.example", c.Callbacks[0].URL)
	require.Equal(t, 3*time.Second, c.Callbacks[0].Timeout)
	require.Equal(t, []string{"run", "{brief}"}, c.Familiars[1].Command)
	require.Equal(t, "ci", c.Familiars[0].Callback)
	require.Equal(t, Origin("env BELAY_CALLBACKS_CI_URL"), c.Origin("callbacks[0].url"))

	c, err = load(t, text, "BELAY_CALLBACKS_CI_SECRET_FILES="+path)
	require.NoError(t, err, "the environment's file wins over the file's secret")
	require.Equal(t, []redact.Secret{whsecOld}, c.Callbacks[0].Secrets)

	got := problemsOf(t, text, "BELAY_CALLBACKS_CI_SECRET=x", "BELAY_CALLBACKS_CD_URL=x", "BELAY_CALLBACKS_CI_NAME=x", "BELAY_CALLBACKS_CI_ALLOW_PRIVATE=no")
	require.Len(t, got, 4)
	require.Contains(t, got[0], "callbacks[0].allow_private ($BELAY_CALLBACKS_CI_ALLOW_PRIVATE)")
	require.Equal(t, "BELAY_CALLBACKS_CI_SECRET: unknown variable: did you mean BELAY_CALLBACKS_CI_SECRETS?", got[1])
	require.Equal(t, "BELAY_CALLBACKS_CD_URL: unknown variable: did you mean BELAY_CALLBACKS_CI_URL?", got[2])
}

func TestOB51PrintHidesWhatCallbacksHold(t *testing.T) {
	t.Parallel()
	c, err := load(t, minimal+strings.Replace(ci, "/hook", "/hook?token=hunter2", 1)+"bearer = \"hunter3hunter3hunter3\"\n")
	require.NoError(t, err)
	text := printed(t, c)
	require.NotContains(t, text, "hunter")
	require.NotContains(t, text, whsec)
	for _, line := range []string{
		"[[callbacks]]", `name = "ci" # file`, `url = "https://ci.example/hook?[redacted]" # file`, `secrets = ["[set]"] # file`,
		`bearer = "[set]" # file`, `timeout = "10s" # default`, `callback = "" # default`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Contains(t, strings.Join(problemsOf(t, text), "\n"), "callbacks[0].secrets: has a secret that is not base64")
}

func TestAppKey(t *testing.T) {
	t.Parallel()
	const pem = "-----BEGIN KEY-----\nAA==\n-----END KEY-----\n"
	path := filepath.Join(t.TempDir(), "app.pem")
	require.NoError(t, os.WriteFile(path, []byte(pem), 0o600))
	for name, g := range map[string]GitHub{
		"file": {PrivateKeyFile: path}, "text": {PrivateKey: pem}, "one line": {PrivateKey: redact.Secret(strings.ReplaceAll(pem, "\n", `\n`))},
	} {
		got, err := g.AppKey()
		require.NoError(t, err, name)
		require.Equal(t, pem, string(got), name)
	}
	_, err := GitHub{PrivateKeyFile: "/nonexistent"}.AppKey()
	require.ErrorContains(t, err, "github.private_key_file")
}

func TestGitHubRules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"private_key = \"k\"\n": "github.app_id = 0: is not set, but github.private_key is",
		"app_id = 1\nprivate_key = \"k\"\nprivate_key_file = \"f\"\n":       "github.private_key_file = \"f\": is set beside github.private_key",
		"api_url = \"http://ghe.example/api/v3\"\n":                         "github.api_url = \"http://ghe.example/api/v3\": is plain http: tokens would be sent in the clear",
		"api_url = \"https://u:hunter2@ghe.example\"\n":                     "carries a user",
		"webhook_url = \"belay.example\"\n":                                 "github.webhook_url = \"belay.example\": is not an http address",
		"marker_secrets = [\"\"]\n":                                         "github.marker_secrets: has an empty secret",
		"marker_secret_files = [\"/nonexistent\"]\n":                        "github.marker_secret_files = \"/nonexistent\": no such file",
		"marker_secrets = [\"0123456789abcdef\"]\nmarker_secret_files=[]\n": "",
	} {
		if want == "" {
			_, err := load(t, "[github]\n"+text+minimal)
			require.NoError(t, err)
			continue
		}
		all := strings.Join(problemsOf(t, "[github]\n"+text+minimal), "\n")
		require.Contains(t, all, want)
		require.NotContains(t, all, "hunter2")
	}
	_, err := load(t, "[github]\napi_url = \"http://127.0.0.1:8080\"\n"+minimal)
	require.NoError(t, err, "a stand-in on loopback")
}
