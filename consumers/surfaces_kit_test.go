package consumers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// stageBench is a bench whose tasks show on a stand-in of GitHub.
type stageBench struct {
	*bench
	gh     *githubtest.Server
	client *githubapp.Client
	github *GitHub
	agents []string // tokens that runs got
	mu     sync.Mutex
}

// appKey is one key for all tests: making one takes longer than most of them.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

const (
	maintainer = "maria"
	reader     = "rick"
)

// head1 and head2 are heads of pull request 3.
var head1, head2 = githubtest.SHA("head 1"), githubtest.SHA("head 2")

// newStand makes a stand-in of GitHub with the repositories of the tests.
func newStand(t *testing.T) *githubtest.Server {
	t.Helper()
	gh, err := githubtest.New(githubtest.Options{Key: appKey()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gh.Close()) })
	for inst, repo := range map[int64]githubtest.Repo{
		7: {ID: 99, Owner: "acme", Name: "api"}, 8: {ID: 88, Owner: "umbrella", Name: "web"},
	} {
		gh.AddInstallation(inst, repo.Owner)
		gh.AddRepo(inst, repo)
		gh.SetRole(repo.ID, maintainer, "maintain")
		gh.SetRole(repo.ID, reader, "read")
		for n := 1; n <= 2; n++ {
			gh.AddIssue(repo.ID, githubtest.Issue{Number: n, Title: "It is broken", Login: "octocat"})
		}
		gh.AddPull(repo.ID, githubtest.Pull{Number: 3, Title: "Mend it", Login: "octocat", Branch: "mend", HeadSHA: head1, Files: []string{"a.go"}})
	}
	return gh
}

func newStageBench(t *testing.T, change ...func(*stageBench, *Options)) *stageBench {
	t.Helper()
	s := &stageBench{gh: newStand(t)}
	return s.on(t, natstest.New(t), change...)
}

// on makes the bench over a server and the stand-in that s has.
func (s *stageBench) on(t *testing.T, env *natstest.Env, change ...func(*stageBench, *Options)) *stageBench {
	t.Helper()
	var err error
	s.client, err = githubapp.New(githubapp.Options{
		AppID: s.gh.AppID(), PrivateKey: s.gh.PrivateKey(), APIURL: s.gh.URL(), Transport: &http.Transport{},
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	s.github = NewGitHub(GitHubOptions{Clients: map[string]*githubapp.Client{task.DefaultSource: s.client}})
	s.bench = newBench(t, env, func(o *Options) {
		o.Surfaces = s.github
		o.Familiar = func(id string) (executor.Familiar, bool) {
			return executor.Familiar{ID: id, Command: []string{"tool"}}, true
		}
		for _, f := range change {
			f(s, o)
		}
	})
	s.runner.f = s.agent
	return s
}

// agent is a command: it pushes a branch for a fix, and reviews a review.
func (s *stageBench) agent(_ context.Context, j executor.Job) executor.Report {
	s.mu.Lock()
	s.agents = append(s.agents, j.GitToken.Reveal())
	s.mu.Unlock()
	if j.Task.Kind.Name == task.CommandReply || j.Task.Kind.Name == task.CancelReviews {
		r := completed()
		r.Result.Summary = j.Reply
		return r
	}
	c := &executor.Result{Status: task.ResultSuccess, Summary: "All is well.", Review: executor.Review{Mode: executor.ReviewNone}}
	if j.Task.Kind.Name == task.ReviewPullRequest {
		c.Review = executor.Review{
			Mode: executor.ReviewPullRequest, EvidenceStatus: executor.EvidenceComplete, ReviewedFiles: j.ReviewFiles,
			Findings: []executor.Finding{{Severity: executor.SeverityHigh, File: "a.go", Line: 3, Title: "Off by one", Body: "Look."}},
		}
	} else {
		c.Branch, c.Commits = "belay/fix", []executor.Commit{{SHA: githubtest.SHA("fix"), Message: "Fix"}}
		s.gh.SetBranch(j.Task.RepoID, c.Branch, githubtest.SHA("fix"))
	}
	r := completed()
	r.Contract, r.Result.Summary, r.Result.Branch = c, c.Summary, c.Branch
	return r
}

// command is a task that somebody commanded on an issue or pull request.
func command(login string, k task.Kind) task.Delivery {
	d := base()
	d.Event, d.Action, d.Number = "issue_comment", "created", k.Number()
	d.Task = &task.Spec{FamiliarID: "cody", Kind: k, Commander: login}
	return d
}

// pushed is a push to pull request 3 whose head is a commit of the stand-in.
func pushed(head, before string, at int) task.Delivery { return review(3, head, before, at) }

// body is the one status comment of a thread, "" if there is none.
func (s *stageBench) body(number int) string {
	s.t.Helper()
	all := s.gh.Comments(99, number)
	if len(all) == 0 {
		return ""
	}
	require.Len(s.t, all, 1, "one status comment a thread")
	return all[0].Body
}

// check is the one check run of the repository.
func (s *stageBench) check() githubtest.Check {
	s.t.Helper()
	all := s.gh.Checks(99)
	require.Len(s.t, all, 1, "one check run")
	return all[0]
}
