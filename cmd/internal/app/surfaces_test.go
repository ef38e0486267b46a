package app

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/natstest"
)

// appKey is one key for all tests: making one takes longer than most of them.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// stand is a stand-in of GitHub with the repository of the tests.
func stand(t *testing.T) *githubtest.Server {
	t.Helper()
	gh, err := githubtest.New(githubtest.Options{Key: appKey()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gh.Close()) })
	gh.AddInstallation(7, "acme")
	gh.AddRepo(7, githubtest.Repo{ID: 99, Owner: "acme", Name: "api"})
	gh.AddIssue(99, githubtest.Issue{Number: 1, Title: "Issue 1", Login: "octocat"})
	gh.AddPull(99, githubtest.Pull{Number: 3, Title: "PR", Login: "octocat", Branch: "f", HeadSHA: fmt.Sprintf("%040s", "a1")})
	gh.SetBranch(99, "belay/fix", githubtest.SHA("fix"))
	return gh
}

// onGitHub configures an App of a stand-in.
func onGitHub(gh *githubtest.Server) func(*rig) {
	return func(r *rig) {
		r.cfg.GitHub.AppID, r.cfg.GitHub.APIURL = gh.AppID(), gh.URL()
		r.cfg.GitHub.PrivateKeyFile = r.file("app.pem", string(gh.PrivateKey()))
		r.cfg.Worker.WorkspaceDir = shortDir(r.t)
		r.opts.GitHubSleep = hurry
	}
}

