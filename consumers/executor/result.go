package executor

import "github.com/belay-run/belay/kv/task"

// ContractVersion is the version of brief and result.
const ContractVersion = "2"

// Result is a valid, redacted result.json.
type Result struct {
	ContractVersion string            `json:"contract_version"`
	Status          task.ResultStatus `json:"status"`
	Branch          string            `json:"branch,omitempty"`
	Commits         []Commit          `json:"commits"`
	FilesChanged    []string          `json:"files_changed"`
	Summary         string            `json:"summary"`
	PRBody          string            `json:"pr_body"`
	Review          Review            `json:"review"`
	ExitReason      ExitReason        `json:"exit_reason,omitempty"`
}

// Commit is one commit the command made.
type Commit struct {
	SHA     string `json:"sha"`
	Message string `json:"message"`
}

// ReviewMode says whether a result is a review, and of what.
type ReviewMode string

// The review modes.
const (
	ReviewNone        ReviewMode = "none"
	ReviewPullRequest ReviewMode = "pull_request"
	ReviewComment     ReviewMode = "review_comment"
)

// Evidence says how much of the code the review really saw.
type Evidence string

// The evidence statuses.
const (
	EvidenceNotApplicable Evidence = "not_applicable"
	EvidenceComplete      Evidence = "complete"
	EvidencePartial       Evidence = "partial"
	EvidenceMissing       Evidence = "missing"
)

// Review is the review part of a result; mode none where there was none.
type Review struct {
	Mode             ReviewMode `json:"mode"`
	EvidenceStatus   Evidence   `json:"evidence_status"`
	ReviewedFiles    []string   `json:"reviewed_files"`
	SupportingFiles  []string   `json:"supporting_files"`
	Findings         []Finding  `json:"findings"`
	TestsRun         []TestRun  `json:"tests_run"`
	NoFindingsReason string     `json:"no_findings_reason,omitempty"`
	Limitations      []string   `json:"limitations"`
}

// Severity ranks a finding.
type Severity string

// The severities.
const (
	SeverityInfo     Severity = "info"
	SeverityLow      Severity = "low"
	SeverityMedium   Severity = "medium"
	SeverityHigh     Severity = "high"
	SeverityCritical Severity = "critical"
)

// Finding is one remark of a review; line 0 means the whole file.
type Finding struct {
	Severity       Severity `json:"severity"`
	File           string   `json:"file"`
	Line           int      `json:"line,omitempty"`
	Title          string   `json:"title"`
	Body           string   `json:"body"`
	Recommendation string   `json:"recommendation,omitempty"`
}

// TestStatus says how a test run ended.
type TestStatus string

// The test statuses.
const (
	TestPassed  TestStatus = "passed"
	TestFailed  TestStatus = "failed"
	TestNotRun  TestStatus = "not_run"
	TestUnknown TestStatus = "unknown"
)

// TestRun is one command the review ran.
type TestRun struct {
	Command       string     `json:"command"`
	Status        TestStatus `json:"status"`
	OutputSummary string     `json:"output_summary,omitempty"`
}

// ExitReason says why a run did not succeed.
type ExitReason string

// The exit reasons.
const (
	ExitTestFailure   ExitReason = "test_failure"
	ExitAmbiguousSpec ExitReason = "ambiguous_spec"
	ExitGitConflict   ExitReason = "git_conflict"
	ExitInfraError    ExitReason = "infra_error"
)
