package consumers

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

const (
	// askBatch is how many deliveries one pass asks for, so that what arrives
	// meanwhile is seen in between.
	askBatch = 60
	// askGap is the time between two of these requests.
	askGap = time.Second
	// maxNamed is how many lost deliveries one line of the log names.
	maxNamed = 100
)

// Why a delivery is given up, the closed list of a metric's label and of
// Redelivery.GaveUp.
const (
	gaveUpTries   = "tries"   // asked for as often as is sensible
	gaveUpExpired = "expired" // older than GitHub keeps it
	gaveUpGone    = "gone"    // GitHub does not know it
)

// ask asks GitHub for what is due, the oldest first: that is forgotten first.
func (r *Redeliverer) ask(ctx context.Context, c kv.RedeliveryCursor) error {
	all, err := r.o.Store.All(ctx, r.o.Source)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b kv.Redelivery) int { return a.FirstAt.Compare(b.FirstAt.Time) })
	if all, err = r.sift(ctx, all); err != nil {
		return err
	}
	r.met.open(all)
	asked := 0
	for _, rec := range all {
		if !r.due(&rec, c) {
			continue
		}
		if asked == askBatch {
			return errMore
		}
		if asked > 0 {
			if err := r.o.Sleep(ctx, askGap); err != nil {
				return err
			}
		}
		asked++
		if err := r.askFor(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

// due reports whether a delivery is to be asked for now. One that somebody
// else answered with a 2xx waits until a later one came here: as long as the
// webhook leads elsewhere it would only arrive there once more.
func (r *Redeliverer) due(rec *kv.Redelivery, c kv.RedeliveryCursor) bool {
	return rec.GaveUp == "" && rec.Tries < len(r.o.Pauses) && !r.o.Now().Before(rec.NextAt.Time) &&
		(!rec.Missing || c.OursAt.After(rec.FirstAt.Time))
}

// sift drops what is not wanted any more, and gives up what asking further is
// no use for. It is said before it is written, so that it is not unsaid.
func (r *Redeliverer) sift(ctx context.Context, all []kv.Redelivery) ([]kv.Redelivery, error) {
	var kept, lost []kv.Redelivery
	for _, rec := range all {
		switch {
		case rec.GaveUp != "":
			kept = append(kept, rec)
		case !r.o.Wants(rec.Event, rec.Action, rec.InstallationID):
			if err := unlessLost(r.o.Store.Settle(ctx, rec)); err != nil {
				return nil, err
			}
		case r.o.Now().Sub(rec.FirstAt.Time) > HookLogKept:
			rec.GaveUp = gaveUpExpired
			lost = append(lost, rec)
		case rec.Tries >= len(r.o.Pauses) && !r.o.Now().Before(rec.NextAt.Time):
			rec.GaveUp = gaveUpTries
			lost = append(lost, rec)
		default:
			kept = append(kept, rec)
		}
	}
	given, err := r.giveUp(ctx, lost)
	return append(kept, given...), err
}

// giveUp ends the requests for deliveries, loudly.
func (r *Redeliverer) giveUp(ctx context.Context, lost []kv.Redelivery) ([]kv.Redelivery, error) {
	if len(lost) == 0 {
		return nil, nil
	}
	var ids []task.DeliveryID
	for _, rec := range lost[:min(len(lost), maxNamed)] {
		ids = append(ids, rec.GUID)
	}
	r.log.Error("deliveries did not arrive and are not asked for any more", "count", len(lost), "github_delivery_ids", ids,
		"reason", lost[0].GaveUp, "from", lost[0].FirstAt.Time, "to", lost[len(lost)-1].FirstAt.Time,
		"next", "see with `belay redeliver --dry-run` what GitHub got for an answer; once the webhook answers, `belay redeliver` asks again, for three days")
	for i := range lost {
		var err error
		r.met.gaveUp.WithLabelValues(lost[i].GaveUp).Inc()
		if lost[i], err = r.o.Store.Change(ctx, lost[i]); unlessLost(err) != nil {
			return nil, err
		}
	}
	return lost, nil
}

// askFor claims one of a delivery's requests, then makes it. A process that
// dies in between has used it up: what is claimed is never made twice.
func (r *Redeliverer) askFor(ctx context.Context, rec kv.Redelivery) error {
	if err := r.o.GitHub.Spare(); err != nil {
		return err
	}
	rec.NextAt = task.At(r.o.Now().Add(r.o.Pauses[rec.Tries]))
	rec.Tries++
	rec, err := r.o.Store.Change(ctx, rec)
	if err != nil {
		return unlessLost(err)
	}
	err = r.o.GitHub.Redeliver(ctx, rec.Attempt)
	result := askResult(err)
	r.met.asked.WithLabelValues(result).Inc()
	switch result {
	case askAccepted:
		r.log.Info("asked github for a delivery again", "github_delivery_id", rec.GUID, "github_event", rec.Event, "try", rec.Tries)
		return nil
	case askGone:
		rec.GaveUp = gaveUpGone
		_, err = r.giveUp(ctx, []kv.Redelivery{rec})
		return err
	case askInvalid: // about this one alone; it counts
		r.log.Warn("github refused to deliver again", "github_delivery_id", rec.GUID, "try", rec.Tries, "err", err)
		return nil
	case askLimited, askRefused: // nothing happened: it does not count
		rec.Tries--
		rec.NextAt = task.Time{}
		if _, cerr := r.o.Store.Change(ctx, rec); unlessLost(cerr) != nil {
			return errors.Join(err, cerr)
		}
		return err
	}
	// It may have been taken: that shows in the list, or it is asked again later.
	return err
}

// The results of a request, the closed list of a metric's label.
const (
	askAccepted = "accepted"
	askGone     = "gone"
	askLimited  = "limited"
	askRefused  = "refused"
	askInvalid  = "invalid"
	askUnknown  = "unknown"
)

func askResult(err error) string {
	switch {
	case err == nil:
		return askAccepted
	case errors.Is(err, githubapp.ErrNotFound):
		return askGone
	case errors.Is(err, githubapp.ErrRateLimited):
		return askLimited
	case errors.Is(err, githubapp.ErrUnauthorized), errors.Is(err, githubapp.ErrForbidden):
		return askRefused
	case errors.Is(err, githubapp.ErrValidation):
		return askInvalid
	}
	return askUnknown
}

// pause waits by the machine's clock.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
