package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/kv/task"
)

// payloadSlack is how much earlier than our receipt GitHub may say that it
// sent a delivery, clocks apart.
const payloadSlack = 10 * time.Minute

// payloads reads again from GitHub what it delivered; the App is there before
// the doors open.
type payloads struct{ a *App }

// Payload implements ingest.Payloads.
func (p payloads) Payload(ctx context.Context, source string, id task.DeliveryID, at time.Time) (http.Header, []byte, error) {
	client := p.a.clients[source]
	if client == nil {
		return nil, nil, ingest.ErrNoApp
	}
	attempt, err := findAttempt(ctx, client, id, at.Add(-payloadSlack))
	if err != nil {
		return nil, nil, err
	}
	got, err := client.HookPayload(ctx, attempt)
	if err != nil {
		return nil, nil, payloadError(err)
	}
	if got.GUID != string(id) {
		return nil, nil, fmt.Errorf("%w: attempt %d is of another delivery", ingest.ErrGitHub, attempt)
	}
	h := http.Header{}
	for k, v := range got.Headers {
		h.Set(k, v)
	}
	return h, got.Payload, nil
}

// findAttempt looks for an attempt to deliver id, from the newest one back to
// since.
func findAttempt(ctx context.Context, client *githubapp.Client, id task.DeliveryID, since time.Time) (int64, error) {
	for cursor := ""; ; {
		if err := client.Spare(); err != nil { // tasks need the rest
			return 0, payloadError(err)
		}
		page, next, err := client.HookDeliveries(ctx, cursor)
		if err != nil {
			return 0, payloadError(err)
		}
		for _, d := range page {
			if d.GUID == string(id) {
				return d.ID, nil
			}
			if d.DeliveredAt.Before(since) {
				next = ""
			}
		}
		if next == "" || next == cursor {
			return 0, ingest.ErrForgotten
		}
		cursor = next
	}
}

// payloadError says what an error of GitHub's means to who asks.
func payloadError(err error) error {
	if errors.Is(err, githubapp.ErrNotFound) {
		return fmt.Errorf("%w: %w", ingest.ErrForgotten, err)
	}
	return fmt.Errorf("%w: %w", ingest.ErrGitHub, err)
}
