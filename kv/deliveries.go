package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// Logged is a delivery with its place in the log.
type Logged struct {
	task.Delivery
	Seq uint64
}

// DeliveryQuery selects a page of the log, newest first.
type DeliveryQuery struct {
	// Installation and Repos are the caller's scope: nil means all.
	Installation *int64
	Repos        []string
	Repo         string
	Limit        int
	Cursor       string
}

func (q *DeliveryQuery) match(d *task.Delivery) bool {
	return (q.Installation == nil || *q.Installation == d.InstallationID) &&
		(q.Repos == nil || slices.Contains(q.Repos, d.Repo)) &&
		(q.Repo == "" || q.Repo == d.Repo)
}

// DeliveryPage is a part of the log; Next is "" at its end.
type DeliveryPage struct {
	Deliveries []Logged
	Next       string
}

// Page reads deliveries from the newest (or the cursor) backwards. Messages
// that were purged or cannot be decoded are passed over. A page may be shorter
// than Limit and still have a Next.
func (l *DeliveryLog) Page(ctx context.Context, q DeliveryQuery) (DeliveryPage, error) {
	var page DeliveryPage
	next, err := backwards(ctx, l.stream, q.Cursor, func(ctx context.Context, seq uint64) (bool, error) {
		if len(page.Deliveries) >= max(q.Limit, 1) {
			return false, nil
		}
		d, err := l.Get(ctx, seq)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewer):
		case err != nil:
			return false, err
		case q.match(&d.Delivery):
			page.Deliveries = append(page.Deliveries, d)
		}
		return true, nil
	})
	if err != nil {
		return DeliveryPage{}, fmt.Errorf("list deliveries: %w", err)
	}
	page.Next = next
	return page, nil
}

// Find looks a delivery up by its id in every source, the newest where the id
// came through several hooks; see FindAll.
func (l *DeliveryLog) Find(ctx context.Context, id task.DeliveryID) (Logged, error) {
	all, err := l.FindAll(ctx, id)
	if err != nil {
		return Logged{}, err
	}
	return all[0], nil
}

// maxFound bounds the deliveries that one id may name.
const maxFound = 100

// FindAll looks an id up in every source, newest first: it may have come
// through several hooks. ErrNotFound if there is none. It reads the headers
// of the log, which is for a person who asks, not for a path that is hot.
func (l *DeliveryLog) FindAll(ctx context.Context, id task.DeliveryID) ([]Logged, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*callTimeout)
	defer cancel()
	sc, err := l.scan(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer sc.close()
	var found []uint64
	for n := 1; n > 0; {
		n, err = sc.next(ctx, 1000, func(h nats.Header, seq uint64) {
			if sameDelivery(h.Get(jetstream.MsgIDHeader), string(id)) {
				found = append(found, seq)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Reverse(found)
	var out []Logged
	for _, seq := range found[:min(len(found), maxFound)] {
		d, err := l.Get(ctx, seq)
		if errors.Is(err, ErrNotFound) && len(found) > 1 {
			continue // purged meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("find delivery %s: %w", id, ErrNotFound)
	}
	return out, nil
}

// sameDelivery matches `<id>`, `<hook>:<id>` and `<source>:…` message ids.
func sameDelivery(msgID, id string) bool {
	n := len(msgID) - len(id)
	return n >= 0 && msgID[n:] == id && (n == 0 || msgID[n-1] == ':')
}