// shortDir is a folder in which a socket's path is short enough.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// hurry makes no pause between requests to GitHub.
func hurry(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// fixes is a script that ends with commits on a branch.
var fixes = strings.NewReplacer(
	`"commits":[]`, `"branch":"belay/fix","commits":[{"sha":"a1b2c3d","message":"Fix"}]`, "all done", "mended",
).Replace(succeed)

// TestX06TheTokensOfARunStayInIt: the command gets the agent's token in its
// environment and from its socket; neither shows anywhere else.
func TestX06TheTokensOfARunStayInIt(t *testing.T) {
	t.Parallel()
	gh := stand(t)
	r := newRig(t, onGitHub(gh))
	r.command(`cp "$1" "$3/brief"; printf '%s' "$COVEN_GIT_TOKEN" >"$3/env"; echo "mine is $BELAY_GIT_TOKEN" ; ` +
		`curl -s --unix-socket "$BELAY_TOKEN_SOCKET" http://broker/token >"$3/socket"; cat "$3/socket"; ` + fixes)
	r.start()
	got := r.await(r.accept(1), "review")
	token, err := os.ReadFile(filepath.Join(r.dir, "env"))
	require.NoError(t, err)
	require.Contains(t, gh.TokenValues(), string(token))
	require.Equal(t, map[string]string{"contents": "write", "metadata": "read"}, gh.Grants()[1].Permissions)
	require.Contains(t, got.Attempts[0].Tail, "mine is [redacted-token]")
	all, err := os.ReadFile(filepath.Join(r.dir, "socket"))
	require.NoError(t, err)
	if len(all) > 0 { // where there is curl
		var a struct{ Token string }
		require.NoError(t, json.Unmarshal(all, &a))
		require.Equal(t, string(token), a.Token)
	}
	brief, err := os.ReadFile(filepath.Join(r.dir, "brief"))
	require.NoError(t, err)
	for _, v := range gh.TokenValues() {
		require.NotContains(t, string(brief), v)
		require.NotContains(t, r.log.String(), v)
		require.NotContains(t, r.get("/api/github/tasks/"+got.ID).body, v)
	}
}

// TestDT77SurfacesAreClosedWhoeverEndsTheTask: the outbox does it, from what
// the record says.
func TestDT77SurfacesAreClosedWhoeverEndsTheTask(t *testing.T) {
	t.Parallel()
	gh := stand(t)
	r := newRig(t, onGitHub(gh), func(r *rig) { r.cfg.Worker.MaxRetries = 0 })
	r.command(`echo $$ >"$3/running"; exec sleep 60`)
	r.start()
	id := r.accept(1)
	natstest.Eventually(t, "the command to run", func() bool {
		_, err := os.Stat(filepath.Join(r.dir, "running"))
		return err == nil
	})
	require.Equal(t, "in_progress", gh.Checks(99)[0].Status)
	require.Equal(t, http.StatusOK, r.act(id, "cancel").status)
	natstest.Eventually(t, "both to be closed", func() bool {
		return gh.Checks(99)[0].Conclusion == "neutral" && strings.Contains(gh.Comments(99, 1)[0].Body, "Cancelled")
	})
	for _, b := range r.outbox("?task=" + id) {
		require.Contains(t, []string{"github:check", "github:comment"}, b.Channel)
	}
	require.Len(t, r.outbox("?task="+id), 2)

	r.cfg.Familiars[0].Command = nil
	require.Equal(t, http.StatusAccepted, r.act(id, "retry").status)
	r.await(id, "done")
	require.Len(t, gh.Checks(99), 1)
	require.Len(t, gh.Comments(99, 1), 1)
	require.Equal(t, "success", gh.Checks(99)[0].Conclusion)
}

// TestDT77RecoveryClosesWhatShows: the process is killed in the only attempt
// that there is.
func TestDT77RecoveryClosesWhatShows(t *testing.T) {
	t.Parallel()
	gh := stand(t)
	j := onStand(t, gh)
	j.MaxRetries, j.Script = 0, gated
	r := rigOf(t, j.Dir)
	c := spawn(t, j)
	r.speakTo(c)
	id := r.accept(1)
	natstest.Eventually(t, "the task to show", func() bool { return len(gh.Comments(99, 1)) == 1 })
	c.kill()
	r.speakTo(spawn(t, j))
	require.Contains(t, r.await(id, "failed").Reason, "1 of 1 attempts spent; the last one: interrupted")
	natstest.Eventually(t, "both to be closed", func() bool {
		return gh.Checks(99)[0].Conclusion == "failure" && strings.Contains(gh.Comments(99, 1)[0].Body, "the last one: interrupted")
	})
}

// TestG23ACancelledReviewIsClosedAsSuperseded: on_supersede = "cancel" ends
// the running one, and the newer one has the comment.
func TestG23ACancelledReviewIsClosedAsSuperseded(t *testing.T) {
	t.Parallel()
	gh := stand(t)
	r := newRig(t, onGitHub(gh), func(r *rig) { r.cfg.Review.PullRequest, r.cfg.Review.OnSupersede = true, "cancel" })
	r.command(`case "$(cat "$1")" in *synchronize*) ;; *) exec sleep 60;; esac; ` + succeed)
	r.start()
	older := r.post("pull_request", uuid.NewString(), pull(3, "a1", "", 1)).text("task")
	natstest.Eventually(t, "the first to show", func() bool { return len(gh.Comments(99, 3)) == 1 })
	gh.SetBranch(99, "f", fmt.Sprintf("%040s", "a2"))
	newer := r.post("pull_request", uuid.NewString(), pull(3, "a2", "a1", 2)).text("task")
	r.await(newer, "done")
	r.await(older, "superseded")
	natstest.Eventually(t, "the first to be closed", func() bool { return gh.Checks(99)[0].Conclusion == "neutral" })
	require.Equal(t, "Superseded", gh.Checks(99)[0].Title)
	require.Equal(t, "success", gh.Checks(99)[1].Conclusion)
	require.Len(t, gh.Comments(99, 3), 1)
	require.Contains(t, gh.Comments(99, 3)[0].Body, newer)
}

// TestTheAppsOwnEventsAreItsOwn, whatever its familiars are called.
func TestTheAppsOwnEventsAreItsOwn(t *testing.T) {
	t.Parallel()
	gh := stand(t)
	r := newRig(t, onGitHub(gh)).start()
	require.NotEqual(t, gh.Login(), r.cfg.Familiars[0].BotUsername)
	natstest.Eventually(t, "the login to be known", func() bool { return r.app.source("default").Config.AppLogin == gh.Login() })
	require.Equal(t, "self", r.post("issue_comment", uuid.NewString(), commented(1, gh.Login(), "@belay fix it")).text("ignored"))
}

// TestKillAtEveryEffectOnGitHub is the matrix of kill -9 for a run that shows:
// wherever the process dies, right after the effect and before it hears of it,
// or between the steps, there is in the end one check run, one comment, one
// pull request, and all of them are closed.
func TestKillAtEveryEffectOnGitHub(t *testing.T) {
	t.Parallel()
	effects := []githubtest.Fault{
		{Op: githubtest.OpPermission}, {Op: githubtest.OpCreateCheck}, {Op: githubtest.OpUpdateCheck}, {Op: githubtest.OpCreateComment},
		{Op: githubtest.OpCreatePull}, {Op: githubtest.OpEditComment}, {Op: githubtest.OpUpdateCheck, Skip: 1},
	}
	for i, f := range effects {
		t.Run(fmt.Sprintf("after %d %s", i, f.Op), func(t *testing.T) {
			t.Parallel()
			killOnGitHub(t, "", &f)
		})
	}
	for _, point := range []string{"claimed", "before update task", "pinned", "ending", "ended"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			killOnGitHub(t, point, nil)
		})
	}
}

