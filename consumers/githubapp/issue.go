package githubapp

import (
	"context"
	"time"

	"github.com/google/go-github/v88/github"
)

// Issue is an issue of the App's own.
type Issue struct {
	Number    int
	URL       string
	Title     string
	Body      string
	CreatedAt time.Time
}

// CreateIssue sends exactly one request: no second try after a refusal, a 401
// or a lost answer, for one license is one POST (DESIGN §9). Whatever it
// returns but an Issue, only OwnIssues may settle.
func (c *Client) CreateIssue(ctx context.Context, repo Repo, title, body string, labels ...string) (Issue, error) {
	title, body = oneLine(title, maxTitle), cut(body, maxBody)
	var got *github.Issue
	q := request{op: "create issue", effect: create, repo: repo, role: Orchestration, once: true}
	in := &github.IssueRequest{Title: &title, Body: &body}
	if len(labels) > 0 {
		in.Labels = &labels
	}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Issues.Create(ctx, repo.Owner, repo.Name, in)
		return resp, err
	})
	if err != nil {
		return Issue{}, err
	}
	if got.GetNumber() == 0 || got.GetHTMLURL() == "" {
		return Issue{}, shapeless(q.op, q.effect)
	}
	return issueOf(got), nil
}

// OwnIssues lists the issues that the App's bot created and that changed since
// a time, newest first, whatever their state: where the evidence for a lost
// answer is.
func (c *Client) OwnIssues(ctx context.Context, repo Repo, since time.Time) (own []Issue, err error) {
	self, err := c.Login(ctx)
	if err != nil {
		return nil, err
	}
	q := request{op: "list issues", repo: repo, role: Orchestration}
	opts := &github.IssueListByRepoOptions{Creator: self, State: "all", Since: since}
	err = pages(func(at github.ListOptions) (*github.Response, error) {
		opts.ListOptions = at
		var got []*github.Issue
		var resp *github.Response
		err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
			var err error
			got, resp, err = gh.Issues.ListByRepo(ctx, repo.Owner, repo.Name, opts)
			return resp, err
		})
		for _, i := range got {
			if i.GetUser().GetType() == "Bot" && !i.IsPullRequest() {
				own = append(own, issueOf(i))
			}
		}
		return resp, err
	})
	return own, err
}

func issueOf(i *github.Issue) Issue {
	return Issue{Number: i.GetNumber(), URL: i.GetHTMLURL(), Title: i.GetTitle(), Body: i.GetBody(), CreatedAt: i.GetCreatedAt().Time}
}
