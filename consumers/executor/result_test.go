package executor

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// change returns the good result with one field set, by its dotted path; nil
// removes the field.
func change(t *testing.T, set map[string]any) string {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(good), &m))
	for path, v := range set {
		at := m
		name := path
		if head, rest, ok := strings.Cut(path, "."); ok {
			at, name = maps.Clone(m[head].(map[string]any)), rest
			m[head] = at
		}
		if v == nil {
			delete(at, name)
		} else {
			at[name] = v
		}
	}
	b, err := json.Marshal(m)
	require.NoError(t, err)
	return string(b)
}

type set = map[string]any

var null = json.RawMessage("null")

func finding(set map[string]any) []any {
	f := map[string]any{"severity": "low", "file": "a.go", "line": 3, "title": "T", "body": "B", "recommendation": null}
	maps.Copy(f, set)
	return []any{f}
}

// TestResultRules is every rule of the contract: the change that breaks it,
// and what the error says; an empty one means that the result is valid.
func TestResultRules(t *testing.T) {
	t.Parallel()
	review := func(s set) set {
		all := set{"review.mode": "pull_request", "review.evidence_status": "complete", "review.reviewed_files": []string{"a.go"}}
		maps.Copy(all, s)
		return all
	}
	for name, c := range map[string]struct {
		set  set
		want string
	}{
		"good":                        {set{}, ""},
		"unknown fields":              {set{"events": []int{1}, "review.model": "x"}, ""},
		"no version":                  {set{"contract_version": nil}, "contract_version: is missing"},
		"other version":               {set{"contract_version": "1"}, `contract_version: "1" is not "2"`},
		"version as a number":         {set{"contract_version": 2}, "contract_version: number is not allowed"},
		"no status":                   {set{"status": nil}, "status: is missing"},
		"unknown status":              {set{"status": "done"}, `status: "done" is not one of`},
		"branch null":                 {set{"branch": null}, ""},
		"branch as a list":            {set{"branch": []int{}}, "branch: array is not allowed"},
		"branch with a blank":         {set{"branch": "a b"}, "branch: "},
		"branch like an option":       {set{"branch": "--force"}, "branch: "},
		"branch upwards":              {set{"branch": "a/../b"}, "branch: "},
		"branch with a control":       {set{"branch": "a\nb"}, "branch: "},
		"no commits":                  {set{"commits": nil}, "commits: is missing"},
		"commits null":                {set{"commits": null}, "commits: is missing"},
		"commit without sha":          {set{"commits": []set{{"message": "m"}}}, "commits[0].sha: is missing"},
		"commit sha":                  {set{"commits": []set{{"sha": "xyz", "message": "m"}}}, "commits[0].sha: "},
		"no files":                    {set{"files_changed": nil}, "files_changed: is missing"},
		"files as a number":           {set{"files_changed": 3}, "files_changed: number is not allowed"},
		"a file as a number":          {set{"files_changed": []any{"a", 3}}, "files_changed: number is not allowed"},
		"no summary":                  {set{"summary": nil}, "summary: is missing"},
		"no pr_body":                  {set{"pr_body": nil}, "pr_body: is missing"},
		"no review":                   {set{"review": nil}, "review: is missing"},
		"success with exit_reason":    {set{"exit_reason": "test_failure"}, "exit_reason: status success has none"},
		"unknown exit_reason":         {set{"status": "failure", "exit_reason": "bored"}, `exit_reason: "bored" is not one of`},
		"failure":                     {set{"status": "failure", "exit_reason": "test_failure"}, ""},
		"failure without exit_reason": {set{"status": "failure"}, "exit_reason: status failure needs one"},
		"needs_input":                 {set{"status": "needs_input", "exit_reason": "ambiguous_spec"}, ""},
		"needs_input without":         {set{"status": "needs_input"}, "exit_reason: status needs_input needs one"},
		"partial with":                {set{"status": "partial", "exit_reason": "git_conflict"}, ""},
		"partial without":             {set{"status": "partial"}, ""},
		"review":                      {review(set{}), ""},
		"review of a comment":         {review(set{"review.mode": "review_comment"}), ""},
		"unknown mode":                {review(set{"review.mode": "deep"}), "review.mode: "},
		"mode none with evidence":     {set{"review.evidence_status": "complete"}, "review.evidence_status: mode none needs not_applicable"},
		"review without evidence":     {review(set{"review.evidence_status": "not_applicable"}), "review.evidence_status: mode pull_request needs evidence"},
		"unknown evidence":            {review(set{"review.evidence_status": "some"}), "review.evidence_status: "},
		"review without files":        {review(set{"review.reviewed_files": []string{}}), "review.reviewed_files: mode pull_request needs one"},
		"partial, without files":      {review(set{"review.evidence_status": "partial", "review.reviewed_files": []string{}}), "review.reviewed_files: "},
		"missing, without files":      {review(set{"review.evidence_status": "missing", "review.reviewed_files": []string{}}), ""},
		"no reviewed_files":           {review(set{"review.reviewed_files": nil}), "review.reviewed_files: is missing"},
		"no supporting_files":         {set{"review.supporting_files": nil}, "review.supporting_files: is missing"},
		"no findings":                 {set{"review.findings": nil}, "review.findings: is missing"},
		"no tests_run":                {set{"review.tests_run": nil}, "review.tests_run: is missing"},
		"no limitations":              {set{"review.limitations": nil}, "review.limitations: is missing"},
		"finding":                     {review(set{"review.findings": finding(set{})}), ""},
		"finding without a line":      {review(set{"review.findings": finding(set{"line": null})}), ""},
		"finding, severity":           {review(set{"review.findings": finding(set{"severity": "bad"})}), "review.findings[0].severity: "},
		"finding, no file":            {review(set{"review.findings": finding(set{"file": ""})}), "review.findings[0].file: "},
		"finding, no title":           {review(set{"review.findings": finding(set{"title": " "})}), "review.findings[0].title: "},
		"finding, no body":            {review(set{"review.findings": finding(set{"body": ""})}), "review.findings[0].body: "},
		"finding, line -1":            {review(set{"review.findings": finding(set{"line": -1})}), "review.findings[0].line: "},
		"finding, line 1.5":           {review(set{"review.findings": finding(set{"line": 1.5})}), "review.findings.line: number 1.5 is not allowed"},
		"test run":                    {set{"review.tests_run": []set{{"command": "go test", "status": "passed", "output_summary": null}}}, ""},
		"test run, status":            {set{"review.tests_run": []set{{"command": "go test", "status": "ok"}}}, "review.tests_run[0].status: "},
		"test run, no command":        {set{"review.tests_run": []set{{"status": "passed"}}}, "review.tests_run[0].command: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := parseResult([]byte(change(t, c.set)), redact.New())
			if c.want == "" {
				require.NoError(t, err)
				require.NotNil(t, res)
				return
			}
			require.ErrorIs(t, err, ErrResult)
			require.ErrorContains(t, err, "result.json: "+c.want)
		})
	}
	for _, text := range []string{"", "{", "null", "[]", `"x"`, good + "{}"} {
		_, err := parseResult([]byte(text), redact.New())
		require.ErrorIs(t, err, ErrResult, "%q", text)
	}
}

