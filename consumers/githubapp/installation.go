package githubapp

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v88/github"

	"github.com/belay-run/belay/kv/redact"
)

// knownFor is how long it is believed by which installation a repository is
// reached.
const knownFor = 10 * time.Minute

// places are the repositories whose installation was asked for.
type places struct {
	mu sync.Mutex
	of map[string]located
}

type located struct {
	repo Repo
	till time.Time
}

// InstallationOf finds a repository by its name, and by which installation the
// App reaches it; ErrNotFound if it does not. The answer is kept for a while.
func (c *Client) InstallationOf(ctx context.Context, name string) (Repo, error) {
	owner, repo, _ := strings.Cut(name, "/")
	out := Repo{Installation: 1, ID: 1, Owner: owner, Name: repo}
	if !out.valid() {
		return Repo{}, &Error{Kind: ErrValidation, Op: "find the installation of a repository", Message: "the name is not owner/name"}
	}
	key := strings.ToLower(name)
	c.places.mu.Lock()
	known, ok := c.places.of[key]
	c.places.mu.Unlock()
	if ok && c.o.Now().Before(known.till) {
		return known.repo, nil
	}
	var got *github.Installation
	op := "get installation of repository"
	err := c.asApp(ctx, op, read, 0, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Apps.GetRepositoryInstallation(ctx, owner, repo)
		return resp, err
	})
	if err != nil {
		return Repo{}, err
	}
	if out.Installation = got.GetID(); out.Installation <= 0 {
		return Repo{}, shapeless(op, read)
	}
	if out.ID, err = c.repoID(ctx, out); err != nil {
		return Repo{}, err
	}
	c.places.mu.Lock()
	defer c.places.mu.Unlock()
	c.places.of[key] = located{out, c.o.Now().Add(knownFor)}
	return out, nil
}

// repoID is the id of a repository of which only the name is known: GitHub
// says it of a token that may do nothing but read what the repository is.
func (c *Client) repoID(ctx context.Context, r Repo) (int64, error) {
	op := "get id of repository"
	opts := &github.InstallationTokenOptions{
		Repositories: []string{r.Name}, Permissions: &github.InstallationPermissions{Metadata: github.Ptr("read")},
	}
	var got *github.InstallationToken
	err := c.asApp(ctx, op, edit, r.Installation, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Apps.CreateInstallationToken(ctx, r.Installation, opts)
		return resp, err
	})
	if err != nil {
		return 0, err
	}
	c.o.Issued(redact.Secret(got.GetToken()))
	for _, k := range got.Repositories {
		if k.GetID() > 0 && strings.EqualFold(k.GetName(), r.Name) {
			return k.GetID(), nil
		}
	}
	return 0, shapeless(op, edit)
}
