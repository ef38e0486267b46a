package ingest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// wireOutbox is one record of the outbox (REQUIREMENTS §API).
type wireOutbox struct {
	ID      outbox.ID     `json:"id"`
	Channel string        `json:"channel"`
	To      string        `json:"to"`
	TaskID  task.ID       `json:"taskId,omitempty"`
	Status  outbox.Status `json:"status"`
	// Unknown is true where nobody can say whether it arrived (OB-39).
	Unknown   bool      `json:"unknown"`
	Attempts  int       `json:"attempts"`
	LastError string    `json:"lastError,omitempty"`
	CreatedAt task.Time `json:"createdAt"`
	UpdatedAt task.Time `json:"updatedAt"`
}

type wireOutboxList struct {
	OK         bool         `json:"ok"`
	Outbox     []wireOutbox `json:"outbox"`
	NextCursor string       `json:"nextCursor,omitempty"`
}

// wireResolved is a record after its resolution, and the record that it is
// sent again as.
type wireResolved struct {
	OK       bool        `json:"ok"`
	Record   wireOutbox  `json:"record"`
	ResentAs *wireOutbox `json:"resentAs,omitempty"`
}

func outboxItem(i *view.OutboxItem) wireOutbox {
	return wireOutbox{
		ID: i.ID, Channel: i.Channel, To: i.To, TaskID: i.TaskID, Status: i.Status, Unknown: i.Unknown,
		Attempts: i.Attempts, LastError: i.LastError, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt,
	}
}

// outboxRecord is outboxItem for a record.
func (s *Server) outboxRecord(r *outbox.Record) wireOutbox {
	return wireOutbox{
		ID: r.ID, Channel: r.Channel, To: r.To, TaskID: task.ID(r.TaskID), Status: r.Status, Unknown: r.Unknown(s.o.Now()),
		Attempts: r.Attempts, LastError: r.LastError, CreatedAt: task.At(r.CreatedAt.Time), UpdatedAt: task.At(r.UpdatedAt.Time),
	}
}

func (s *Server) listOutbox(w http.ResponseWriter, r *http.Request, c Caller) error {
	q, err := parseList(r, c.Scope, view.OutboxStatuses)
	if err != nil {
		return err
	}
	v := r.URL.Query()
	switch unknown := v.Get("unknown"); {
	case unknown != "" && unknown != "true":
		return badParameter("unknown", "true, or left out")
	case unknown != "" && q.status != "" && q.status != string(outbox.Delivering) && q.status != view.StatusUnknown:
		return badParameter("unknown", "left out with status="+q.status)
	case unknown != "":
		q.status = view.StatusUnknown
	}
	out := wireOutboxList{OK: true, Outbox: []wireOutbox{}}
	if inst, ok := q.within(c.Scope); ok {
		page, err := s.o.Outbox.Outbox(view.OutboxQuery{
			Installation: inst, Repos: c.Scope.Repos, Repo: q.repo, Status: q.status, Channel: v.Get("channel"),
			Task: task.ID(strings.ToLower(v.Get("task"))), Limit: q.limit, Cursor: q.cursor,
		})
		if err != nil {
			return err
		}
		for i := range page.Items {
			out.Outbox = append(out.Outbox, outboxItem(&page.Items[i]))
		}
		out.NextCursor = q.next(page.Next)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// outboxOf lists what one task sent, as far as the caller sees it.
func (s *Server) outboxOf(c Caller, id task.ID) ([]wireOutbox, error) {
	out := []wireOutbox{}
	if s.o.Outbox == nil {
		return out, nil
	}
	page, err := s.o.Outbox.Outbox(view.OutboxQuery{
		Installation: c.Scope.Installation, Repos: c.Scope.Repos, Task: id, Limit: maxLimit,
	})
	for i := range page.Items {
		out = append(out, outboxItem(&page.Items[i]))
	}
	return out, err
}

// resolveOutbox settles a record whose outcome is unknown: 200 with the
// record, and with the new one of a resend.
func (s *Server) resolveOutbox(w http.ResponseWriter, r *http.Request, c Caller) error {
	how, reason, err := readResolution(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callTimeout)
	defer cancel()
	id := outbox.ID(chi.URLParam(r, "id"))
	before, err := s.o.OutboxStore.Find(ctx, id)
	if err != nil {
		return err
	}
	if before == nil || !c.Scope.sees(before.InstallationID, before.Repo) {
		return s.missed(r, c, errOutbox)
	}
	after, again, err := s.o.OutboxStore.Resolve(ctx, id, how, reason, c.Name)
	switch {
	case errors.Is(err, outbox.ErrState):
		err = unresolvable(&after, before)
	case errors.Is(err, kv.ErrNotFound):
		err = errOutbox
	}
	detail := "outbox " + string(id) + " as " + string(how) + ": " + reason
	if err != nil {
		detail += ", refused: " + err.Error()
	}
	s.o.Auditor.Mutation(ctx, kv.AuditEntry{
		Kind: AuditResolve, Caller: c.Name, InstallationID: before.InstallationID, Repo: before.Repo, TaskID: task.ID(before.TaskID), Detail: detail,
	})
	if err != nil {
		return err
	}
	out := wireResolved{OK: true, Record: s.outboxRecord(&after)}
	if again != nil {
		item := s.outboxRecord(again)
		out.ResentAs = &item
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// readResolution reads how a record is to be resolved, and why.
func readResolution(r *http.Request) (how outbox.Resolution, reason string, err error) {
	var in struct {
		As     outbox.Resolution `json:"as"`
		Reason string            `json:"reason"`
	}
	if err := readJSON(r, &in); err != nil {
		return "", "", err
	}
	switch in.As {
	case outbox.ResolveDelivered, outbox.ResolveFailed, outbox.ResolveResend:
	default:
		return "", "", badParameter("as", "delivered, failed or resend")
	}
	reason = strings.TrimSpace(in.Reason)
	switch {
	case reason == "":
		return "", "", badParameter("reason", "given: say how you know, for the record")
	case len(reason) > maxReason:
		return "", "", badParameter("reason", "at most 1000 bytes")
	}
	return in.As, reason, nil
}

// unresolvable says why a record cannot be resolved: by the one that refused,
// or else the one last read.
func unresolvable(refused, read *outbox.Record) error {
	if refused.Status == "" {
		refused = read
	}
	text := "already " + string(refused.Status)
	switch refused.Status {
	case outbox.Pending:
		text = "still pending: it will be sent"
	case outbox.Delivering:
		text = "still being sent: its outcome is unknown only from " + task.At(refused.LeaseEnd()).String() + " on"
	}
	return &textError{kind: outbox.ErrState, text: text}
}
