package githubapp

import (
	"slices"

	"github.com/belay-run/belay/kv/task"
)

// Outcome is what a run ended with, as the command's validated and redacted
// result says. The worker makes it from the executor's.
type Outcome struct {
	Status     task.ResultStatus
	ExitReason string
	Summary    string
	PRBody     string
	Branch     string
	Commits    int
	Review     *Review // nil: the result is no review
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
	Evidence         Evidence
	ReviewedFiles    []string
	SupportingFiles  []string
	Findings         []Finding
	Tests            []TestRun
	NoFindingsReason string
	Limitations      []string
}

// Finding is one remark; line 0 is the whole file.
type Finding struct {
	Severity       string // critical, high, medium, low, info
	File           string
	Line           int
	Title          string
	Body           string
	Recommendation string
}

// TestRun is a command that the review ran.
type TestRun struct {
	Command string
	Status  string
	Output  string
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
