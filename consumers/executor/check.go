package executor

import (
	"fmt"

	"github.com/belay-run/belay/kv/task"
)

// result checks the rules of REQUIREMENTS §Contract with the command.
func (c *checker) result(w *resultWire) *Result {
	if v := c.need("contract_version", w.ContractVersion); w.ContractVersion != nil && v != ContractVersion {
		c.fault("contract_version", "%q is not %q", task.Cut(v, 64), ContractVersion)
	}
	res := &Result{
		ContractVersion: ContractVersion,
		Status: oneOf(c, "status", task.ResultStatus(c.need("status", w.Status)),
			task.ResultSuccess, task.ResultPartial, task.ResultFailure, task.ResultNeedsInput),
		Branch:       c.text(w.Branch),
		Commits:      c.commits(w.Commits),
		FilesChanged: c.texts("files_changed", w.FilesChanged),
		Summary:      c.need("summary", w.Summary),
		PRBody:       c.need("pr_body", w.PRBody),
	}
	if res.Branch != "" && !validBranch(res.Branch) {
		c.fault("branch", "%q is no branch name", task.Cut(res.Branch, 64))
	}
	if w.ExitReason != nil {
		res.ExitReason = oneOf(c, "exit_reason", ExitReason(c.text(w.ExitReason)),
			ExitTestFailure, ExitAmbiguousSpec, ExitGitConflict, ExitInfraError)
	}
	switch {
	case res.Status == task.ResultSuccess && res.ExitReason != "":
		c.fault("exit_reason", "status success has none")
	case (res.Status == task.ResultFailure || res.Status == task.ResultNeedsInput) && res.ExitReason == "":
		c.fault("exit_reason", "status %s needs one", res.Status)
	}
	if w.Review == nil {
		c.fault("review", "is missing")
		return res
	}
	res.Review = c.review(w.Review)
	return res
}

func (c *checker) commits(list *[]Commit) []Commit {
	if list == nil || *list == nil {
		c.fault("commits", "is missing")
		return nil
	}
	out := make([]Commit, len(*list))
	for i, m := range *list {
		at := fmt.Sprintf("commits[%d]", i)
		out[i] = Commit{SHA: c.some(at+".sha", m.SHA), Message: c.r.String(m.Message)}
		if !validSHA(m.SHA) {
			c.fault(at+".sha", "%q is no commit id", task.Cut(out[i].SHA, 64))
		}
	}
	return out
}

func (c *checker) review(w *reviewWire) Review {
	v := Review{
		Mode: oneOf(c, "review.mode", ReviewMode(c.need("review.mode", w.Mode)),
			ReviewNone, ReviewPullRequest, ReviewComment),
		EvidenceStatus: oneOf(c, "review.evidence_status", Evidence(c.need("review.evidence_status", w.EvidenceStatus)),
			EvidenceNotApplicable, EvidenceComplete, EvidencePartial, EvidenceMissing),
		ReviewedFiles:    c.texts("review.reviewed_files", w.ReviewedFiles),
		SupportingFiles:  c.texts("review.supporting_files", w.SupportingFiles),
		Findings:         c.findings(w.Findings),
		TestsRun:         c.tests(w.TestsRun),
		NoFindingsReason: c.text(w.NoFindingsReason),
		Limitations:      c.texts("review.limitations", w.Limitations),
	}
	switch {
	case v.Mode == ReviewNone && v.EvidenceStatus != EvidenceNotApplicable:
		c.fault("review.evidence_status", "mode none needs %s", EvidenceNotApplicable)
	case v.Mode != ReviewNone && v.EvidenceStatus == EvidenceNotApplicable:
		c.fault("review.evidence_status", "mode %s needs evidence", v.Mode)
	case v.Mode != ReviewNone && v.EvidenceStatus != EvidenceMissing && len(v.ReviewedFiles) == 0:
		c.fault("review.reviewed_files", "mode %s needs one, unless evidence is missing", v.Mode)
	}
	return v
}

func (c *checker) findings(list *[]Finding) []Finding {
	if list == nil || *list == nil {
		c.fault("review.findings", "is missing")
		return nil
	}
	out := make([]Finding, len(*list))
	for i, f := range *list {
		at := fmt.Sprintf("review.findings[%d]", i)
		out[i] = Finding{
			Severity: oneOf(c, at+".severity", f.Severity,
				SeverityInfo, SeverityLow, SeverityMedium, SeverityHigh, SeverityCritical),
			File: c.some(at+".file", f.File), Line: f.Line,
			Title: c.some(at+".title", f.Title), Body: c.some(at+".body", f.Body),
			Recommendation: c.r.String(f.Recommendation),
		}
		if f.Line < 0 {
			c.fault(at+".line", "%d is no line", f.Line)
		}
	}
	return out
}

func (c *checker) tests(list *[]TestRun) []TestRun {
	if list == nil || *list == nil {
		c.fault("review.tests_run", "is missing")
		return nil
	}
	out := make([]TestRun, len(*list))
	for i, t := range *list {
		at := fmt.Sprintf("review.tests_run[%d]", i)
		out[i] = TestRun{
			Command:       c.some(at+".command", t.Command),
			Status:        oneOf(c, at+".status", t.Status, TestPassed, TestFailed, TestNotRun, TestUnknown),
			OutputSummary: c.r.String(t.OutputSummary),
		}
	}
	return out
}
