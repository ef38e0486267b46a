package githubapp

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v88/github"
)

// maxBody is the longest body of a comment or pull request, in bytes.
const maxBody = 65536

// Comment is a status comment.
type Comment struct {
	ID   int64
	URL  string
	Body string // as it is on GitHub, with the marker
}

// issueComment has what go-github's type lacks.
type issueComment struct {
	github.IssueComment
	Via *github.App `json:"performed_via_github_app"`
}

// EnsureComment makes the thread's status comment say body: the one that
// exists is edited in place, a missing one is created. body is Markdown that
// was made safe; it is cut to GitHub's limit.
func (c *Client) EnsureComment(ctx context.Context, t Thread, body string) (Comment, error) {
	return c.putComment(ctx, t, func(string) string { return body }, true)
}

// EditComment is EnsureComment for a comment that exists already; if there is
// none it does nothing and returns nil.
func (c *Client) EditComment(ctx context.Context, t Thread, body string) (*Comment, error) {
	got, err := c.putComment(ctx, t, func(string) string { return body }, false)
	if got.ID == 0 {
		return nil, err
	}
	return &got, err
}

// putComment writes what text makes of the present body, without marker.
func (c *Client) putComment(ctx context.Context, t Thread, text func(old string) string, make bool) (Comment, error) {
	unlock, err := c.threads.lock(ctx, t.String())
	if err != nil {
		return Comment{}, &Error{Kind: ErrTransient, Op: "wait for the status comment", cause: err}
	}
	defer unlock()
	found, err := c.FindComment(ctx, t)
	if err != nil {
		return Comment{}, err
	}
	if found != nil {
		return c.editComment(ctx, t, *found, c.body(t, text(unmarked(found.Body))))
	}
	if !make {
		return Comment{}, nil
	}
	return c.firstComment(ctx, t, text)
}

// firstComment creates the comment after a look found none. If another
// process did the same, the older comment stays and ours is taken back: both
// look after they created, so at least the later one sees both.
func (c *Client) firstComment(ctx context.Context, t Thread, text func(old string) string) (Comment, error) {
	looked := true
	made, err := ensure(ctx, c,
		func() (*Comment, error) {
			if looked {
				looked = false
				return nil, nil
			}
			return c.FindComment(ctx, t)
		},
		func() (*Comment, error) { return c.createComment(ctx, t, c.body(t, text(""))) })
	if err != nil {
		return Comment{}, err
	}
	all, err := c.findComments(ctx, t)
	if err != nil || len(all) == 0 || all[0].ID >= made.ID {
		return *made, nil
	}
	if err := c.deleteComment(ctx, t, made.ID); err != nil {
		return Comment{}, err
	}
	return c.editComment(ctx, t, all[0], c.body(t, text(unmarked(all[0].Body))))
}

// body is the marker and the text, within the limit.
func (c *Client) body(t Thread, text string) string {
	m := marker(c.markers[0], t)
	return m + "\n" + cut(text, maxBody-len(m)-1)
}

// unmarked is a body without its first line.
func unmarked(body string) string {
	_, rest, _ := strings.Cut(body, "\n")
	return rest
}

// FindComment looks for the thread's status comment: by its marker and by its
// author. nil if there is none; of several it is the first one made.
func (c *Client) FindComment(ctx context.Context, t Thread) (*Comment, error) {
	all, err := c.findComments(ctx, t)
	if len(all) == 0 {
		return nil, err
	}
	return &all[0], err
}

func (c *Client) findComments(ctx context.Context, t Thread) (found []Comment, err error) {
	self, err := c.Login(ctx)
	if err != nil {
		return nil, err
	}
	q := request{op: "list comments", repo: t.Repo, role: Orchestration}
	err = pages(func(at github.ListOptions) (*github.Response, error) {
		var got []*issueComment
		var resp *github.Response
		err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
			got = nil
			u := fmt.Sprintf("repos/%s/%s/issues/%d/comments?per_page=%d&page=%d", t.Repo.Owner, t.Repo.Name, t.Number, at.PerPage, max(at.Page, 1))
			req, err := gh.NewRequest(ctx, http.MethodGet, u, nil)
			if err != nil {
				return nil, err
			}
			resp, err = gh.Do(req, &got)
			return resp, err
		})
		for _, k := range got {
			if c.ours(k, self) && c.marked(k.GetBody(), t) {
				found = append(found, Comment{k.GetID(), k.GetHTMLURL(), k.GetBody()})
			}
		}
		return resp, err
	})
	return found, err
}

// ours reports whether our bot wrote a comment. What a person writes by means
// of the App is theirs.
func (c *Client) ours(k *issueComment, self string) bool {
	if k.GetUser().GetType() != "Bot" {
		return false
	}
	if k.Via != nil {
		return k.Via.GetID() == c.o.AppID
	}
	return strings.EqualFold(k.GetUser().GetLogin(), self)
}
