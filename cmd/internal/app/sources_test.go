package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/redact"
)

const acmeSecret = "another-long-enough-secret"

// withAcme adds the source acme, of the App of a stand-in, and one for hooks
// that have no App.
func withAcme(gh *githubtest.Server) func(*rig) {
	return func(r *rig) {
		r.cfg.Sources = []config.Source{
			{
				Name: "acme", AppID: gh.AppID(), PrivateKeyFile: r.file("acme.pem", string(gh.PrivateKey())), APIURL: gh.URL(),
				WebhookSecrets: []redact.Secret{acmeSecret},
			},
			{Name: "hooks", WebhookSecrets: []redact.Secret{acmeSecret + "-2"}},
		}
	}
}

// to posts a webhook to a source, signed with its secret.
func (r *rig) to(source, secret, event, body string) answer {
	r.t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	a := r.do(http.MethodPost, r.app.URL()+"/webhook/"+source, body, "Content-Type", "application/json", "X-GitHub-Event", event,
		"X-GitHub-Delivery", uuid.NewString(), "X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	require.Equal(r.t, http.StatusOK, a.status, a.body)
	return a
}

// twoApps is a second GitHub, with an App and an installation 8 of its own.
func twoApps(t *testing.T) (first, second *githubtest.Server) {
	t.Helper()
	first = stand(t)
	second, err := githubtest.New(githubtest.Options{Key: appKey(), AppID: 4712, Slug: "acme-app"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Close()) })
	second.AddInstallation(8, "acme")
	second.AddRepo(8, githubtest.Repo{ID: 99, Owner: "acme", Name: "api"})
	second.AddIssue(99, githubtest.Issue{Number: 1, Title: "Issue 1", Login: "octocat"})
	return first, second
}

// Two Apps in one belay: each answers for the tasks of its source and touches
// nothing of the other's; a source without an App shows nothing.
func TestTwoAppsInOneBelay(t *testing.T) {
	t.Parallel()
	first, second := twoApps(t)
	r := newRig(t, onGitHub(first), withAcme(second))
	r.command(succeed)
	r.start()
	mine := r.accept(1)
	theirs := r.to("acme", acmeSecret, "issues", of(8, issue(1))).text("task")
	bare := r.to("hooks", acmeSecret+"-2", "issues", of(0, issue(1))).text("task")
	for _, id := range []string{mine, theirs, bare} {
		r.await(id, "done")
	}
	require.Len(t, first.Checks(99), 1)
	require.Equal(t, mine, first.Checks(99)[0].ExternalID)
	require.Len(t, second.Checks(99), 1)
	require.Equal(t, theirs, second.Checks(99)[0].ExternalID)
	require.Len(t, first.Comments(99, 1), 1)
	require.Len(t, second.Comments(99, 1), 1)
	require.Equal(t, "acme-app[bot]", second.Comments(99, 1)[0].Login)

	metrics := r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body
	require.Contains(t, metrics, `belay_github_requests_total{effect="create",outcome="ok",source="acme"} `)
	require.Contains(t, metrics, `belay_github_requests_total{effect="create",outcome="ok",source="default"} `)

	// G28: each knows its own login.
	natstest.Eventually(t, "the logins", func() bool {
		return r.app.source("acme").Config.AppLogin == second.Login() && r.app.source("default").Config.AppLogin == first.Login()
	})
	require.Empty(t, r.app.source("hooks").Config.AppLogin)
	require.Equal(t, "self", r.to("acme", acmeSecret, "issue_comment", of(8, commented(1, second.Login(), "@belay fix it"))).text("ignored"))
	require.NotEqual(t, "self", r.post("issue_comment", uuid.NewString(), commented(1, second.Login(), "@belay fix it")).text("ignored"))
}

// What an ended task shows is closed through the outbox by its own source's App.
func TestItsOwnAppClosesATask(t *testing.T) {
	t.Parallel()
	first, second := twoApps(t)
	r := newRig(t, onGitHub(first), withAcme(second))
	r.command(gated)
	r.start()
	id := r.to("acme", acmeSecret, "issues", of(8, issue(1))).text("task")
	natstest.Eventually(t, "what it shows", func() bool { return len(second.Checks(99)) == 1 && len(second.Comments(99, 1)) == 1 })
	require.Equal(t, http.StatusOK, r.act(id, "cancel").status)
	natstest.Eventually(t, "both to be closed", func() bool {
		return second.Checks(99)[0].Conclusion == "neutral" && strings.Contains(second.Comments(99, 1)[0].Body, "Cancelled")
	})
	require.Len(t, r.outbox("?task="+id), 2)
	require.Empty(t, first.Checks(99))
}

// An installation is the first source's: another one neither makes tasks for
// it nor ends it. Its own source does.
func TestOnlyItsSourceUninstalls(t *testing.T) {
	t.Parallel()
	first, second := twoApps(t)
	r := newRig(t, onGitHub(first), withAcme(second)).start()
	theirs := r.to("acme", acmeSecret, "issues", of(8, issue(1))).text("task")
	r.await(theirs, "done")
	gone := `{"action":"deleted","installation":{"id":8},"sender":{"login":"octocat"}}`
	require.Equal(t, "foreign_installation", r.post("installation", uuid.NewString(), gone).text("ignored"))
	require.Equal(t, "foreign_installation", r.post("issues", uuid.NewString(), of(8, issue(2))).text("ignored"))
	r.restart()
	require.Equal(t, "foreign_installation", r.post("issues", uuid.NewString(), of(8, issue(2))).text("ignored"), "over restarts")
	mine := r.accept(1) // admitted after them, so that they had their time
	r.await(mine, "done")
	require.Equal(t, "done", r.task(theirs).Status)

	require.Equal(t, "installation_deleted", r.to("acme", acmeSecret, "installation", gone).text("ignored"))
	natstest.Eventually(t, "the task to be gone", func() bool { return r.get("/api/github/tasks/"+theirs).status == http.StatusGone })
	require.Equal(t, "done", r.task(mine).Status)
}

// One source alone asks nobody whose an installation is.
func TestOneSourceKeepsNoOwners(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	r.await(r.accept(1), "done")
	s, err := r.app.js.KeyValue(t.Context(), "STATE")
	require.NoError(t, err)
	_, err = s.Get(t.Context(), "installation.7")
	require.Error(t, err)
}

// The secret of a source is rotated while belay runs.
func TestReloadOfASource(t *testing.T) {
	t.Parallel()
	_, second := twoApps(t)
	r := newRig(t, withAcme(second)).start()
	r.to("acme", acmeSecret, "star", of(8, `{"action":"created","installation":{"id":7}}`))
	r.reload(func(c *config.Config) {
		c.Sources = append([]config.Source(nil), c.Sources...)
		c.Sources[0].WebhookSecrets = []redact.Secret{"a-new-and-long-enough-secret"}
	})
	r.to("acme", "a-new-and-long-enough-secret", "star", of(8, `{"action":"created","installation":{"id":7}}`))
}
