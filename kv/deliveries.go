package kv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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

// lister reads the deliveries of the query's installation and repositories:
// subjects carry the one, headers the names of the others.
func (l *DeliveryLog) lister(q *DeliveryQuery, repos task.RepoFilter) *lister {
	of := &lister{js: l.js, stream: l.stream, want: q.Limit}
	if q.Installation != nil {
		of.subjects = []string{Key("webhook", num(*q.Installation)) + ".>"}
	}
	if repos != nil {
		of.keep = func(h nats.Header) bool { return repos.Has(h.Get(HeaderRepo)) }
	}
	return of
}

func (q *DeliveryQuery) match(d *task.Delivery, repos task.RepoFilter) bool {
	return (q.Installation == nil || *q.Installation == d.InstallationID) && repos.Has(d.Repo)
}

// DeliveryPage is a part of the log; Next is "" at its end.
type DeliveryPage struct {
	Deliveries []Logged
	Next       string
}

// Page reads deliveries from the newest (or the cursor) backwards. Messages
// that were purged or cannot be decoded are passed over. A page with a Next is
// full, unless 20,000 deliveries of other repositories lie on its way.
func (l *DeliveryLog) Page(ctx context.Context, q DeliveryQuery) (DeliveryPage, error) {
	var page DeliveryPage
	repos := task.NewRepoFilter(q.Repos, q.Repo)
	next, err := l.lister(&q, repos).backwards(ctx, q.Cursor, func(ctx context.Context, seq uint64) (bool, error) {
		if len(page.Deliveries) >= max(q.Limit, 1) {
			return false, nil
		}
		d, err := l.Get(ctx, seq)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewer):
		case err != nil:
			return false, err
		case q.match(&d.Delivery, repos):
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

// maxFound bounds the deliveries that one id may name.
const maxFound = 100

// Find looks a delivery up by its id among those that a query would list, the
// newest where the id came through several hooks or sources. What the query
// leaves out costs, and answers, the same as what is not there. It reads the
// headers of the log, which is for a person who asks, not for a path that is
// hot.
func (l *DeliveryLog) Find(ctx context.Context, id task.DeliveryID, q DeliveryQuery) (Logged, error) {
	all, err := l.find(ctx, id, q, 1)
	if err != nil {
		return Logged{}, err
	}
	return all[0], nil
}

// FindAll is Find for every delivery of an id, newest first. ErrNotFound if
// there is none.
func (l *DeliveryLog) FindAll(ctx context.Context, id task.DeliveryID, q DeliveryQuery) ([]Logged, error) {
	return l.find(ctx, id, q, maxFound)
}

func (l *DeliveryLog) find(ctx context.Context, id task.DeliveryID, q DeliveryQuery, limit int) ([]Logged, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*callTimeout)
	defer cancel()
	repos := task.NewRepoFilter(q.Repos, q.Repo)
	of := l.lister(&q, repos)
	of.want, of.keep = maxWindow/windowGrow, func(h nats.Header) bool {
		return sameDelivery(h.Get(jetstream.MsgIDHeader), string(id)) && repos.Has(h.Get(HeaderRepo))
	}
	var out []Logged
	for cursor, more := "", true; more && len(out) < limit; more = cursor != "" {
		var err error
		cursor, err = of.backwards(ctx, cursor, func(ctx context.Context, seq uint64) (bool, error) {
			d, err := l.Get(ctx, seq)
			switch {
			case errors.Is(err, ErrNotFound): // purged meanwhile
				return true, nil
			case err == nil && q.match(&d.Delivery, repos):
				out = append(out, d)
			}
			return len(out) < limit, err
		})
		if err != nil {
			return nil, fmt.Errorf("find delivery %s: %w", id, err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("find delivery %s: %w", id, ErrNotFound)
	}
	return out, nil
}

// Holds marks those of ids that the log got for a source at or after since:
// ids[id] becomes true. It reads the headers of that part of the log.
func (l *DeliveryLog) Holds(ctx context.Context, source string, since time.Time, ids map[task.DeliveryID]bool) error {
	sc, err := l.scan(ctx, &since)
	if err != nil {
		return err
	}
	defer sc.close()
	for n := 1; n > 0; {
		n, err = sc.next(ctx, 1000, func(h nats.Header, _ uint64) {
			if id, ok := deliveryOf(source, h.Get(jetstream.MsgIDHeader)); ok {
				if _, asked := ids[id]; asked {
					ids[id] = true
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deliveryOf reads the delivery's id out of a message id of a source, which
// is `<id>` or `<hook>:<id>` after the source's own prefix.
func deliveryOf(source, msgID string) (task.DeliveryID, bool) {
	if source != task.DefaultSource {
		var ok bool
		if msgID, ok = strings.CutPrefix(msgID, source+":"); !ok {
			return "", false
		}
	}
	hook, id, ok := strings.Cut(msgID, ":")
	if !ok {
		return task.DeliveryID(msgID), true
	}
	_, err := strconv.ParseUint(hook, 10, 64)
	return task.DeliveryID(id), err == nil
}

// sameDelivery matches `<id>`, `<hook>:<id>` and `<source>:…` message ids.
func sameDelivery(msgID, id string) bool {
	n := len(msgID) - len(id)
	return n >= 0 && msgID[n:] == id && (n == 0 || msgID[n-1] == ':')
}
