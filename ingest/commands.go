package ingest

import (
	"context"
	"errors"
	"net/http"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// maxReason bounds what a person may say of a cancelled task, in bytes.
const maxReason = 1000

// retryTask queues an ended task again: 202.
func (s *Server) retryTask(w http.ResponseWriter, r *http.Request, c Caller) error {
	var in struct{}
	if err := readJSON(r, &in); err != nil {
		return err
	}
	return s.command(w, r, c, AuditRetry, http.StatusAccepted, func(ctx context.Context, t *task.Record) (task.Record, error) {
		return s.o.Commands.Retry(ctx, t.InstallationID, t.ID, c.Name)
	})
}

// cancelTask ends a queued or running task: 200.
func (s *Server) cancelTask(w http.ResponseWriter, r *http.Request, c Caller) error {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := readJSON(r, &in); err != nil {
		return err
	}
	if len(in.Reason) > maxReason {
		return badParameter("reason", "at most 1000 bytes")
	}
	return s.command(w, r, c, AuditCancel, http.StatusOK, func(ctx context.Context, t *task.Record) (task.Record, error) {
		return s.o.Commands.Cancel(ctx, t.InstallationID, t.ID, c.Name, in.Reason)
	})
}

// command runs one command on the route's task, audits it and answers the
// task's item. It goes on when the client hangs up: what was asked for is
// done or refused, not left in between.
func (s *Server) command(w http.ResponseWriter, r *http.Request, c Caller, action string, status int,
	do func(context.Context, *task.Record) (task.Record, error),
) error {
	rec, logged, err := s.findTask(r, c)
	if err != nil {
		return s.missed(r, c, err)
	}
	if logged != nil {
		return &textError{kind: task.ErrState, text: "not admitted yet, try again"}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callTimeout)
	defer cancel()
	after, err := do(ctx, &rec)
	entry := kv.AuditEntry{
		Kind: action, Caller: c.Name, InstallationID: rec.InstallationID, Repo: rec.Repo, TaskID: rec.ID, DeliveryID: rec.DeliveryID,
	}
	switch {
	case errors.Is(err, task.ErrState):
		err = refusal(action, &rec, &after)
	case errors.Is(err, kv.ErrNotFound):
		err = errUnknownTask
	}
	if entry.Detail = "done"; err != nil {
		entry.Detail = "refused: " + err.Error()
	}
	s.o.Auditor.Mutation(ctx, entry)
	if err != nil {
		return err
	}
	writeJSON(w, status, wireOneTask{OK: true, Task: s.itemOf(&after)})
	return nil
}

// refusal says which state stood against a command: the one that refused it,
// or else the one last read.
func refusal(action string, read, refused *task.Record) error {
	if refused.State == "" {
		refused = read
	}
	text := "already " + string(refused.State)
	if action == AuditRetry && refused.State == task.Superseded {
		text = "superseded by " + string(refused.SupersededBy)
	}
	return &textError{kind: task.ErrState, text: text}
}
