package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// ErrBriefToken means that a live token value would have stood in the brief.
// It is a fault of what belay read or was configured with; nothing was run.
var ErrBriefToken = errors.New("the session brief would contain a live token")

// The triggers of a brief.
const (
	triggerAssigned = "issue_assigned"
	triggerMention  = "issue_mention"
	triggerPR       = "pr_review_comment"
)

type brief struct {
	ContractVersion  string         `json:"contract_version"`
	Trigger          string         `json:"trigger"`
	Repo             briefRepo      `json:"repo"`
	Task             task.Kind      `json:"task"`
	Familiar         briefFamiliar  `json:"familiar"`
	Workspace        briefWorkspace `json:"workspace"`
	ReviewContext    *reviewContext `json:"review_context,omitempty"`
	AuditInstruction string         `json:"audit_instruction,omitempty"`
}

type briefRepo struct {
	Owner         string `json:"owner"`
	Name          string `json:"name"`
	CloneURL      string `json:"clone_url"`
	DefaultBranch string `json:"default_branch"`
}

type briefFamiliar struct {
	ID          string   `json:"id"`
	DisplayName string   `json:"display_name"`
	Model       string   `json:"model,omitempty"`
	Skills      []string `json:"skills"`
}

type briefWorkspace struct {
	Root string `json:"root"`
}

type reviewContext struct {
	Kind  string       `json:"kind"`
	Files []reviewFile `json:"files"`
}

type reviewFile struct {
	Filename string `json:"filename"`
}

// trigger maps a task to the contract's trigger: every pull request surface
// is pr_review_comment; commands and rules are mentions.
func trigger(r *task.Record) string {
	switch r.Kind.Name {
	case task.AddressReviewComment, task.ReviewPullRequest, task.CancelReviews:
		return triggerPR
	case task.FixIssue:
		if r.Commander == "" && r.Rule == nil {
			return triggerAssigned
		}
	}
	return triggerMention
}

// encodeBrief writes session-brief.json, or ErrBriefToken if a live value of
// live appears in it.
func encodeBrief(job *Job, root string, live *redact.Redactor) ([]byte, error) {
	owner, name, ok := strings.Cut(job.Task.Repo, "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("write brief: repo %q is not owner/name", job.Task.Repo)
	}
	b := brief{
		ContractVersion: ContractVersion,
		Trigger:         trigger(&job.Task),
		Repo:            briefRepo{owner, name, plainURL(job.Task.CloneURL), job.Task.DefaultBranch},
		Task:            job.Task.Kind,
		Familiar: briefFamiliar{
			job.Familiar.ID, job.Familiar.DisplayName, job.Familiar.Model, append([]string{}, job.Familiar.Skills...),
		},
		Workspace:        briefWorkspace{root},
		AuditInstruction: job.AuditInstruction,
	}
	if job.Task.Kind.Name == task.ReviewPullRequest {
		b.ReviewContext = &reviewContext{Kind: "pull_request", Files: []reviewFile{}}
		for _, f := range job.ReviewFiles {
			b.ReviewContext.Files = append(b.ReviewContext.Files, reviewFile{f})
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(b); err != nil {
		return nil, fmt.Errorf("write brief: %w", err)
	}
	if live.Contains(out.String()) {
		return nil, fmt.Errorf("write brief: %w", ErrBriefToken)
	}
	return out.Bytes(), nil
}

// plainURL returns a clone URL without userinfo, which the contract forbids.
func plainURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return s
	}
	u.User = nil
	return u.String()
}
