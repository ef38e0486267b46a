package githubapp

import (
	"context"
	"errors"
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
	StatusCode     int // of our answer; 0 if there was none
	Redelivery     bool
	DeliveredAt    time.Time
}

// HookDeliveries lists a page of attempts, newest first, 100 at most. cursor
// is "" at first, then next; next is "" on the last page.
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
		page = append(page, HookDelivery{
			ID: d.GetID(), GUID: d.GetGUID(), Event: d.GetEvent(), Action: d.GetAction(), InstallationID: d.GetInstallationID(),
			RepositoryID: d.GetRepositoryID(), StatusCode: d.GetStatusCode(), Redelivery: d.GetRedelivery(), DeliveredAt: d.GetDeliveredAt().Time,
		})
	}
	return page, next, nil
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
