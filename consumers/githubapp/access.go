package githubapp

import (
	"context"
	"errors"
	"slices"

	"github.com/google/go-github/v88/github"
)

// The pages that a list is read for at most, at 100 entries each. GitHub ends
// comments of one issue at 2,500 and files of one pull request at 3,000.
const maxPages = 50

// Permission is a login's role in a repository: admin, maintain, write,
// triage, read, none or the name of a custom role; of a custom role it is
// what it is based on if that decides more. Nobody GitHub knows of is none.
func (c *Client) Permission(ctx context.Context, repo Repo, login string) (string, error) {
	if !validLogin(login) {
		return "none", nil
	}
	var got *github.RepositoryPermissionLevel
	q := request{op: "get permission", repo: repo, role: Orchestration}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Repositories.GetPermissionLevel(ctx, repo.Owner, repo.Name, login)
		return resp, err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return "none", nil
	case err != nil:
		return "", err
	}
	switch base, role := got.GetPermission(), got.GetRoleName(); {
	case base == "":
		return "", &Error{Kind: ErrTransient, Op: q.op, Message: "the answer has no permission"}
	case role == "maintain" || role == "triage": // as permission they are write and read
		return role, nil
	default:
		return base, nil
	}
}

// CanWrite reports whether a login may command: admin, maintain or write.
func (c *Client) CanWrite(ctx context.Context, repo Repo, login string) (bool, error) {
	p, err := c.Permission(ctx, repo, login)
	return slices.Contains([]string{"admin", "maintain", "write"}, p), err
}

// validLogin keeps a path of the API from being anything but a login.
func validLogin(s string) bool {
	if s == "" || len(s) > 100 || s == "." || s == ".." {
		return false
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '[' || r == ']') {
			return false
		}
	}
	return true
}

// Pull is a pull request as it is now.
type Pull struct {
	Number  int
	Title   string
	State   string // open or closed
	Draft   bool
	HeadSHA string // of the branch, never of the test merge (G27)
	HeadRef string
	BaseRef string
	Author  string
	URL     string
}

// closedPull is the state of a pull request that is closed or merged.
const closedPull = "closed"

// Head reads a pull request, above all its head.
func (c *Client) Head(ctx context.Context, repo Repo, number int) (Pull, error) {
	var got *github.PullRequest
	q := request{op: "get pull request", repo: repo, role: Orchestration}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.PullRequests.Get(ctx, repo.Owner, repo.Name, number)
		return resp, err
	})
	if err != nil {
		return Pull{}, err
	}
	out := pullOf(got)
	if out.HeadSHA == "" || out.Number != number {
		return Pull{}, shapeless(q.op, q.effect)
	}
	return out, nil
}

func pullOf(p *github.PullRequest) Pull {
	return Pull{
		Number: p.GetNumber(), Title: p.GetTitle(), State: p.GetState(), Draft: p.GetDraft(), HeadSHA: p.GetHead().GetSHA(),
		HeadRef: p.GetHead().GetRef(), BaseRef: p.GetBase().GetRef(), Author: p.GetUser().GetLogin(), URL: p.GetHTMLURL(),
	}
}

// PullFiles lists the changed files of a pull request. more reports that there
// are others: GitHub lists 3,000.
func (c *Client) PullFiles(ctx context.Context, repo Repo, number int) (names []string, more bool, err error) {
	const most = 3000
	q := request{op: "list files of pull request", repo: repo, role: Orchestration}
	err = pages(func(at github.ListOptions) (*github.Response, error) {
		var got []*github.CommitFile
		var resp *github.Response
		err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
			var err error
			got, resp, err = gh.PullRequests.ListFiles(ctx, repo.Owner, repo.Name, number, &at)
			return resp, err
		})
		for _, f := range got {
			names = append(names, f.GetFilename())
		}
		return resp, err
	})
	if err != nil {
		return nil, false, err
	}
	return names[:min(len(names), most)], len(names) >= most, nil
}

// pages calls f for each page. More than maxPages are an error, since what
// was looked for might be on the next one.
func pages(f func(github.ListOptions) (*github.Response, error)) error {
	at := github.ListOptions{PerPage: 100}
	for range maxPages {
		resp, err := f(at)
		if err != nil || resp == nil || resp.NextPage == 0 {
			return err
		}
		at.Page = resp.NextPage
	}
	return &Error{Kind: ErrValidation, Op: "list", Message: "there are more pages than belay reads"}
}

// BranchHead is the commit that a branch points to; branch "" is the default one.
func (c *Client) BranchHead(ctx context.Context, repo Repo, branch string) (sha string, err error) {
	if branch == "" {
		if branch, err = c.DefaultBranch(ctx, repo); err != nil {
			return "", err
		}
	}
	var got *github.Reference
	q := request{op: "get head of branch", repo: repo, role: Orchestration}
	err = c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Git.GetRef(ctx, repo.Owner, repo.Name, "heads/"+branch)
		return resp, err
	})
	if err == nil && got.GetObject().GetSHA() == "" {
		err = shapeless(q.op, q.effect)
	}
	return got.GetObject().GetSHA(), err
}

// DefaultBranch is the name of the repository's default branch.
func (c *Client) DefaultBranch(ctx context.Context, repo Repo) (string, error) {
	var got *github.Repository
	q := request{op: "get repository", repo: repo, role: Orchestration}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Repositories.GetByID(ctx, repo.ID)
		return resp, err
	})
	if err == nil && got.GetDefaultBranch() == "" {
		err = shapeless(q.op, q.effect)
	}
	return got.GetDefaultBranch(), err
}
