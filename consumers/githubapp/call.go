package githubapp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/google/go-github/v88/github"
)

// delays are between the tries of what is transient.
var delays = []time.Duration{time.Second, 4 * time.Second}

// looks are before the looks for something that may have been created.
var looks = []time.Duration{0, time.Second, 3 * time.Second}

// request says what a call is about.
type request struct {
	op     string
	effect effect
	repo   Repo
	role   Role
	// once forbids a second try, even after a definite refusal.
	once bool
}

// send makes one HTTP request by go-github.
type send func(ctx context.Context, gh *github.Client) (*github.Response, error)

// do makes a call with an installation token.
func (c *Client) do(ctx context.Context, q request, f send) error {
	for try := 0; ; try++ {
		err := c.try(ctx, q, f)
		var e *Error
		if !errors.As(err, &e) || e.Kind != ErrTransient || q.once || try == len(delays) {
			return err
		}
		if c.o.Sleep(ctx, delays[try]) != nil {
			return err
		}
	}
}

// try makes a call once; in its turn if it is a write. A 401 gets a new token
// and is repeated: it is a refusal, nothing happened (G41).
func (c *Client) try(ctx context.Context, q request, f send) error {
	if err := c.limits.check(q.repo.Installation); err != nil {
		return err
	}
	if q.effect != read {
		leave, err := c.lanes.enter(ctx, q.repo.Installation)
		if err != nil {
			return &Error{Kind: ErrTransient, Op: q.op, cause: err}
		}
		defer leave()
		if err := c.limits.check(q.repo.Installation); err != nil {
			return err // by the write that was waited for
		}
	}
	t, err := c.tokens.get(ctx, q.repo, q.role, margin)
	if err != nil {
		return err
	}
	err = c.request(withToken(ctx, t.Value), c.inst, q, f)
	var e *Error
	if !errors.As(err, &e) || e.Kind != ErrUnauthorized {
		return err
	}
	c.tokens.forget(q.repo, q.role, t)
	if q.once {
		return err
	}
	if t, err = c.tokens.get(ctx, q.repo, q.role, margin); err != nil {
		return err
	}
	err = c.request(withToken(ctx, t.Value), c.inst, q, f)
	if errors.As(err, &e) && e.Kind == ErrUnauthorized {
		e.again = true
	}
	return err
}

// asApp makes a call with the App's JWT, counted for an installation or for 0.
func (c *Client) asApp(ctx context.Context, op string, e effect, installation int64, f send) error {
	if err := c.limits.check(installation); err != nil {
		return err
	}
	return c.request(ctx, c.app, request{op: op, effect: e, repo: Repo{Installation: installation}}, f)
}

// request sends and judges.
func (c *Client) request(ctx context.Context, gh *github.Client, q request, f send) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	start := c.o.Now()
	resp, err := f(ctx, gh)
	var plain *http.Response
	if resp != nil {
		plain = resp.Response
	}
	err = c.judge(q, plain, err, sent.Load())
	c.met.called(q.effect, err, c.o.Now().Sub(start))
	return err
}

func (c *Client) judge(q request, resp *http.Response, err error, sent bool) error {
	inst := q.repo.Installation
	if err != nil {
		if limit := limited(resp, err, c.o.Now()); limit != nil {
			c.limits.observe(inst, resp.Header)
			limit = c.limits.park(inst, limit)
			if resp != nil {
				limit.Status = resp.StatusCode
			}
			c.log.Warn("github limits an installation", "installation", inst, "op", q.op, "scope", limit.Scope, "until", limit.Until)
			return limit
		}
	}
	if resp != nil {
		if limit := c.limits.passed(inst, resp.Header, err == nil && q.effect != read && q.role != ""); limit != nil {
			c.log.Warn("github allows an installation no more requests", "installation", inst, "until", limit.Until)
		}
	}
	if err == nil {
		return nil
	}
	return classify(q.op, q.effect, resp, err, sent)
}

// ensure makes something exist once: it is looked for, created if missing,
// and looked for again if it is not known whether that worked.
func ensure[T any](ctx context.Context, c *Client, find func() (*T, error), make func() (*T, error)) (*T, error) {
	if found, err := find(); err != nil || found != nil {
		return found, err
	}
	made, err := make()
	if !errors.Is(err, ErrUnknown) && !errors.Is(err, errDuplicate) {
		return made, err
	}
	for _, wait := range looks {
		if c.o.Sleep(ctx, wait) != nil {
			return nil, err
		}
		found, ferr := find()
		if found != nil {
			return found, nil
		}
		if errors.Is(ferr, ErrRateLimited) {
			return nil, err
		}
	}
	return nil, err
}

// errDuplicate marks a refusal that says the thing exists.
var errDuplicate = errors.New("exists already")

// shapeless is an answer that lacks what every such answer has.
func shapeless(op string, e effect) error {
	kind := ErrTransient
	if e == create {
		kind = ErrUnknown
	}
	return &Error{Kind: kind, Op: op, Message: "the answer has no id"}
}
