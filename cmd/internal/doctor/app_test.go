package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/redact"
)

// routed are the events that a familiar with a label needs.
var routed = []string{"issue_comment", "issues", "pull_request", "pull_request_review", "pull_request_review_comment"}

// asked runs doctor's online checks of an App of a stand-in.
func asked(t *testing.T, o githubtest.Options, lines string, change ...func(*githubtest.Server)) Findings {
	t.Helper()
	if o.Events == nil {
		o.Events = routed
	}
	gh, err := githubtest.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = gh.Close() })
	for _, f := range change {
		f(gh)
	}
	text := strings.Replace(healthy(dataDir(t)), "[github]", "[github]\napp_id = 4711\nprivate_key_file = \""+
		file(t, string(gh.PrivateKey()), 0o600)+"\"\napi_url = \""+gh.URL()+"\"\n"+lines, 1)
	text = strings.Replace(text, "cody[bot]", "belay-test[bot]", 1)
	opts := quiet()
	opts.App = NewApp(loaded(t, text))
	require.NotNil(t, opts.App)
	return check(t, text, opts)
}

func loaded(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Load(file(t, text, 0o600), nil)
	require.NoError(t, err)
	return c
}

func TestAppThatFits(t *testing.T) {
	t.Parallel()
	require.Empty(t, asked(t, githubtest.Options{}, "webhook_url = \"https://belay.example/webhook\""))
	more := githubtest.DefaultPermissions()
	more["metadata"] = "write"
	require.Empty(t, asked(t, githubtest.Options{Permissions: more}, ""), "more than is needed is none of our business")
	require.Nil(t, NewApp(config.Default("")), "no App, nothing to ask")
}

func TestAppThatLacksSomething(t *testing.T) {
	t.Parallel()
	few := githubtest.DefaultPermissions()
	few["contents"], few["checks"] = "read", ""
	got := asked(t, githubtest.Options{Permissions: few, Events: routed[1:]}, "")
	require.Len(t, got, 3, "%v", got)
	for i, want := range []string{"lacks the permission checks: write", "lacks the permission contents: write", "does not get the event issue_comment"} {
		require.Equal(t, "github.app_id", got[i].Field)
		require.Equal(t, Error, got[i].Severity)
		require.Contains(t, got[i].Message, want)
		require.NotEmpty(t, got[i].Next)
	}
	only(t, asked(t, githubtest.Options{Slug: "another"}, ""), "familiars", Warning, "none has the App's login, another[bot]")
}

func TestAppsWebhook(t *testing.T) {
	t.Parallel()
	only(t, asked(t, githubtest.Options{}, "webhook_url = \"https://other.example/webhook\""), "github.webhook_url", Warning, `the App's webhook goes to "https://belay.example/webhook"`)
	hook := func(url, content, insecure string) Findings {
		return asked(t, githubtest.Options{}, "", func(gh *githubtest.Server) {
			gh.SetHook(map[string]string{"url": url, "content_type": content, "insecure_ssl": insecure, "secret": "********"})
		})
	}
	only(t, hook("http://belay.example/webhook", "json", "0"), "github.webhook_url", Warning, "plain http")
	only(t, hook("https://belay.example/webhook", "form", "0"), "github.webhook_url", Warning, `as "form"`)
	only(t, hook("https://belay.example/webhook", "json", "1"), "github.webhook_url", Warning, "does not verify certificates")
	only(t, hook("", "json", "0"), "github.webhook_url", Error, "no webhook address")
}

// GitHub has no secret to sign with, or another clock than this host.
func TestAppWithoutASecretOrWithAnotherClock(t *testing.T) {
	t.Parallel()
	only(t, asked(t, githubtest.Options{}, "", func(gh *githubtest.Server) {
		gh.SetHook(map[string]string{"url": "https://belay.example/webhook", "content_type": "json", "insecure_ssl": "0"})
	}), "github.webhook_secrets", Error, "has no secret")
	o := quiet()
	o.Config = config.Default(dataDir(t))
	o.complete()
	d := &doctor{Options: o, c: o.Config}
	for skew, found := range map[time.Duration]int{0: 0, 29 * time.Second: 0, -time.Minute: 1, time.Minute: 1} {
		d.found, d.Now = nil, func() time.Time { return time.Unix(1e9, 0).Add(skew) }
		d.clock(d.c.AllSources()[0], &githubapp.AppInfo{Clock: time.Unix(1e9, 0)})
		require.Len(t, d.found, found, skew)
	}
	d.clock(d.c.AllSources()[0], &githubapp.AppInfo{})
}

func TestAppThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	late := githubtest.Options{JWTNow: func() time.Time { return time.Now().Add(time.Hour) }}
	only(t, asked(t, late, ""), "github.app_id", Error, "the App cannot be used")
	down := func(gh *githubtest.Server) { _ = gh.Close() }
	only(t, asked(t, githubtest.Options{}, "", down), "github.api_url", Warning, "GitHub does not say how the App is")
	c := config.Default("")
	c.GitHub.AppID, c.GitHub.PrivateKey = 1, "no key"
	o := quiet()
	o.Config, o.App = c, NewApp(c)
	var found bool
	for _, f := range Check(t.Context(), o) {
		found = found || f.Field == "github.app_id" && f.Severity == Error
	}
	require.True(t, found)
}

func TestRoutesInUse(t *testing.T) {
	t.Parallel()
	c := config.Default("")
	require.Equal(t, githubapp.Routes{Assignment: true, Label: true, Command: true}, Routes(c))
	c.Familiars[0].TriggerLabels, c.Review.PullRequest = nil, true
	require.Equal(t, githubapp.Routes{Assignment: true, Command: true, Review: true}, Routes(c))
	c.Rules = []config.Rule{{Event: "push"}, {Event: "release"}, {Event: "push"}}
	require.Equal(t, []string{"push", "release"}, Routes(c).Rules)
}

// The Apps of further sources are asked too, and what is found stands under
// their keys.
func TestAppsOfFurtherSources(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.Config = config.Default(dataDir(t))
	o.Config.Sources = []config.Source{{Name: "acme", AppID: 7, WebhookSecrets: []redact.Secret{"short"}}}
	gh, err := githubtest.New(githubtest.Options{AppID: 7})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gh.Close()) })
	gh.SetHook(map[string]string{"url": "https://belay.example/webhook/acme", "content_type": "json", "insecure_ssl": "0"})
	o.Config.Sources[0].APIURL, o.Config.Sources[0].PrivateKey = gh.URL(), redact.Secret(gh.PrivateKey())
	o.Apps = NewApps(o.Config)
	require.Len(t, o.Apps, 1)
	found := map[string]bool{}
	for _, f := range Check(t.Context(), o) {
		found[f.Field+" "+f.Message] = true
	}
	require.Contains(t, found, "sources[0].webhook_secrets[0] it is shorter than 16 characters")
	require.Contains(t, found, "sources[0].webhook_secrets the App's webhook has no secret: GitHub signs nothing, and every delivery is answered 401")
}
