package githubapp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/go-github/v88/github"

	"github.com/belay-run/belay/kv/redact"
)

// margin is how long before its end a token counts as over.
const margin = 5 * time.Minute

// maxNeed is the most of its hour that a token can be asked to have left.
const maxNeed = 50 * time.Minute

// Token is an installation token.
type Token struct {
	Value     redact.Secret
	ExpiresAt time.Time
}

// Token returns a token of the role for the repository, from the cache if
// that has one with at least five minutes left.
func (c *Client) Token(ctx context.Context, repo Repo, role Role) (Token, error) {
	return c.TokenFor(ctx, repo, role, margin)
}

// TokenFor returns a token with at least need left, 50 min at most: a run
// wants one that outlives it, if a token can.
func (c *Client) TokenFor(ctx context.Context, repo Repo, role Role, need time.Duration) (Token, error) {
	if err := c.limits.check(repo.Installation); err != nil {
		return Token{}, err
	}
	return c.tokens.get(ctx, repo, role, min(max(need, margin), maxNeed))
}

// tokens is the cache.
type tokens struct {
	c *Client

	mu sync.Mutex
	of map[tokenID]*cached
}

type tokenID struct {
	installation, repo int64
	role               Role
}

// cached is one place in the cache; turn makes that one at a time mints.
type cached struct {
	turn  chan struct{}
	token Token
}

func newTokens(c *Client) *tokens { return &tokens{c: c, of: map[tokenID]*cached{}} }

func (t *tokens) place(id tokenID) *cached {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.of[id]
	if p == nil {
		t.prune()
		p = &cached{turn: make(chan struct{}, 1)}
		t.of[id] = p
	}
	return p
}

// maxCached is when places whose token is over are given up.
const maxCached = 1024

// prune forgets tokens that are over. It holds mu; a place in use is kept.
func (t *tokens) prune() {
	if len(t.of) < maxCached {
		return
	}
	for id, p := range t.of {
		select {
		case p.turn <- struct{}{}:
			if !p.token.ExpiresAt.After(t.c.o.Now()) {
				delete(t.of, id)
			}
			<-p.turn
		default:
		}
	}
}

// get returns a token with at least need left.
func (t *tokens) get(ctx context.Context, repo Repo, role Role, need time.Duration) (Token, error) {
	p := t.place(tokenID{repo.Installation, repo.ID, role})
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return Token{}, &Error{Kind: ErrTransient, Op: "wait for a token", cause: ctx.Err()}
	}
	defer func() { <-p.turn }()
	if p.token.Value != "" && p.token.ExpiresAt.Sub(t.c.o.Now()) >= need {
		return p.token, nil
	}
	fresh, err := t.c.mint(ctx, repo, role)
	if err != nil {
		return Token{}, err
	}
	p.token = fresh
	return fresh, nil
}

// forget drops a token that GitHub refused, unless it was replaced already.
func (t *tokens) forget(repo Repo, role Role, old Token) {
	p := t.place(tokenID{repo.Installation, repo.ID, role})
	p.turn <- struct{}{}
	if p.token.Value == old.Value {
		p.token = Token{}
	}
	<-p.turn
}

// mint asks GitHub for a token of the role, scoped to one repository.
func (c *Client) mint(ctx context.Context, repo Repo, role Role) (Token, error) {
	op := "mint " + string(role) + " token"
	if !repo.valid() || role.Permissions() == nil {
		return Token{}, fmt.Errorf("%s: %q is no repository or %q no role to scope it to", op, repo, role)
	}
	opts := &github.InstallationTokenOptions{RepositoryIDs: []int64{repo.ID}, Permissions: role.request()}
	var got *github.InstallationToken
	err := c.asApp(ctx, op, edit, repo.Installation, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Apps.CreateInstallationToken(ctx, repo.Installation, opts)
		return resp, err
	})
	if err != nil {
		return Token{}, err
	}
	out := Token{Value: redact.Secret(got.GetToken()), ExpiresAt: got.GetExpiresAt().Time}
	if out.Value == "" || !out.ExpiresAt.After(c.o.Now()) {
		return Token{}, &Error{Kind: ErrTransient, Op: op, Message: "the answer has no token, or one that is over"}
	}
	c.o.Issued(out.Value)
	return out, nil
}
