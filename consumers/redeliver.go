package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

const (
	// HookLogKept is how long GitHub keeps deliveries, and can make them again.
	HookLogKept = 72 * time.Hour
	// inFlight is the age below which an attempt without a 2xx may still be
	// under way; GitHub waits 10 s for an answer.
	inFlight = time.Minute
	// walkOverlap is how much of what was read is read again: GitHub lists an
	// attempt when it has ended, under the time at which it began.
	walkOverlap = 2 * time.Minute
	// clockSkew is how far GitHub's clock and the store's may be apart.
	clockSkew = 10 * time.Minute
	// redeliverBackoff is the longest pause after passes that failed.
	redeliverBackoff = 10 * time.Minute
	// redeliverTimeout bounds what is asked of the store at once.
	redeliverTimeout = time.Minute
)

// Leader calls f while this process is the one that does something, again and
// again until ctx ends; *kv.Lease is one.
type Leader interface {
	Run(ctx context.Context, f func(ctx context.Context))
}

// Holder is the log of deliveries. Since is when it began; Holds marks those
// of ids that it got for a source since a time.
type Holder interface {
	Since() time.Time
	Holds(ctx context.Context, source string, since time.Time, ids map[task.DeliveryID]bool) error
}

// Redeliverer asks GitHub again for the deliveries of one source that did not
// arrive: GitHub does not by itself. See the package comment.
type Redeliverer struct {
	o    RedelivererOptions
	log  *slog.Logger
	met  *redeliverMetrics
	stop context.CancelFunc
	done chan struct{}

	walk *walk // one that was interrupted
}

// RedelivererOptions are what a Redeliverer is made of.
type RedelivererOptions struct {
	// Source is the webhook endpoint whose App GitHub's log belongs to.
	Source string
	GitHub HookLog
	Log    Holder
	Store  *kv.RedeliveryStore
	Leader Leader
	Wants  Wants
	// Every is the time between two passes; 0 is a minute.
	Every time.Duration
	// MaxAge is how old a delivery may be to be asked for; 0 is HookLogKept.
	MaxAge time.Duration
	// Pauses follow each request for a delivery; their number is how often it
	// is asked for. nil is 10 minutes, 6 hours, 10 minutes: an endpoint may be
	// down for longer than this process.
	Pauses []time.Duration
	Now    func() time.Time
	// Sleep waits between requests; nil waits by the machine's clock.
	Sleep      func(ctx context.Context, d time.Duration) error
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// NewRedeliverer makes a Redeliverer; Start starts it.
func NewRedeliverer(o RedelivererOptions) *Redeliverer {
	if o.Every == 0 {
		o.Every = time.Minute
	}
	if o.MaxAge == 0 {
		o.MaxAge = HookLogKept
	}
	if o.Pauses == nil {
		o.Pauses = []time.Duration{10 * time.Minute, 6 * time.Hour, 10 * time.Minute}
	}
	if o.Sleep == nil {
		o.Sleep = pause
	}
	return &Redeliverer{
		o: o, log: o.Logger.With("source", o.Source), met: newRedeliverMetrics(o.Registerer, o.Now), done: make(chan struct{}),
	}
}

// Start begins to contend for the lead; it does not block.
func (r *Redeliverer) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() {
		defer close(r.done)
		r.o.Leader.Run(ctx, r.lead)
	}()
}

// Stop ends the passes in the middle of whatever they do.
func (r *Redeliverer) Stop(context.Context) error {
	r.stop()
	<-r.done
	return nil
}