// onStand is a process that is an App of a stand-in.
func onStand(t *testing.T, gh *githubtest.Server) job {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "app.pem")
	require.NoError(t, os.WriteFile(key, gh.PrivateKey(), 0o600))
	return job{
		Dir: dir, Name: "w", Concurrency: 1, MaxRetries: 2, Drain: time.Second, Beat: time.Second, Script: fixes,
		AppID: gh.AppID(), KeyFile: key, APIURL: gh.URL(),
	}
}

func killOnGitHub(t *testing.T, point string, f *githubtest.Fault) {
	gh := stand(t)
	gh.SetRole(99, "octocat", "write")
	j := onStand(t, gh)
	r := rigOf(t, j.Dir)
	doomed := j
	doomed.Point = point
	c := spawn(t, doomed)
	if f != nil {
		f.Kind, f.Until, f.Held = githubtest.Hold, t.Context().Done(), func() { _ = c.cmd.Process.Kill() }
		gh.Fail(*f)
	}
	r.speakTo(c)
	id, body := uuid.NewString(), commented(1, "octocat", "@belay fix it")
	_, _ = r.tryPost("issue_comment", id, body)
	c.wait()
	gh.Heal()
	gh.SetBranch(99, "main", githubtest.SHA("main went on")) // the record knows where the check run is

	r.speakTo(spawn(t, j))
	taskID := r.post("issue_comment", id, body).text("task")
	r.await(taskID, "review")
	checks, comments := gh.Checks(99), gh.Comments(99, 1)
	require.Len(t, checks, 1)
	require.Equal(t, []string{"completed", "success"}, []string{checks[0].Status, checks[0].Conclusion})
	require.Len(t, comments, 1)
	require.Contains(t, comments[0].Body, "mended")
	require.Len(t, gh.Pulls(99), 2, "one beside the test's own")
	for _, op := range []string{githubtest.OpCreateCheck, githubtest.OpCreateComment, githubtest.OpCreatePull} {
		require.Equal(t, 1, gh.Count(op), op)
	}
	require.Len(t, r.list(10), 1)
}

// commented is the payload of a comment on an issue.
func commented(number int, login, text string) string {
	return fmt.Sprintf(`{"action":"created","installation":{"id":7},`+
		`"repository":{"id":99,"name":"api","full_name":"acme/api","default_branch":"main","owner":{"login":"acme"}},`+
		`"sender":{"login":%q},"issue":{"number":%d,"title":"Issue %[2]d","body":"b","user":{"login":"octocat"},"labels":[],"updated_at":%[3]q},`+
		`"comment":{"id":1,"body":%[4]q,"user":{"login":%[1]q},"created_at":%[3]q,"updated_at":%[3]q}}`,
		login, number, time.Now().UTC().Format(time.RFC3339), text)
}

// TestFleetShowsOneOfEach: another process takes a task over from one that was
// killed, or frozen and woke again, in the middle of showing it.
func TestFleetShowsOneOfEach(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gh := stand(t)
			f := newFleet(t)
			f.job.AppID, f.job.APIURL, f.job.KeyFile = gh.AppID(), gh.URL(), f.file("app.pem", string(gh.PrivateKey()))
			f.job.Script = fixes
			a := spawn(t, f.job)
			f.speakTo(a)
			over := make(chan struct{})
			gh.Fail(githubtest.Fault{Op: githubtest.OpCreatePull, Kind: githubtest.Hold, Until: over, Held: func() { _ = a.cmd.Process.Signal(stop) }})
			id := f.accept(1)
			natstest.Eventually(t, "the pull request to be opened", func() bool { return gh.Count(githubtest.OpCreatePull) == 1 })
			f.speakTo(spawn(t, f.job))
			got := f.await(id, "review")
			require.Equal(t, []string{"interrupted", "completed"}, outcomes(got))
			n := len(gh.Mutations())
			close(over)
			if stop == syscall.SIGSTOP {
				a.signal(syscall.SIGCONT) // it hears the answer, and has nothing to say
				a.signal(syscall.SIGTERM)
				a.wait()
			}
			require.Len(t, gh.Mutations(), n)
			require.Len(t, gh.Checks(99), 1)
			require.Equal(t, "success", gh.Checks(99)[0].Conclusion)
			require.Len(t, gh.Comments(99, 1), 1)
			require.Contains(t, gh.Comments(99, 1)[0].Body, "mended")
			require.Len(t, gh.Pulls(99), 2)
		})
	}
}