func TestResultIsReadWhole(t *testing.T) {
	t.Parallel()
	res, err := parseResult([]byte(change(t, set{
		"review.mode": "pull_request", "review.evidence_status": "complete", "review.reviewed_files": []string{"a.go"},
		"review.findings":  finding(set{"recommendation": "R"}),
		"review.tests_run": []set{{"command": "go test", "status": "failed", "output_summary": "1 failed"}},
	})), redact.New())
	require.NoError(t, err)
	require.Equal(t, &Result{
		ContractVersion: "2", Status: task.ResultSuccess, Branch: "fix/7", Commits: []Commit{{"a1b2c3d", "Fix"}},
		FilesChanged: []string{"a.go"}, Summary: "Fixed it.", PRBody: "Body.",
		Review: Review{
			Mode: ReviewPullRequest, EvidenceStatus: EvidenceComplete, ReviewedFiles: []string{"a.go"},
			SupportingFiles: []string{}, Limitations: []string{},
			Findings: []Finding{{SeverityLow, "a.go", 3, "T", "B", "R"}},
			TestsRun: []TestRun{{"go test", TestFailed, "1 failed"}},
		},
	}, res)
}

// TestDT105EveryTextOfAResult puts a live token and a token's shape into
// every text of a result; none may come out again.
func TestDT105EveryTextOfAResult(t *testing.T) {
	t.Parallel()
	const live, shape = "live-value-1", "ghs_0123456789abcdefghij"
	const text = "x " + live + " " + shape
	b := change(t, set{
		"commits": []set{{"sha": "a1b2c3d", "message": text}}, "files_changed": []string{text}, "summary": text, "pr_body": text,
		"review.mode": "pull_request", "review.evidence_status": "complete", "review.reviewed_files": []string{text},
		"review.supporting_files": []string{text}, "review.limitations": []string{text}, "review.no_findings_reason": text,
		"review.findings":  finding(set{"file": text, "title": text, "body": text, "recommendation": text}),
		"review.tests_run": []set{{"command": text, "status": "passed", "output_summary": text}},
	})
	scan := func(r *redact.Redactor) string {
		res, err := parseResult([]byte(b), r)
		require.NoError(t, err)
		out, err := json.Marshal(res)
		require.NoError(t, err)
		return string(out)
	}
	require.Contains(t, scan(redact.New()), live, "control")
	out := scan(redact.New(live))
	require.NotContains(t, out, live)
	require.NotContains(t, out, shape)
	require.Equal(t, 2*14, strings.Count(out, redact.Marker))

	for _, bad := range []set{
		{"status": text}, {"branch": text}, {"exit_reason": text}, {"contract_version": text},
		{"commits": []set{{"sha": text, "message": ""}}}, {"review.mode": text},
	} {
		_, err := parseResult([]byte(change(t, bad)), redact.New(live))
		require.Error(t, err)
		require.NotContains(t, err.Error(), live, "errors quote no token either")
	}
}

// FuzzResult: whatever a command writes, the parser answers with a result
// that holds the rules or with an error.
func FuzzResult(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"review":{"findings":[{}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		res, err := parseResult(b, redact.New("secret-value"))
		if err != nil {
			require.ErrorIs(t, err, ErrResult)
			return
		}
		require.Contains(t, []task.ResultStatus{task.ResultSuccess, task.ResultPartial, task.ResultFailure, task.ResultNeedsInput}, res.Status)
		require.NotContains(t, res.Summary, "secret-value")
	})
}