// lead makes passes until ctx ends.
func (r *Redeliverer) lead(ctx context.Context) {
	defer r.met.rest()
	r.walk = nil
	for failed := 0; ; {
		err := r.Pass(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil || errors.Is(err, errMore) {
			failed = 0
		} else {
			failed++
		}
		if pause(ctx, r.after(err, failed)) != nil {
			return
		}
	}
}

// after counts a pass and says how long to wait then. A limit of GitHub's is
// waited for, other failures are tried again ever more rarely.
func (r *Redeliverer) after(err error, failed int) time.Duration {
	var limit *githubapp.RateLimitError
	switch {
	case err == nil:
		r.met.polls.WithLabelValues(pollOK).Inc()
		return r.o.Every
	case errors.Is(err, errMore):
		return 0
	case errors.As(err, &limit):
		r.met.polls.WithLabelValues(pollLimited).Inc()
		r.log.Info("redelivery waits for github's limit", "class", "redelivery_limited", "until", limit.Until)
		return max(r.o.Every, min(limit.Until.Sub(r.o.Now()), time.Hour))
	}
	r.met.polls.WithLabelValues(pollFailed).Inc()
	r.log.Warn("deliveries that failed cannot be looked for", "class", "redelivery", "err", err,
		"next", "check the App's key and that the API of GitHub and the store are reached; it is tried again")
	return min(r.o.Every<<min(failed, 10), max(redeliverBackoff, r.o.Every))
}

// errMore says that there is more to ask for than one pass does.
var errMore = errors.New("there is more")

// Pass looks through what GitHub delivered since the last one, and asks again
// for what is due. Every step can be repeated.
func (r *Redeliverer) Pass(ctx context.Context) error {
	began := r.o.Now()
	c, rev, err := r.o.Store.Cursor(ctx, r.o.Source)
	if err != nil {
		return err
	}
	if r.walk == nil {
		since := began.Add(-r.o.MaxAge)
		if from := c.At.Add(-walkOverlap); from.After(since) {
			since = from
		}
		r.walk = newWalk(since, r.o.Wants)
	}
	if err := r.walk.run(ctx, r.o.GitHub); err != nil {
		return err
	}
	w := r.walk
	r.walk = nil
	next, err := r.note(ctx, w, c)
	if err != nil {
		return err
	}
	next.PolledAt = task.At(began)
	if err := r.o.Store.MoveCursor(ctx, r.o.Source, next, rev); err != nil {
		return fmt.Errorf("keep how far deliveries were read: %w", err)
	}
	r.gap(c.PolledAt.Time, began)
	r.met.polled(began)
	return r.ask(ctx, next)
}

// gap tells of a time that nobody looked at and that is not listed any more.
func (r *Redeliverer) gap(last, began time.Time) {
	to := began.Add(-r.o.MaxAge)
	if last.IsZero() || !last.Before(to) {
		return
	}
	r.met.gaps.Inc()
	r.log.Error("deliveries that failed while nobody looked are lost", "from", last, "to", to,
		"next", "cause the events of that time again where they matter, such as by setting a label anew")
}

// note makes a record of each delivery that did not arrive, removes those of
// deliveries that did, and returns the cursor to go on from.
func (r *Redeliverer) note(ctx context.Context, w *walk, c kv.RedeliveryCursor) (kv.RedeliveryCursor, error) {
	ctx, cancel := context.WithTimeout(ctx, redeliverTimeout)
	defer cancel()
	known, missing, err := r.known(ctx)
	if err != nil {
		return c, err
	}
	sent := w.list()
	held, err := r.held(ctx, sent, known)
	if err != nil {
		return c, err
	}
	at := w.newest
	var found []Sent
	for i := range sent {
		s := &sent[i]
		rec, open := known[s.GUID]
		v := r.judge(s, held[s.GUID], open)
		switch {
		case v == verdictInFlight:
			if s.FirstAt.Before(at) {
				at = s.FirstAt
			}
		case v == verdictArrived:
			if held[s.GUID] && s.OKAt.After(c.OursAt.Time) {
				c.OursAt = task.At(s.OKAt)
			}
			if open {
				err = r.o.Store.Settle(ctx, rec)
			}
		case open:
			err = r.update(ctx, rec, s, v)
		default:
			found = append(found, *s)
			r.met.found.WithLabelValues(string(v)).Inc()
			if v == verdictMissing {
				if missing++; missing > maxMissing {
					continue
				}
			}
			err = r.add(ctx, s, v)
		}
		if unlessLost(err) != nil {
			return c, err
		}
	}
	r.tell(found)
	if at.After(c.At.Time) {
		c.At = task.At(at)
	}
	return c, nil
}

// maxMissing is how many deliveries that somebody else answered are kept: more
// means that the webhook leads elsewhere, and for them is asked in vain.
const maxMissing = 1000

// known reads the records that there are.
func (r *Redeliverer) known(ctx context.Context) (known map[task.DeliveryID]kv.Redelivery, missing int, err error) {
	all, err := r.o.Store.All(ctx, r.o.Source)
	known = make(map[task.DeliveryID]kv.Redelivery, len(all))
	for _, rec := range all {
		known[rec.GUID] = rec
		if rec.Missing {
			missing++
		}
	}
	return known, missing, err
}

func (r *Redeliverer) add(ctx context.Context, s *Sent, v verdict) error {
	return r.o.Store.Add(ctx, kv.Redelivery{
		Source: r.o.Source, GUID: s.GUID, Attempt: s.Attempt, Event: s.Event, Action: s.Action,
		InstallationID: s.InstallationID, Missing: v == verdictMissing, FirstAt: task.At(s.FirstAt),
	})
}

// update keeps what newer attempts say.
func (r *Redeliverer) update(ctx context.Context, rec kv.Redelivery, s *Sent, v verdict) error {
	missing := v == verdictMissing
	if rec.Missing == missing && rec.Attempt >= s.Attempt {
		return nil
	}
	rec.Missing, rec.Attempt = missing, max(rec.Attempt, s.Attempt)
	_, err := r.o.Store.Change(ctx, rec)
	return err
}

// tell logs what was found, with the gap in which it was delivered.
func (r *Redeliverer) tell(found []Sent) {
	if n := len(found); n > 0 {
		r.log.Warn("deliveries did not arrive, github is asked for them again", "count", n,
			"from", found[0].FirstAt, "to", found[n-1].FirstAt, "last_status", found[n-1].Status)
	}
}

// unlessLost forgives that another process was faster: the next pass sees what
// it wrote.
func unlessLost(err error) error {
	if errors.Is(err, kv.ErrConflict) {
		return nil
	}
	return err
}

// verdict is what is to be done about a delivery; failed and missing are also
// the closed list of a metric's label.
type verdict string

const (
	verdictArrived  verdict = "arrived"
	verdictInFlight verdict = "in_flight"
	// verdictFailed: GitHub got no 2xx.
	verdictFailed verdict = "failed"
	// verdictMissing: GitHub got a 2xx, and the log does not hold it.
	verdictMissing verdict = "missing"
)

// judge decides by what GitHub lists and what the log holds. A delivery from
// before the log began it cannot hold.
func (r *Redeliverer) judge(s *Sent, held, open bool) verdict {
	switch {
	case held, s.Arrived() && s.OKAt.Before(r.o.Log.Since().Add(clockSkew)):
		return verdictArrived
	case s.Arrived():
		return verdictMissing
	case s.UnderWay(r.o.Now()) && !open:
		return verdictInFlight
	}
	return verdictFailed
}

// held looks up in the log what GitHub says arrived, and what it lists only
// redeliveries of. Of all else without a 2xx only GitHub knows: under its id
// the log may hold what a repository's own hook sent (G01).
func (r *Redeliverer) held(ctx context.Context, sent []Sent, known map[task.DeliveryID]kv.Redelivery) (map[task.DeliveryID]bool, error) {
	ids := map[task.DeliveryID]bool{}
	since := r.o.Now()
	for i := range sent {
		s := &sent[i]
		from := s.FirstAt
		if !s.Original {
			from = from.Add(-HookLogKept)
		}
		if _, open := known[s.GUID]; !s.Arrived() && (s.Original || open) {
			continue
		}
		ids[s.GUID] = false
		if from.Before(since) {
			since = from
		}
	}
	if len(ids) == 0 {
		return ids, nil
	}
	return ids, r.o.Log.Holds(ctx, r.o.Source, since.Add(-clockSkew), ids)
}
