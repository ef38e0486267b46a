package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// Admitter makes the log visible in the bucket. Every step can be repeated.
type Admitter struct {
	store     *kv.TaskStore
	view      *view.View
	familiars func() []string
	dedupe    time.Duration
	tombTTL   time.Duration
	now       func() time.Time
	log       *slog.Logger

	deliveries *kv.DeliveryLog
	audit      Auditor
	forget     func(task.ID) error
	outbox     *kv.OutboxStore
	tracer     trace.Tracer
}

// AdmitterOptions are what an Admitter is made of.
type AdmitterOptions struct {
	Store *kv.TaskStore
	View  *view.View
	// Familiars returns the ids of all configured familiars.
	Familiars func() []string
	// Replay is how long a body that names one occurrence is remembered.
	Replay time.Duration
	// TombTTL is how long the tombstone of a deleted installation's task
	// keeps its delivery from running again.
	TombTTL time.Duration
	// Deliveries is the log, of which a deleted installation's part is purged.
	Deliveries *kv.DeliveryLog
	Audit      Auditor
	// Forget removes what a task left outside the store; may be nil.
	Forget func(task.ID) error
	// Outbox is where a deleted installation's replies are purged; may be nil.
	Outbox *kv.OutboxStore
	// Tracer makes the spans of admissions; nil: there are none.
	Tracer trace.Tracer
	Now    func() time.Time
	Logger *slog.Logger
}

// NewAdmitter makes an Admitter.
func NewAdmitter(o AdmitterOptions) *Admitter {
	return &Admitter{
		store: o.Store, view: o.View, familiars: o.Familiars, dedupe: o.Replay,
		now: o.Now, log: o.Logger, tombTTL: o.TombTTL, deliveries: o.Deliveries, audit: o.Audit, forget: o.Forget, outbox: o.Outbox, tracer: o.Tracer,
	}
}

// Admit makes the record of a logged delivery, or does what an ignored one
// asks for. nil means that the message may be acknowledged.
func (a *Admitter) Admit(ctx context.Context, d task.Delivery, seq uint64) (err error) {
	ctx, done := a.admitSpan(ctx, &d, seq)
	defer func() { done(err) }()
	if d.Task == nil {
		switch why, _ := d.Routing.Reason(); why {
		case task.Closed:
			return a.closed(ctx, d, seq)
		case task.InstallationDeleted:
			return a.uninstall(ctx, d, seq)
		}
		return nil
	}
	if done, err := a.before(ctx, d); done || err != nil {
		return err
	}
	r, err := task.New(d, seq, task.At(a.now()))
	if err != nil {
		return err
	}
	if a.view.Uninstalled(d.InstallationID) {
		return a.refuse(ctx, r)
	}
	if d.Task.Once {
		first, err := a.store.Seen(ctx, d.Source, d.PayloadHash, d.ID, a.dedupe)
		if err != nil {
			return err
		}
		if first != d.ID {
			return a.createSuperseded(ctx, r, task.Pointer{Task: kv.TaskID(d.Source, task.MessageID(d.Source, first))}, task.ReasonReplayed)
		}
	}
	if d.Event == "pull_request" && d.Action == "closed" { // a rule's task
		if err := a.closed(ctx, d, seq); err != nil {
			return err
		}
	}
	if d.Task.Review != nil {
		return a.grouped(ctx, r, d, seq)
	}
	return a.create(ctx, r)
}

// before reports whether the task was admitted before; the rest of a review's
// admission is made up for. A task that the view does not know is most likely
// new, and its Create finds out by itself; only a review is looked up always,
// since its pointer moves before that. What is said of reviews here goes for
// the tasks of a rule's group as well.
func (a *Admitter) before(ctx context.Context, d task.Delivery) (bool, error) {
	if _, known := a.view.Standing(d.Task.ID); !known && d.Task.Review == nil {
		return false, nil
	}
	r, _, err := a.store.Get(ctx, d.InstallationID, d.Task.ID)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return false, nil
	case errors.Is(err, kv.ErrNewer), errors.Is(err, kv.ErrCorrupt):
		return true, nil // an unreadable record is left alone
	case err != nil:
		return false, err
	case r.State == task.Queued && d.Task.Review != nil:
		return true, a.finishReview(ctx, r)
	}
	return true, nil
}

func (a *Admitter) create(ctx context.Context, r task.Record) error {
	rev, err := a.store.Create(ctx, r)
	if err == nil {
		a.view.Hand(r, rev)
	}
	if errors.Is(err, kv.ErrExists) {
		return nil
	}
	return err
}

func (a *Admitter) createSuperseded(ctx context.Context, r task.Record, winner task.Pointer, reason string) error {
	s, err := r.Supersede(task.Holder{}, winner.Task, reason, a.now())
	if err != nil {
		return err
	}
	if winner.Head != "" {
		s.BeatenBy = &winner.Order
	}
	return a.create(ctx, s)
}

