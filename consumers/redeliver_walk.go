package consumers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/task"
)

// HookLog is GitHub's log of an App's deliveries; *githubapp.Client is one.
// Spare says whether there are requests to spare this hour.
type HookLog interface {
	HookDeliveries(ctx context.Context, cursor string) (page []githubapp.HookDelivery, next string, err error)
	Redeliver(ctx context.Context, attempt int64) error
	Spare() error
}

// Wants says of a delivery, by what GitHub lists of it, whether it could
// matter.
type Wants func(event, action string, installation int64) bool

// Sent is what GitHub lists of one delivery: its attempts together.
type Sent struct {
	GUID           task.DeliveryID
	Event, Action  string
	InstallationID int64
	// Attempt is the newest one's id, Status and StatusCode are its.
	Attempt    int64
	Status     string
	StatusCode int
	// Attempts is their number; FirstAt and LastAt are when the oldest and
	// the newest of them were made, by GitHub's clock.
	Attempts        int
	FirstAt, LastAt time.Time
	// OKAt is when one was answered with a 2xx, zero if none was: whatever
	// the others are, the delivery arrived.
	OKAt time.Time
	// Original says that the first attempt is among them, and not only
	// redeliveries of one that was before.
	Original bool
}

// Arrived reports whether any attempt was answered with a 2xx.
func (s *Sent) Arrived() bool { return !s.OKAt.IsZero() }

// UnderWay reports whether an attempt may not have ended yet.
func (s *Sent) UnderWay(now time.Time) bool { return !s.Arrived() && now.Sub(s.LastAt) < inFlight }

// Sends lists the deliveries since a time that are wanted, oldest first. It
// reads no payload.
func Sends(ctx context.Context, log HookLog, since time.Time, wants Wants) ([]Sent, error) {
	w := newWalk(since, wants)
	if err := w.run(ctx, log); err != nil {
		return nil, err
	}
	return w.list(), nil
}

// walk reads GitHub's log from the newest attempt back to a time. It can be
// interrupted and goes on where it was; what comes meanwhile is the next one's.
type walk struct {
	since time.Time
	wants Wants

	cursor string
	done   bool
	newest time.Time // of all attempts, by GitHub's clock
	sent   map[task.DeliveryID]*Sent
}

func newWalk(since time.Time, wants Wants) *walk {
	return &walk{since: since, wants: wants, sent: map[task.DeliveryID]*Sent{}}
}

// run walks to the end.
func (w *walk) run(ctx context.Context, log HookLog) error {
	for !w.done {
		if err := log.Spare(); err != nil {
			return err
		}
		page, next, err := log.HookDeliveries(ctx, w.cursor)
		if err != nil {
			return err
		}
		if next != "" && next == w.cursor {
			return fmt.Errorf("list hook deliveries: page %s is followed by itself", next)
		}
		for i := range page {
			w.add(&page[i])
		}
		w.cursor, w.done = next, w.done || next == ""
	}
	return nil
}

func (w *walk) add(d *githubapp.HookDelivery) {
	if d.DeliveredAt.After(w.newest) {
		w.newest = d.DeliveredAt
	}
	if d.DeliveredAt.Before(w.since) {
		w.done = true
		return
	}
	if d.GUID == "" || !w.wants(d.Event, d.Action, d.InstallationID) {
		return
	}
	id := task.DeliveryID(d.GUID)
	s := w.sent[id]
	if s == nil {
		s = &Sent{GUID: id, Event: d.Event, Action: d.Action, InstallationID: d.InstallationID, FirstAt: d.DeliveredAt}
		w.sent[id] = s
	}
	s.Attempts++
	if d.ID > s.Attempt {
		s.Attempt, s.Status, s.StatusCode = d.ID, d.Status, d.StatusCode
	}
	if d.DeliveredAt.Before(s.FirstAt) {
		s.FirstAt = d.DeliveredAt
	}
	if d.DeliveredAt.After(s.LastAt) {
		s.LastAt = d.DeliveredAt
	}
	if d.OK() && d.DeliveredAt.After(s.OKAt) {
		s.OKAt = d.DeliveredAt
	}
	s.Original = s.Original || !d.Redelivery
}

// list returns what was found, oldest first.
func (w *walk) list() []Sent {
	out := make([]Sent, 0, len(w.sent))
	for _, s := range w.sent {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Sent) int {
		return cmp.Or(a.FirstAt.Compare(b.FirstAt), cmp.Compare(a.GUID, b.GUID))
	})
	return out
}
