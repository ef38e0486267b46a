package github

import "time"

// Event is what routing reads of a payload. Zero values are absent ones.
type Event struct {
	Action       string
	Installation int64 // installation.id
	Repository   Repository
	Sender       string // sender.login
	Assignee     string // assignee.login
	Label        string // label.name
	Number       int    // number, of pull_request events
	Ref          string // ref, of events of branches and tags
	RefType      string // ref_type, of create and delete events
	Branch       string // branch, of repository_dispatch events
	Before       string // before, the head that a push replaced
	After        string // after, the head that it made
	SHA          string // sha, of status events
	Compare      string // compare, where a push is to be seen
	Deleted      bool   // deleted, of push events
	HeadCommit   Commit
	Issue        Issue
	PullRequest  PullRequest
	Comment      Comment
	Review       Comment
	Subject      Subject
}

// Commit is the head commit of a push.
type Commit struct {
	Title string // the first line of its message
	At    time.Time
}

// Repository is the base repository, the one that the hook belongs to.
type Repository struct {
	ID            int64
	FullName      string
	CloneURL      string
	DefaultBranch string
	PushedAt      time.Time // of push events; in others it is not theirs
}

// Issue is an issue, or the issue side of a pull request.
type Issue struct {
	Number        int
	Title         string
	Body          string
	Author        string
	URL           string
	Labels        []string
	App           int64 // performed_via_github_app.id, 0 if no App made it
	IsPullRequest bool
	UpdatedAt     time.Time
}

// PullRequest is a pull request. Its head repository is not read: it may be
// gone (G16), and nothing depends on it.
type PullRequest struct {
	Number    int
	Title     string
	Draft     bool
	Author    string
	URL       string
	Labels    []string
	HeadSHA   string // head.sha, never merge_commit_sha (G27)
	BaseRef   string // base.ref, the branch that it is for
	UpdatedAt time.Time
}

// Comment is an issue's comment, a review's comment, or a review itself.
type Comment struct {
	Author    string
	Body      string
	DiffHunk  string
	UpdatedAt time.Time // updated_at, or a review's submitted_at
}

// number is the issue or pull request that the event is about, 0 when none.
func (ev *Event) number() int {
	for _, n := range []int{ev.Issue.Number, ev.PullRequest.Number, ev.Number} {
		if n != 0 {
			return n
		}
	}
	return 0
}

// occurredAt is the newest time that GitHub itself wrote into the payload,
// zero when there is none. A push names only its repository's; a commit's own
// time is its author's word and comes last.
func (ev *Event) occurredAt() time.Time {
	var newest time.Time
	for _, t := range []time.Time{
		ev.Issue.UpdatedAt, ev.PullRequest.UpdatedAt, ev.Comment.UpdatedAt, ev.Review.UpdatedAt,
		ev.Subject.UpdatedAt, ev.Subject.CompletedAt,
	} {
		if t.After(newest) {
			newest = t
		}
	}
	switch {
	case !newest.IsZero():
		return newest
	case !ev.Repository.PushedAt.IsZero():
		return ev.Repository.PushedAt
	}
	return ev.HeadCommit.At
}
