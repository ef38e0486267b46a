package task_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

// DT-31: kinds are stored in their wire shape, with exactly their own fields.
func TestDT31KindWireShapes(t *testing.T) {
	t.Parallel()
	full := task.Kind{
		IssueNumber: 1, IssueTitle: "t", IssueBody: "b", PRNumber: 2, PRTitle: "p", Reason: "opened",
		CommentBody: "c", DiffHunk: "d", Body: "y",
		Custom: task.CustomKind{Name: "n", Event: "push", Action: "a", Ref: "r", Before: "x", After: "z", SHA: "s", Number: 3, Title: "tt", URL: "u"},
	}
	for name, want := range map[task.KindName][2]string{
		task.FixIssue: {`{"kind":"fix_issue","issue_number":1,"issue_title":"t","issue_body":"b"}`,
			`{"kind":"fix_issue","issue_number":0,"issue_title":"","issue_body":""}`},
		task.AddressReviewComment: {`{"kind":"address_review_comment","pr_number":2,"comment_body":"c","diff_hunk":"d"}`,
			`{"kind":"address_review_comment","pr_number":0,"comment_body":""}`},
		task.ReviewPullRequest: {`{"kind":"review_pull_request","pr_number":2,"pr_title":"p","reason":"opened"}`,
			`{"kind":"review_pull_request","pr_number":0,"pr_title":"","reason":""}`},
		task.CommandReply: {`{"kind":"command_reply","issue_number":1,"body":"y"}`,
			`{"kind":"command_reply","issue_number":0,"body":""}`},
		task.CancelReviews: {`{"kind":"cancel_reviews","pr_number":2}`, `{"kind":"cancel_reviews","pr_number":0}`},
		task.Custom: {`{"kind":"custom","name":"n","event":"push","action":"a","ref":"r","before":"x","after":"z","sha":"s","number":3,"title":"tt","url":"u"}`,
			`{"kind":"custom","name":"","event":""}`},
	} {
		k := full
		k.Name = name
		b, err := json.Marshal(k)
		require.NoError(t, err)
		require.Equal(t, want[0], string(b))
		b, err = json.Marshal(task.Kind{Name: name})
		require.NoError(t, err)
		require.Equal(t, want[1], string(b))
	}
	require.Len(t, task.KindNames, 6)
}

func TestKindRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String(), rapid.IntRange(0, 1<<31-1)
		k := task.Kind{
			Name: rapid.SampledFrom(task.KindNames).Draw(t, "name"), IssueNumber: n.Draw(t, "issue"), IssueTitle: s.Draw(t, "title"),
			IssueBody: s.Draw(t, "body"), PRNumber: n.Draw(t, "pr"), PRTitle: s.Draw(t, "pr title"), Reason: s.Draw(t, "reason"),
			CommentBody: s.Draw(t, "comment"), DiffHunk: s.Draw(t, "hunk"), Body: s.Draw(t, "reply"),
			Custom: task.CustomKind{Name: s.Draw(t, "rule"), Event: s.Draw(t, "event"), Ref: s.Draw(t, "ref"), Number: n.Draw(t, "number"), Title: s.Draw(t, "ct")},
		}
		b, err := json.Marshal(k)
		require.NoError(t, err)
		var back task.Kind
		require.NoError(t, json.Unmarshal(b, &back))
		again, err := json.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, string(b), string(again))
		require.Equal(t, k.Title(), back.Title())
		require.Equal(t, k.Number(), back.Number())
	})
}

func TestKindUnknownIsRefused(t *testing.T) {
	t.Parallel()
	var k task.Kind
	require.ErrorContains(t, json.Unmarshal([]byte(`{"kind":"of_the_future"}`), &k), "of_the_future")
	require.Error(t, json.Unmarshal([]byte(`{}`), &k))
	require.Error(t, json.Unmarshal([]byte(`[]`), &k))
	_, err := json.Marshal(task.Kind{})
	require.Error(t, err)
}

func TestKindTitleAndNumber(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]task.Kind{
		"Review PR #4: Fix <it>":         {Name: task.ReviewPullRequest, PRNumber: 4, PRTitle: "Fix <it>"},
		"Address review on PR #4":        {Name: task.AddressReviewComment, PRNumber: 4},
		"Reply on #4":                    {Name: task.CommandReply, IssueNumber: 4},
		"Cancel queued reviews on PR #4": {Name: task.CancelReviews, PRNumber: 4},
		"The issue's own":                {Name: task.FixIssue, IssueNumber: 4, IssueTitle: "The issue's own"},
		"x: The title":                   {Name: task.Custom, Custom: task.CustomKind{Name: "x", Title: "The title", Number: 4}},
		"nightly":                        {Name: task.Custom, Custom: task.CustomKind{Name: "nightly", Number: 4}},
	} {
		require.Equal(t, want, k.Title())
		require.Equal(t, 4, k.Number(), want)
	}
	require.Zero(t, task.Kind{Name: "?", IssueNumber: 1, PRNumber: 2}.Number())
}
