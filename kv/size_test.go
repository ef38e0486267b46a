package kv_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// real is a delivery with the lengths that GitHub's have.
func real(i int, k task.Kind) task.Delivery {
	sha := strings.Repeat("0123456789abcdef", 4)
	d := task.Delivery{
		Source: task.DefaultSource, ID: task.DeliveryID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(fmt.Sprint(i))).String()),
		HookID: "512345678", Event: "pull_request", Action: "synchronize", InstallationID: 61234567, RepoID: 812345678,
		Repo: "octo-organisation/payments-api", Number: 1234, PayloadHash: sha, ReceivedAt: noon,
		Task: &task.Spec{
			FamiliarID: "belay", Kind: k, Commander: "octocat-the-third", HeadSHA: sha[:40],
			CloneURL: "https://github.com/octo-organisation/payments-api.git", DefaultBranch: "main",
		},
	}
	if k.Name == task.ReviewPullRequest {
		d.Task.Commander, d.Task.Once = "", true
		d.Task.Review = &task.Review{Before: sha[:40], UpdatedAt: noon}
	}
	if k.Name == "" {
		d.Task, d.Routing = nil, task.Ignored(task.UnsupportedAction)
	}
	return d
}

// A message's median is at most 700 bytes beside what people wrote and named:
// texts, repository, login and branch.
func TestMessageSize(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	text := strings.Repeat("a", 40)
	var sizes []int
	for i, k := range []task.Kind{
		{Name: task.ReviewPullRequest, PRNumber: 1234, PRTitle: text, Reason: "synchronize"},
		{Name: task.ReviewPullRequest, PRNumber: 1234, PRTitle: text, Reason: "opened"},
		{Name: task.FixIssue, IssueNumber: 1234, IssueTitle: text, IssueBody: text},
		{Name: task.AddressReviewComment, PRNumber: 1234, CommentBody: text, DiffHunk: text},
		{Name: task.CommandReply, IssueNumber: 1234, Body: text},
		{},
	} {
		d := real(i, k)
		s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
		require.NoError(t, err)
		m, err := s.GetMsg(t.Context(), accept(t, l, d).Seq)
		require.NoError(t, err)
		user := len(k.PRTitle) + len(k.IssueTitle) + len(k.IssueBody) + len(k.CommentBody) + len(k.DiffHunk) + len(k.Body) + len(d.Repo)
		if d.Task != nil {
			user += len(d.Task.Commander) + len(d.Task.DefaultBranch)
		}
		t.Logf("%-24s %4d bytes beside user text, %d in all, subject %d", k.Name, len(m.Data)-user, len(m.Data), len(m.Subject))
		sizes = append(sizes, len(m.Data)-user)
	}
	slices.Sort(sizes)
	require.LessOrEqual(t, sizes[len(sizes)/2], 700)
}
