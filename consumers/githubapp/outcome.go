package githubapp

import (
	"slices"

	"github.com/belay-run/belay/kv/task"
)

// Outcome is what a run ended with, as the command's validated and redacted
// result says. The worker makes it from the executor's.
type Outcome struct {
	Status     task.ResultStatus `json:"status,omitempty"`
	ExitReason string            `json:"exit_reason,omitempty"`
	Summary    string            `json:"summary,omitempty"`
	PRBody     string            `json:"pr_body,omitempty"`
	Branch     string            `json:"branch,omitempty"`
	Commits    int               `json:"commits,omitempty"`
	Review     *Review           `json:"review,omitempty"` // nil: the result is no review
}

// Evidence says how much of the code a review saw.
type Evidence string

// The evidence statuses of a review.
const (
	EvidenceComplete Evidence = "complete"
	EvidencePartial  Evidence = "partial"
	EvidenceMissing  Evidence = "missing"
)

// Review is the review of a result.
type Review struct {
	Evidence         Evidence  `json:"evidence,omitempty"`
	ReviewedFiles    []string  `json:"reviewed_files,omitempty"`
	SupportingFiles  []string  `json:"supporting_files,omitempty"`
	Findings         []Finding `json:"findings,omitempty"`
	Tests            []TestRun `json:"tests,omitempty"`
	NoFindingsReason string    `json:"no_findings_reason,omitempty"`
	Limitations      []string  `json:"limitations,omitempty"`
}

// Finding is one remark; line 0 is the whole file.
type Finding struct {
	Severity       string `json:"severity,omitempty"` // critical, high, medium, low, info
	File           string `json:"file,omitempty"`
	Line           int    `json:"line,omitempty"`
	Title          string `json:"title,omitempty"`
	Body           string `json:"body,omitempty"`
	Recommendation string `json:"recommendation,omitempty"`
}

// TestRun is a command that the review ran.
type TestRun struct {
	Command string `json:"command,omitempty"`
	Status  string `json:"status,omitempty"`
	Output  string `json:"output,omitempty"`
}

// severities in the order in which findings are shown.
var severities = []string{"critical", "high", "medium", "low", "info"}

// gate returns the findings that have evidence, worst first, and how many
// have none: without evidence there are none to show, and a finding has to be
// about a file that the review read.
func (r *Review) gate() (shown []Finding, withheld int) {
	for _, f := range r.Findings {
		if r.Evidence == EvidenceMissing || !slices.Contains(r.ReviewedFiles, f.File) && !slices.Contains(r.SupportingFiles, f.File) {
			withheld++
			continue
		}
		shown = append(shown, f)
	}
	slices.SortStableFunc(shown, func(a, b Finding) int { return place(a.Severity) - place(b.Severity) })
	return shown, withheld
}

func place(severity string) int {
	if i := slices.Index(severities, severity); i >= 0 {
		return i
	}
	return len(severities)
}

// conclude is the mapping of an outcome to a check run (REQUIREMENTS §Contract).
func (o *Outcome) conclude() (Conclusion, string) {
	switch {
	case o.Status == task.ResultFailure:
		return Failure, "Failed"
	case o.Status == task.ResultNeedsInput:
		return ActionRequired, "Needs input"
	case o.Status == task.ResultPartial, o.Review != nil && o.Review.Evidence != EvidenceComplete:
		return Neutral, "Partial"
	case o.Status == task.ResultSuccess:
		return Success, "Completed"
	}
	return Neutral, "Partial"
}
