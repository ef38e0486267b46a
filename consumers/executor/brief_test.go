package executor

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

func TestBriefIsExactlyTheContract(t *testing.T) {
	t.Parallel()
	j := job("")
	b, err := encodeBrief(&j, "/w/workspace", redact.New())
	require.NoError(t, err)
	require.JSONEq(t, `{"contract_version":"2","trigger":"issue_assigned",
		"repo":{"owner":"acme","name":"api","clone_url":"https://github.com/acme/api.git","default_branch":"main"},
		"task":{"kind":"fix_issue","issue_number":7,"issue_title":"It is broken","issue_body":"Please fix."},
		"familiar":{"id":"belay","display_name":"Belay","skills":["go"]},"workspace":{"root":"/w/workspace"}}`, string(b))

	j.Familiar.Skills, j.Familiar.Model = nil, "m"
	j.Task.Kind = task.Kind{Name: task.ReviewPullRequest, PRNumber: 3, PRTitle: "T", Reason: "opened"}
	j.Task.CloneURL = "https://x-access-token:abc@github.com/acme/api.git"
	j.ReviewFiles, j.AuditInstruction = []string{"a.go", "b.go"}, "Look twice."
	b, err = encodeBrief(&j, "/w/workspace", redact.New())
	require.NoError(t, err)
	require.JSONEq(t, `{"contract_version":"2","trigger":"pr_review_comment",
		"repo":{"owner":"acme","name":"api","clone_url":"https://github.com/acme/api.git","default_branch":"main"},
		"task":{"kind":"review_pull_request","pr_number":3,"pr_title":"T","reason":"opened"},
		"familiar":{"id":"belay","display_name":"Belay","model":"m","skills":[]},"workspace":{"root":"/w/workspace"},
		"review_context":{"kind":"pull_request","files":[{"filename":"a.go"},{"filename":"b.go"}]},
		"audit_instruction":"Look twice."}`, string(b))
}

func TestBriefTriggers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      task.KindName
		commander string
		want      string
	}{
		{task.FixIssue, "", "issue_assigned"},
		{task.FixIssue, "octocat", "issue_mention"},
		{task.Custom, "", "issue_mention"},
		{task.AddressReviewComment, "octocat", "pr_review_comment"},
		{task.ReviewPullRequest, "", "pr_review_comment"},
		{task.ReviewPullRequest, "octocat", "pr_review_comment"},
		{task.CancelReviews, "octocat", "pr_review_comment"},
	} {
		require.Equal(t, c.want, trigger(&task.Record{Kind: task.Kind{Name: c.kind}, Commander: c.commander}), "%+v", c)
	}
	require.Equal(t, "issue_mention", trigger(&task.Record{Kind: task.Kind{Name: task.FixIssue}, Rule: &task.Rule{Name: "new"}}))
}

func TestBriefKeepsTheTaskAsItIs(t *testing.T) {
	t.Parallel()
	for _, name := range task.KindNames {
		j := job("")
		j.Task.Kind = task.Kind{Name: name, Custom: task.CustomKind{Name: "n", Event: "push", Title: "<&>\u2028"}, IssueTitle: "<&>"}
		want, err := json.Marshal(j.Task.Kind)
		require.NoError(t, err)
		b, err := encodeBrief(&j, "/w", redact.New())
		require.NoError(t, err)
		var got struct{ Task json.RawMessage }
		require.NoError(t, json.Unmarshal(b, &got))
		require.JSONEq(t, string(want), string(got.Task))
	}
}

func TestBriefIsRefusedWithALiveToken(t *testing.T) {
	t.Parallel()
	const live = `tok"en<live>`
	for name, put := range map[string]func(*Job){
		"issue body":  func(j *Job) { j.Task.Kind.IssueBody = "see " + live },
		"repo":        func(j *Job) { j.Task.Repo = "acme/" + live },
		"branch":      func(j *Job) { j.Task.DefaultBranch = live },
		"instruction": func(j *Job) { j.AuditInstruction = live },
		"skill":       func(j *Job) { j.Familiar.Skills = []string{live} },
	} {
		j := job("")
		put(&j)
		_, err := encodeBrief(&j, "/w", redact.New(live))
		require.ErrorIs(t, err, ErrBriefToken, name)
		_, err = encodeBrief(&j, "/w", redact.New("another-token"))
		require.NoError(t, err, "control: %s", name)
	}
	j := job("")
	j.Task.Repo = "acme"
	_, err := encodeBrief(&j, "/w", redact.New())
	require.ErrorContains(t, err, "not owner/name")
}
