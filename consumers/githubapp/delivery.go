package githubapp

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/go-github/v88/github"
)

// HookDelivery is one attempt of GitHub to deliver a webhook to the App.
type HookDelivery struct {
	ID             int64
	GUID           string // X-GitHub-Delivery, the same for every attempt
	Event, Action  string
	InstallationID int64
	RepositoryID   int64
	// Status is GitHub's word for it: "OK", or what went wrong.
	Status      string
	StatusCode  int // of our answer, or GitHub's own; 0 if there was none
	Redelivery  bool
	DeliveredAt time.Time // to the second
}

// OK reports whether the webhook was answered with a 2xx.
func (d *HookDelivery) OK() bool { return d.StatusCode >= 200 && d.StatusCode < 300 }

// HookDeliveries lists a page of attempts, newest first, 100 at most. cursor
// is "" at first, then next; next is "" on the last page. GitHub keeps them
// for three days.
func (c *Client) HookDeliveries(ctx context.Context, cursor string) (page []HookDelivery, next string, err error) {
	var got []*github.HookDelivery
	err = c.asApp(ctx, "list hook deliveries", read, 0, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Apps.ListHookDeliveries(ctx, &github.ListCursorOptions{PerPage: 100, Cursor: cursor})
		if resp != nil {
			next = resp.Cursor
		}
		return resp, err
	})
	if err != nil {
		return nil, "", err
	}
	for _, d := range got {
		page = append(page, hookDelivery(d))
	}
	return page, next, nil
}

func hookDelivery(d *github.HookDelivery) HookDelivery {
	return HookDelivery{
		ID: d.GetID(), GUID: d.GetGUID(), Event: d.GetEvent(), Action: d.GetAction(), InstallationID: d.GetInstallationID(),
		RepositoryID: d.GetRepositoryID(), Status: d.GetStatus(), StatusCode: d.GetStatusCode(), Redelivery: d.GetRedelivery(),
		DeliveredAt: d.GetDeliveredAt().Time,
	}
}

// HookPayload is what GitHub sent in an attempt.
type HookPayload struct {
	HookDelivery
	// Headers are the request's; their names as GitHub wrote them.
	Headers map[string]string
	// Payload is the JSON of the request's body, though not byte for byte.
	Payload []byte
}

// Header returns a header whatever the case of its name, "" if there is none.
func (p *HookPayload) Header(name string) string {
	for k, v := range p.Headers {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

// HookPayload reads one attempt with its payload; ErrNotFound if GitHub does
// not keep it any more.
func (c *Client) HookPayload(ctx context.Context, id int64) (HookPayload, error) {
	var got *github.HookDelivery
	err := c.asApp(ctx, "get hook delivery", read, 0, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Apps.GetHookDelivery(ctx, id)
		return resp, err
	})
	if err != nil {
		return HookPayload{}, err
	}
	out := HookPayload{HookDelivery: hookDelivery(got), Headers: got.GetRequest().GetHeaders()}
	if raw := got.GetRequest().RawPayload; raw != nil {
		out.Payload = *raw
	}
	return out, nil
}

// Redeliver asks GitHub to deliver an attempt's webhook again, with the same
// GUID; that it does so shows in HookDeliveries.
func (c *Client) Redeliver(ctx context.Context, id int64) error {
	return c.asApp(ctx, "ask for redelivery", edit, 0, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		_, resp, err := gh.Apps.RedeliverHookDelivery(ctx, id)
		var accepted *github.AcceptedError // 202 is how GitHub says yes
		if errors.As(err, &accepted) {
			err = nil
		}
		return resp, err
	})
}

// reserve is the part of the App's own hourly requests that is left to what a
// task waits for, such as tokens: a tenth.
const reserve = 10

// Spare returns an error of kind ErrRateLimited, with the time at which it
// ends, when the App's own requests of this hour are nearly used up or
// limited: what can wait should. GitHub is not asked.
func (c *Client) Spare() error {
	if err := c.limits.check(0); err != nil {
		return err
	}
	if until := c.limits.scarce(0); !until.IsZero() {
		return &RateLimitError{Scope: Primary, Until: until}
	}
	return nil
}

// scarce returns until when an installation has less than its reserve, zero if
// it has more or is not limited.
func (l *limits) scarce(installation int64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.rates[installation]
	if !ok || !l.now().Before(r.reset) || r.remaining*reserve >= r.limit {
		return time.Time{}
	}
	return r.reset
}
