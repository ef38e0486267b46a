package githubapp

import (
	"context"
	"errors"

	"github.com/google/go-github/v88/github"
)

func (c *Client) createComment(ctx context.Context, t Thread, body string) (*Comment, error) {
	var got *github.IssueComment
	q := request{op: "create comment", effect: create, repo: t.Repo, role: Orchestration}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Issues.CreateComment(ctx, t.Repo.Owner, t.Repo.Name, t.Number, &github.IssueComment{Body: &body})
		return resp, err
	})
	if err != nil {
		return nil, err
	}
	if got.GetID() == 0 {
		return nil, shapeless(q.op, q.effect)
	}
	return &Comment{got.GetID(), got.GetHTMLURL(), got.GetBody()}, nil
}

// editComment makes a known comment say body; no request if it does.
func (c *Client) editComment(ctx context.Context, t Thread, k Comment, body string) (Comment, error) {
	if k.Body == body {
		return k, nil
	}
	var got *github.IssueComment
	q := request{op: "edit comment", effect: edit, repo: t.Repo, role: Orchestration}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Issues.EditComment(ctx, t.Repo.Owner, t.Repo.Name, k.ID, &github.IssueComment{Body: &body})
		return resp, err
	})
	if err != nil {
		return k, err
	}
	if got.GetID() != k.ID {
		return k, shapeless(q.op, q.effect)
	}
	return Comment{k.ID, got.GetHTMLURL(), got.GetBody()}, nil
}

// deleteComment takes a comment back; one that is gone is no error.
func (c *Client) deleteComment(ctx context.Context, t Thread, id int64) error {
	q := request{op: "delete comment", effect: edit, repo: t.Repo, role: Orchestration}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		return gh.Issues.DeleteComment(ctx, t.Repo.Owner, t.Repo.Name, id)
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
