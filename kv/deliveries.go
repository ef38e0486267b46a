package kv

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// ErrCursor means that a cursor is not one that Page gave out.
var ErrCursor = errors.New("cursor is not valid")

// maxExamined bounds the messages one page of a filtered list looks at; the
// page then ends early and its cursor goes on from there.
const maxExamined = 2000

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
		(len(q.Repos) == 0 || slices.Contains(q.Repos, d.Repo)) &&
		(q.Repo == "" || q.Repo == d.Repo)
}

// DeliveryPage is a part of the log; Next is "" at its end.
type DeliveryPage struct {
	Deliveries []Logged
	Next       string
}

// Page reads deliveries from the newest (or the cursor) backwards. Messages
// that were purged or cannot be decoded are passed over.
func (l *DeliveryLog) Page(ctx context.Context, q DeliveryQuery) (DeliveryPage, error) {
	first, seq, err := l.bounds(ctx)
	if err != nil {
		return DeliveryPage{}, err
	}
	if q.Cursor != "" {
		c, err := parseCursor(q.Cursor)
		if err != nil {
			return DeliveryPage{}, err
		}
		seq = min(seq, c)
	}
	var page DeliveryPage
	for n := 0; seq >= first && seq > 0; seq-- {
		if len(page.Deliveries) == q.Limit || n == maxExamined {
			page.Next = base64.RawURLEncoding.EncodeToString(strconv.AppendUint(nil, seq, 10))
			break
		}
		n++
		d, err := l.Get(ctx, seq)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewer):
		case err != nil:
			return DeliveryPage{}, err
		case q.match(&d.Delivery):
			page.Deliveries = append(page.Deliveries, d)
		}
	}
	return page, nil
}

func (l *DeliveryLog) bounds(ctx context.Context) (first, last uint64, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := l.stream.Info(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("inspect stream %s: %w", StreamWebhooks, classify(err))
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

func parseCursor(s string) (uint64, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, ErrCursor
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, ErrCursor
	}
	return n, nil
}

// Find looks a delivery up by its id in every source, newest first where the
// id came through several hooks. It reads the headers of the log, which is
// for a person who asks, not for a path that is hot.
func (l *DeliveryLog) Find(ctx context.Context, id task.DeliveryID) (Logged, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*callTimeout)
	defer cancel()
	cons, err := l.js.OrderedConsumer(ctx, StreamWebhooks, jetstream.OrderedConsumerConfig{
		HeadersOnly: true, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return Logged{}, fmt.Errorf("scan deliveries: %w", classify(err))
	}
	var found uint64
	for {
		batch, err := cons.FetchNoWait(1000)
		if err != nil {
			return Logged{}, fmt.Errorf("scan deliveries: %w", classify(err))
		}
		n := 0
		for m := range batch.Messages() {
			n++
			if sameDelivery(m.Headers().Get(jetstream.MsgIDHeader), string(id)) {
				if meta, err := m.Metadata(); err == nil {
					found = meta.Sequence.Stream
				}
			}
		}
		if n == 0 {
			break
		}
	}
	if found == 0 {
		return Logged{}, fmt.Errorf("find delivery %s: %w", id, ErrNotFound)
	}
	return l.Get(ctx, found)
}

// sameDelivery matches `<id>`, `<hook>:<id>` and `<source>:…` message ids.
func sameDelivery(msgID, id string) bool {
	n := len(msgID) - len(id)
	return n >= 0 && msgID[n:] == id && (n == 0 || msgID[n-1] == ':')
}
