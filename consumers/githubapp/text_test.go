package githubapp

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

// TestG39TextsOfOthersDoNothing: what they would do on GitHub, they do not.
func TestG39TextsOfOthersDoNothing(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"hello":                      "hello",
		"@octocat and @acme/team":    "@" + gap + "octocat and @" + gap + "acme/team",
		"a@b.example":                "a@" + gap + "b.example",
		"`@octocat`":                 "`@" + gap + "octocat`",
		"a @ b":                      "a @ b",
		"<!-- belay:status v1 x -->": "<" + gap + "!-- belay:status v1 x -->",
		"<details><summary>":         "<" + gap + "details><" + gap + "summary>",
		"</sub>":                     "<" + gap + "/sub>",
		"&#64;octocat &commat;x":     "&" + gap + "#64;octocat &" + gap + "commat;x",
		"a && b &amp; c":             "a && b &amp; c",
		"@\x00octocat":               "@" + gap + "octocat",
		"1 < 2":                      "1 < 2",
		"![x](https://t.example/p)":  "!" + gap + "[x](https://t.example/p)",
		"$(touch pwned) `id`":        "$(touch pwned) `id`",
		"a\x1b[31mb\x00":             "a[31mb",
		"\u202egnirts":               "gnirts",
		"a\r\nb":                     "a\nb",
		"```go\nx":                   "```go\nx\n```",
		"```\nx\n```":                "```\nx\n```",
		"````\n```\nx":               "````\n```\nx\n````",
		"~~~\n```\nx\n~~~":           "~~~\n```\nx\n~~~",
		"bad\xffutf":                 "bad�utf",
	} {
		require.Equal(t, want, safe(in), "%q", in)
	}
	require.Equal(t, `a \[x\]\(y\) \*\*b\*\* \`+"`c\\`", inline("a [x](y)\n**b** `c`", 100))
	require.Equal(t, "`a.go:3`", code("a.go:3", 100))
	require.Equal(t, "``` a``b ```", code("a``b", 100))
	require.Equal(t, "x", link("x", "javascript:alert(1)"))
	require.Equal(t, "x", link("x", "https://a.example/)[y](z"))
	require.Equal(t, "[x](https://a.example/y#z-1)", link("x", "https://a.example/y#z-1"))
}

// TestSafeHoldsForAnyText: limits, UTF-8, no mention and no tag, and a second
// pass that changes nothing that matters.
func TestSafeHoldsForAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{
			"@", "a", "<", "&", "#", "!", "[", "!--", "-->", "```", "`", "~~~", "\n", "\r", " ", "\\", "é", "日", "\x00", "\xff", replyOpen, markerOpen,
		})).Draw(t, "parts")
		s := strings.Join(parts, "")
		limit := rapid.IntRange(64, 400).Draw(t, "limit")
		for _, out := range []string{block(s, limit), inline(s, limit), code(s, limit), oneLine(s, limit), cut(safe(s), limit)} {
			if !utf8.ValidString(out) {
				t.Fatalf("%q is no UTF-8", out)
			}
		}
		if len(oneLine(s, limit)) > limit || len(cut(safe(s), limit)) > limit {
			t.Fatal("too long")
		}
		for _, out := range []string{block(s, limit), inline(s, limit), code(s, limit)} {
			for _, bad := range []string{"@a", "<a", "<!", "![", "&#", "\x00"} {
				if strings.Contains(out, bad) {
					t.Fatalf("%q has %q", out, bad)
				}
			}
		}
		if strings.Contains(inline(s, limit), "\n") || strings.Contains(code(s, limit), "\n") {
			t.Fatal("more than a line")
		}
		if again := closeFences(safe(s)); again != safe(s) {
			t.Fatalf("%q is left open", safe(s))
		}
	})
}

// TestConclusions is the mapping of outcomes to check runs.
func TestConclusions(t *testing.T) {
	t.Parallel()
	review := func(e Evidence) *Review { return &Review{Evidence: e, ReviewedFiles: []string{"a.go"}} }
	for name, c := range map[string]struct {
		card  Card
		want  Conclusion
		title string
	}{
		"success":           {Card{Phase: Done, Outcome: &Outcome{Status: task.ResultSuccess}}, Success, "Completed"},
		"review":            {Card{Phase: Done, Outcome: &Outcome{Status: task.ResultSuccess, Review: review(EvidenceComplete)}}, Success, "Completed: no findings"},
		"review, partial":   {Card{Phase: Done, Outcome: &Outcome{Status: task.ResultSuccess, Review: review(EvidencePartial)}}, Neutral, "Partial"},
		"review, missing":   {Card{Phase: Done, Outcome: &Outcome{Status: task.ResultSuccess, Review: review(EvidenceMissing)}}, Neutral, "Partial"},
		"partial":           {Card{Phase: Done, Outcome: &Outcome{Status: task.ResultPartial}}, Neutral, "Partial"},
		"failure":           {Card{Phase: Done, Outcome: &Outcome{Status: task.ResultFailure}}, Failure, "Failed"},
		"needs input":       {Card{Phase: Done, Outcome: &Outcome{Status: task.ResultNeedsInput}}, ActionRequired, "Needs input"},
		"unknown":           {Card{Phase: Done, Outcome: &Outcome{Status: "great"}}, Neutral, "Partial"},
		"no outcome":        {Card{Phase: Done}, Failure, "Failed"},
		"stale":             {Card{Phase: Stale}, Neutral, "Stale"},
		"superseded":        {Card{Phase: Superseded}, Neutral, "Superseded"},
		"cancelled":         {Card{Phase: Cancelled}, Neutral, "Cancelled"},
		"failed":            {Card{Phase: Failed}, Failure, "Failed"},
		"no phase":          {Card{}, Failure, "Failed"},
		"a failing pull":    {Card{Phase: Done, PullProblem: "x", Outcome: &Outcome{Status: task.ResultSuccess}}, Neutral, "Partial"},
		"a failing failure": {Card{Phase: Done, PullProblem: "x", Outcome: &Outcome{Status: task.ResultFailure}}, Failure, "Failed"},
	} {
		got := c.card.Check()
		require.Equal(t, c.want, got.Conclusion, name)
		require.Equal(t, c.title, got.Title, name)
		require.Equal(t, StatusCompleted, got.Status, name)
		require.NotEmpty(t, got.Summary, name)
	}
	working := Card{Phase: Working}
	require.Equal(t, StatusInProgress, working.Check().Status)
	require.Empty(t, working.Check().Conclusion)
}

// TestFindingsAreGatedAndCounted: what has no evidence is counted, not shown.
func TestFindingsAreGatedAndCounted(t *testing.T) {
	t.Parallel()
	r := &Review{
		Evidence: EvidenceComplete, ReviewedFiles: []string{"a.go"}, SupportingFiles: []string{"b.go"},
		Findings: []Finding{
			{Severity: "low", File: "a.go", Title: "low one"},
			{Severity: "critical", File: "b.go", Line: 3, Title: "bad @octocat", Body: "line 1\nline 2", Recommendation: "Do it."},
			{Severity: "high", File: "elsewhere.go", Title: "made up"},
			{Severity: "odd", File: "a.go", Title: "odd one"},
			{Severity: "critical", File: "a.go", Title: "worse"},
		},
		Tests:       []TestRun{{Command: "go test ./...", Status: "passed"}},
		Limitations: []string{"no network"},
	}
	out := r.text()
	require.Contains(t, out, "4 findings: 2 critical, 1 low, 1 other")
	require.Contains(t, out, "Left out, as nothing shows that the review read their files: 1.")
	require.NotContains(t, out, "made up")
	require.Less(t, strings.Index(out, "bad @"+gap+"octocat"), strings.Index(out, "worse"), "the order of the review among equals")
	require.Less(t, strings.Index(out, "worse"), strings.Index(out, "low one"))
	require.Contains(t, out, "- **critical** `b.go:3` bad")
	require.Contains(t, out, "\n  line 1\n  line 2\n\n  Recommended: Do it.")
	require.Contains(t, out, "- `go test ./...`: passed")
	require.Contains(t, out, "- no network")

	r.Evidence = EvidenceMissing
	out = r.text()
	require.Contains(t, out, "no findings")
	require.Contains(t, out, "Evidence is `missing`")
	require.Contains(t, out, ": 5.")
	require.NotContains(t, out, "worse")

	require.Equal(t, "1 finding: 1 high", count([]Finding{{Severity: "high"}}))
}

// TestCommentsFitWhateverIsInThem renders the largest of everything.
func TestCommentsFitWhateverIsInThem(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("```\n@x <b> é ", 20000)
	var findings []Finding
	for i := range 500 {
		findings = append(findings, Finding{Severity: "high", File: "a.go", Title: long, Body: long, Recommendation: fmt.Sprint(i)})
	}
	c := Card{
		Familiar: long, Task: "t1", Title: long, Head: long, Phase: Done, CheckURL: "https://g.example/1", PullProblem: long,
		Outcome: &Outcome{Status: task.ResultSuccess, ExitReason: long, Summary: long, Review: &Review{
			Evidence: EvidenceComplete, ReviewedFiles: []string{"a.go"}, Findings: findings, Tests: []TestRun{{long, long, long}}, Limitations: []string{long},
		}},
	}
	body := c.Comment()
	require.LessOrEqual(t, len(body), maxMain)
	require.True(t, isOf(body, "t1"))
	require.True(t, strings.HasSuffix(body, "</sub>"), "the footer is never cut")
	require.Contains(t, list(findings), "… and 450 more")
	whole := withReply(body, strings.Repeat("y", 1<<20))
	require.LessOrEqual(t, len(whole)+len(marker([]byte("k"), Thread{}))+1, maxBody)
	require.Equal(t, body, mainOf(whole))
	require.LessOrEqual(t, len(c.Check().Summary), maxOutput)
	for _, why := range []Phase{Stale, Superseded, Cancelled, Failed} {
		c.Phase, c.Why = why, "@octocat "+replyOpen
		require.NotContains(t, c.Comment(), "@octocat")
		require.NotContains(t, c.Comment(), replyOpen)
	}
}

// TestSectionsCannotBeForged by what a reply or a result quotes.
func TestSectionsCannotBeForged(t *testing.T) {
	t.Parallel()
	body := withReply("", "text "+replyOpen+" "+taskLine("t9"))
	require.Empty(t, mainOf(body))
	require.Equal(t, 1, strings.Count(body, "<!"), "nor hide what follows")
	require.False(t, isOf(body, "t9"))
	c := Card{Task: "t1", Phase: Done, Outcome: &Outcome{Status: task.ResultSuccess, Summary: "x\n" + replyOpen + "\n" + taskLine("t2")}}
	require.True(t, isOf(c.Comment(), "t1"))
	require.Equal(t, c.Comment(), mainOf(c.Comment()))
	require.Equal(t, "There are no tasks here yet.", StatusText(nil))
	require.Equal(t, "Cancelled 1 queued review of this pull request.", CancelledText(1))
	require.NotContains(t, StatusText([]task.Record{{ID: "t1", Title: "@octocat\n# x", State: task.Queued}}), "@octocat")
}
