package githubapp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-github/v88/github"
)

// PullSpec says which pull request is wanted.
type PullSpec struct {
	Branch string // of the repository itself
	Base   string // "" is the default branch
	Title  string
	Body   string
}

// EnsurePull returns the pull request of a branch, in whatever state it is;
// one that is missing is created as a draft, or as an ordinary one where
// drafts are refused. created reports the latter two. A branch that does not
// exist or has no commits of its own is ErrValidation.
func (c *Client) EnsurePull(ctx context.Context, repo Repo, spec PullSpec) (pull Pull, created bool, err error) {
	if spec.Branch == "" {
		return Pull{}, false, &Error{Kind: ErrValidation, Op: "create pull request", Message: "there is no branch"}
	}
	if spec.Base == "" {
		if spec.Base, err = c.DefaultBranch(ctx, repo); err != nil {
			return Pull{}, false, err
		}
	}
	got, err := ensure(ctx, c,
		func() (*Pull, error) { return c.FindPull(ctx, repo, spec.Branch) },
		func() (*Pull, error) {
			created = true
			p, err := c.createPull(ctx, repo, spec, true)
			if refused(err, "draft pull requests are not supported") {
				p, err = c.createPull(ctx, repo, spec, false)
			}
			if refused(err, "a pull request already exists") {
				err = fmt.Errorf("%w: %w", errDuplicate, err)
			}
			return p, err
		})
	if err != nil {
		return Pull{}, false, err
	}
	return *got, created, nil
}

// refused reports a 422 with certain words.
func refused(err error, words string) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == ErrValidation && strings.Contains(strings.ToLower(e.Message), words)
}

// FindPull looks for the pull request of a branch of the repository itself:
// an open one, else the newest; nil if there is none.
func (c *Client) FindPull(ctx context.Context, repo Repo, branch string) (found *Pull, err error) {
	q := request{op: "list pull requests", repo: repo, role: Publication}
	opts := &github.PullRequestListOptions{State: "all", Head: repo.Owner + ":" + branch}
	err = pages(func(at github.ListOptions) (*github.Response, error) {
		opts.ListOptions = at
		var got []*github.PullRequest
		var resp *github.Response
		err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
			var err error
			got, resp, err = gh.PullRequests.List(ctx, repo.Owner, repo.Name, opts)
			return resp, err
		})
		for _, p := range got {
			if p.GetHead().GetRef() != branch || p.GetHead().GetRepo().GetID() != repo.ID {
				continue
			}
			if found == nil || found.State != "open" && (p.GetState() == "open" || p.GetNumber() > found.Number) {
				k := pullOf(p)
				found = &k
			}
		}
		return resp, err
	})
	return found, err
}

func (c *Client) createPull(ctx context.Context, repo Repo, spec PullSpec, draft bool) (*Pull, error) {
	title, body := oneLine(spec.Title, maxTitle), cut(spec.Body, maxBody)
	var got *github.PullRequest
	q := request{op: "create pull request", effect: create, repo: repo, role: Publication}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.PullRequests.Create(ctx, repo.Owner, repo.Name, &github.NewPullRequest{
			Title: &title, Head: &spec.Branch, Base: &spec.Base, Body: &body, Draft: &draft,
		})
		return resp, err
	})
	if err != nil {
		return nil, err
	}
	if got.GetNumber() == 0 {
		return nil, shapeless(q.op, q.effect)
	}
	p := pullOf(got)
	return &p, nil
}
