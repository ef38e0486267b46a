package task

import (
	"encoding/json"
	"fmt"
)

// KindName names what a task does; it is the `kind` tag on the wire.
type KindName string

// The closed list of kinds (REQUIREMENTS §Task kinds).
const (
	FixIssue             KindName = "fix_issue"
	AddressReviewComment KindName = "address_review_comment"
	ReviewPullRequest    KindName = "review_pull_request"
	CommandReply         KindName = "command_reply"
	CancelReviews        KindName = "cancel_reviews"
	Custom               KindName = "custom"
)

// KindNames lists every kind, in the order of the requirements.
var KindNames = []KindName{FixIssue, AddressReviewComment, ReviewPullRequest, CommandReply, CancelReviews, Custom}

// Kind is a task's payload: JSON tagged by `kind`, snake_case, with exactly
// the fields of its name. Go fields not of that name are ignored on writing.
//
//	fix_issue{issue_number, issue_title, issue_body}
//	address_review_comment{pr_number, comment_body, diff_hunk?}
//	review_pull_request{pr_number, pr_title, reason}
//	command_reply{issue_number, body}
//	cancel_reviews{pr_number}
//	custom{name, event, action?, ref?, before?, after?, sha?, number?, title?, url?}
type Kind struct {
	Name KindName

	IssueNumber int
	IssueTitle  string
	IssueBody   string

	PRNumber    int
	PRTitle     string
	Reason      string
	CommentBody string
	DiffHunk    string

	Body string

	Custom CustomKind
}

// CustomKind is the payload of a task that a configured rule made.
type CustomKind struct {
	Name   string `json:"name"`
	Event  string `json:"event"`
	Action string `json:"action,omitempty"`
	Ref    string `json:"ref,omitempty"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	SHA    string `json:"sha,omitempty"`
	Number int    `json:"number,omitempty"`
	Title  string `json:"title,omitempty"`
	URL    string `json:"url,omitempty"`
}

type fixIssueWire struct {
	Kind        KindName `json:"kind"`
	IssueNumber int      `json:"issue_number"`
	IssueTitle  string   `json:"issue_title"`
	IssueBody   string   `json:"issue_body"`
}

type addressWire struct {
	Kind        KindName `json:"kind"`
	PRNumber    int      `json:"pr_number"`
	CommentBody string   `json:"comment_body"`
	DiffHunk    string   `json:"diff_hunk,omitempty"`
}

type reviewWire struct {
	Kind     KindName `json:"kind"`
	PRNumber int      `json:"pr_number"`
	PRTitle  string   `json:"pr_title"`
	Reason   string   `json:"reason"`
}

type replyWire struct {
	Kind        KindName `json:"kind"`
	IssueNumber int      `json:"issue_number"`
	Body        string   `json:"body"`
}

type cancelWire struct {
	Kind     KindName `json:"kind"`
	PRNumber int      `json:"pr_number"`
}

type customWire struct {
	Kind KindName `json:"kind"`
	CustomKind
}

// MarshalJSON writes the fields of the kind's own shape.
func (k Kind) MarshalJSON() ([]byte, error) {
	switch k.Name {
	case FixIssue:
		return json.Marshal(fixIssueWire{k.Name, k.IssueNumber, k.IssueTitle, k.IssueBody})
	case AddressReviewComment:
		return json.Marshal(addressWire{k.Name, k.PRNumber, k.CommentBody, k.DiffHunk})
	case ReviewPullRequest:
		return json.Marshal(reviewWire{k.Name, k.PRNumber, k.PRTitle, k.Reason})
	case CommandReply:
		return json.Marshal(replyWire{k.Name, k.IssueNumber, k.Body})
	case CancelReviews:
		return json.Marshal(cancelWire{k.Name, k.PRNumber})
	case Custom:
		return json.Marshal(customWire{k.Name, k.Custom})
	}
	return nil, fmt.Errorf("unknown task kind %q", k.Name)
}

// UnmarshalJSON reads any of the shapes; an unknown tag is an error, so that
// a record of a newer belay is refused and not half-read.
func (k *Kind) UnmarshalJSON(b []byte) error {
	var w struct {
		Kind        KindName `json:"kind"`
		IssueNumber int      `json:"issue_number"`
		IssueTitle  string   `json:"issue_title"`
		IssueBody   string   `json:"issue_body"`
		PRNumber    int      `json:"pr_number"`
		PRTitle     string   `json:"pr_title"`
		Reason      string   `json:"reason"`
		CommentBody string   `json:"comment_body"`
		DiffHunk    string   `json:"diff_hunk"`
		Body        string   `json:"body"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("parse task kind: %w", err)
	}
	*k = Kind{
		Name: w.Kind, IssueNumber: w.IssueNumber, IssueTitle: w.IssueTitle, IssueBody: w.IssueBody,
		PRNumber: w.PRNumber, PRTitle: w.PRTitle, Reason: w.Reason, CommentBody: w.CommentBody,
		DiffHunk: w.DiffHunk, Body: w.Body,
	}
	switch w.Kind {
	case FixIssue, AddressReviewComment, ReviewPullRequest, CommandReply, CancelReviews:
		return nil
	case Custom:
		return json.Unmarshal(b, &k.Custom)
	}
	return fmt.Errorf("unknown task kind %q", w.Kind)
}

// Number is the issue or pull request the task is about, 0 when none.
func (k Kind) Number() int {
	switch k.Name {
	case FixIssue, CommandReply:
		return k.IssueNumber
	case AddressReviewComment, ReviewPullRequest, CancelReviews:
		return k.PRNumber
	case Custom:
		return k.Custom.Number
	}
	return 0
}

// Title is the line that lists show (REQUIREMENTS §API).
func (k Kind) Title() string {
	switch k.Name {
	case ReviewPullRequest:
		return fmt.Sprintf("Review PR #%d: %s", k.PRNumber, k.PRTitle)
	case AddressReviewComment:
		return fmt.Sprintf("Address review on PR #%d", k.PRNumber)
	case CommandReply:
		return fmt.Sprintf("Reply on #%d", k.IssueNumber)
	case CancelReviews:
		return fmt.Sprintf("Cancel queued reviews on PR #%d", k.PRNumber)
	case Custom:
		if k.Custom.Title != "" {
			return k.Custom.Name + ": " + k.Custom.Title
		}
		return k.Custom.Name
	}
	return k.IssueTitle
}
