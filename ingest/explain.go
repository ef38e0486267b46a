package ingest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// wireExplanation tells what became of a delivery or a task, in the order of
// time and with the reason of each decision.
type wireExplanation struct {
	OK bool `json:"ok"`
	// ID is what was asked for.
	ID         string         `json:"id"`
	Deliveries []wireDelivery `json:"deliveries"`
	Tasks      []wireItem     `json:"tasks"`
	Steps      []wireStep     `json:"steps"`
}

// explain answers GET /api/github/explain/{id} for the id of a task or of a
// delivery.
func (s *Server) explain(w http.ResponseWriter, r *http.Request, c Caller) error {
	ctx, cancel := context.WithTimeout(r.Context(), 3*callTimeout)
	defer cancel()
	asked := chi.URLParam(r, "id")
	x := &story{s: s, c: c, deliveries: []wireDelivery{}, tasks: []wireItem{}}
	err := x.task(ctx, task.ID(strings.ToLower(asked)))
	if errors.Is(err, errUnknownTask) {
		err = x.delivery(ctx, asked)
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(x.steps, func(a, b wireStep) int { return a.At.Compare(b.At.Time) })
	writeJSON(w, http.StatusOK, wireExplanation{OK: true, ID: asked, Deliveries: x.deliveries, Tasks: x.tasks, Steps: x.steps})
	return nil
}

// story collects the steps of an explanation, as far as its caller sees them.
type story struct {
	s          *Server
	c          Caller
	deliveries []wireDelivery
	tasks      []wireItem
	steps      []wireStep
}

// task tells of a task, beginning with its delivery. errUnknownTask: there is
// none of the id, or none for this caller.
func (x *story) task(ctx context.Context, id task.ID) error {
	r, logged, err := x.s.taskFor(ctx, x.c, id)
	switch {
	case errors.Is(err, errGone):
		return x.entombed(ctx, id)
	case err != nil:
		return err
	case logged != nil:
		return x.logged(ctx, logged)
	}
	l, err := x.s.o.Deliveries.Get(ctx, r.DeliverySeq)
	switch {
	case err == nil:
		x.accepted(&l)
	case errors.Is(err, kv.ErrNotFound):
		x.forgotten(&r)
	default:
		return err
	}
	return x.record(ctx, &r)
}

// delivery tells of every delivery of an id: one event that came through two
// hooks is two.
func (x *story) delivery(ctx context.Context, asked string) error {
	id, err := github.ParseDeliveryID(asked)
	if err != nil {
		return errDelivery
	}
	found, err := x.s.o.Deliveries.FindAll(ctx, id, kv.DeliveryQuery{Installation: x.c.Scope.Installation, Repos: x.c.Scope.Repos})
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	known := false
	for i := range found {
		if !x.c.Scope.sees(found[i].InstallationID, found[i].Repo) {
			continue
		}
		known = true
		if err := x.logged(ctx, &found[i]); err != nil {
			return err
		}
	}
	if !known {
		return errDelivery
	}
	return nil
}

// logged tells of a delivery, and of its task if it made one.
func (x *story) logged(ctx context.Context, l *kv.Logged) error {
	x.accepted(l)
	id, ok := l.Routing.Task()
	if !ok {
		return nil
	}
	r, _, err := x.s.o.TaskStore.Get(ctx, l.InstallationID, id)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		x.unadmitted(l, id)
		return nil
	case err != nil:
		return err
	case r.Tombstone:
		x.tombstone(&r)
		return nil
	}
	return x.record(ctx, &r)
}

// entombed tells what is left of a task past its retention.
func (x *story) entombed(ctx context.Context, id task.ID) error {
	inst, _ := x.s.o.Tasks.Entombed(id)
	r, _, err := x.s.o.TaskStore.Get(ctx, inst, id)
	if err != nil {
		return err
	}
	if l, err := x.s.o.Deliveries.Get(ctx, r.DeliverySeq); err == nil {
		x.accepted(&l)
	}
	x.tombstone(&r)
	return nil
}

// record tells of a task: its attempts, what people did to it, what was
// reported of it, what it sent.
func (x *story) record(ctx context.Context, r *task.Record) error {
	x.tasks = append(x.tasks, x.s.itemOf(r))
	x.admitted(r)
	for i := range r.AttemptLog {
		x.attempt(r, &r.AttemptLog[i])
	}
	if err := x.trail(ctx, r); err != nil {
		return err
	}
	events, err := x.s.eventsOf(ctx, r.ID)
	if err != nil {
		return err
	}
	for _, e := range events {
		x.add(r, wireStep{At: e.At, Kind: stepEvent, Text: "reported: " + e.Type})
	}
	replies, err := x.s.outboxOf(x.c, r.ID)
	if err != nil {
		return err
	}
	x.standing(r)
	for i := range replies {
		x.reply(r, &replies[i])
	}
	return nil
}

// trail tells what the audit trail holds of a task. Only the newest part of a
// long trail is looked through.
func (x *story) trail(ctx context.Context, r *task.Record) error {
	if x.s.o.Trail == nil {
		return nil
	}
	page, err := x.s.o.Trail.Page(ctx, kv.AuditQuery{
		Installation: x.c.Scope.Installation, Repos: x.c.Scope.Repos, TaskID: r.ID, Since: r.CreatedAt.Time, Limit: maxLimit,
	})
	if err != nil {
		return err
	}
	for i := range page.Entries {
		x.audited(r, &page.Entries[i])
	}
	return nil
}