// grouped moves the supersede pointer, then creates the record, then
// supersedes the former winner. A crash between any two of these is repeated
// by the message: the pointer names the task already, or names a newer one.
func (a *Admitter) grouped(ctx context.Context, r task.Record, d task.Delivery, seq uint64) error {
	key, _ := r.Key()
	c := task.Candidate{
		Task: r.ID, Head: r.HeadSHA, Before: d.Task.Review.Before,
		Order: task.Order{UpdatedAt: d.Task.Review.UpdatedAt, Seq: seq},
	}
	if r.Kind.Name == task.Custom && d.Event != "push" {
		c.Head, c.Before = "", "" // such events differ though their commit is the same
	}
	verdict, p, err := a.movePointer(ctx, key, c)
	if err != nil {
		return err
	}
	switch verdict {
	case task.Stale:
		return a.createSuperseded(ctx, r, p, task.ReasonStale)
	case task.Coalesced:
		return a.createSuperseded(ctx, r, p, task.ReasonCoalesced)
	}
	if err := a.create(ctx, r); err != nil {
		return err
	}
	if err := a.supersedePrev(ctx, r, p); err != nil {
		return err
	}
	return a.finishReview(ctx, r)
}

// finishReview does the last step for a review that has its record, again if
// a crash or a lost answer came before it. A newer review may have moved the
// pointer before this one's record was there to be superseded.
func (a *Admitter) finishReview(ctx context.Context, r task.Record) error {
	key, _ := r.Key()
	p, _, err := a.store.Pointer(ctx, key)
	switch {
	case err != nil || p == nil:
		return err
	case p.Task == r.ID:
		return a.supersedePrev(ctx, r, *p)
	}
	_, _, err = a.store.Change(ctx, r.InstallationID, r.ID, func(r task.Record) (task.Record, error) {
		if r.State != task.Queued || r.Attempts > 0 { // one that ran, or was retried, is not touched
			return r, errUntouched
		}
		s, err := r.Supersede(task.Holder{}, p.Task, task.ReasonSuperseded, a.now())
		s.BeatenBy = &p.Order
		return s, err
	}, nil)
	if errors.Is(err, errUntouched) || errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	return err
}

func (a *Admitter) supersedePrev(ctx context.Context, r task.Record, p task.Pointer) error {
	if p.Prev == "" {
		return nil
	}
	return a.supersedeQueued(ctx, r.InstallationID, p.Prev, r.ID, task.ReasonSuperseded, func(task.Record) bool { return true })
}

// movePointer decides anew from the fresh pointer on every try.
func (a *Admitter) movePointer(ctx context.Context, key task.SupersedeKey, c task.Candidate) (task.Verdict, task.Pointer, error) {
	for {
		p, rev, err := a.store.Pointer(ctx, key)
		if err != nil {
			return "", task.Pointer{}, err
		}
		live, err := a.live(ctx, key.InstallationID, p)
		if err != nil {
			return "", task.Pointer{}, err
		}
		verdict, next := task.Decide(p, c, live)
		if verdict == task.Holds || verdict == task.Stale {
			return verdict, next, nil
		}
		err = a.store.SetPointer(ctx, key, next, rev)
		switch {
		case err == nil:
			return verdict, next, nil
		case ctx.Err() != nil || !errors.Is(err, kv.ErrConflict) && !errors.Is(err, kv.ErrUnknown):
			return "", task.Pointer{}, fmt.Errorf("move supersede pointer: %w", err)
		}
	}
}

// live reports whether the pointer's task is queued or running. One without a
// record is not: coalescing onto it could lose the head.
func (a *Admitter) live(ctx context.Context, installation int64, p *task.Pointer) (bool, error) {
	if p == nil {
		return false, nil
	}
	r, _, err := a.store.Get(ctx, installation, p.Task)
	if errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrNewer) || errors.Is(err, kv.ErrCorrupt) {
		return false, nil
	}
	return err == nil && !r.State.Terminal(), err
}

// supersedeQueued ends a task if it is still queued and matches; a running
// one is not touched (DT-49).
func (a *Admitter) supersedeQueued(ctx context.Context, installation int64, id, by task.ID, reason string, match func(task.Record) bool) error {
	_, _, err := a.store.Change(ctx, installation, id, func(r task.Record) (task.Record, error) {
		if r.State != task.Queued || !match(r) {
			return r, errUntouched
		}
		return r.Supersede(task.Holder{}, by, reason, a.now())
	}, nil)
	switch {
	case errors.Is(err, errUntouched), errors.Is(err, kv.ErrNotFound), errors.Is(err, kv.ErrNewer), errors.Is(err, kv.ErrCorrupt):
		return nil
	}
	return err
}

var errUntouched = errors.New("record needs no change")

// closed supersedes the queued reviews of a pull request that was closed:
// those the pointers name and those the view knows, if logged before it.
func (a *Admitter) closed(ctx context.Context, d task.Delivery, seq uint64) error {
	ids := map[task.ID]bool{}
	for _, id := range a.view.QueuedReviews(d.InstallationID, d.RepoID, d.Number) {
		ids[id] = true
	}
	for _, f := range a.familiars() {
		p, _, err := a.store.Pointer(ctx, task.SupersedeKey{
			InstallationID: d.InstallationID, RepoID: d.RepoID, Number: d.Number, FamiliarID: f,
		})
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		// A later event of the same head was coalesced onto the task, after the
		// pull request was opened again: it is that event's review now.
		ids[p.Task] = p.Order.Seq < seq
	}
	for id, before := range ids {
		if !before {
			continue
		}
		err := a.supersedeQueued(ctx, d.InstallationID, id, "", task.ReasonClosed, func(r task.Record) bool {
			return r.Kind.Name == task.ReviewPullRequest && r.DeliverySeq < seq
		})
		if err != nil {
			return err
		}
	}
	return nil
}
