package ingest

import (
	"context"
	"net/http"
	"strings"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// wireAudit is one entry of the audit trail (REQUIREMENTS §API).
type wireAudit struct {
	At     task.Time `json:"at"`
	TaskID task.ID   `json:"taskId,omitempty"`
	Repo   string    `json:"repo,omitempty"`
	Kind   string    `json:"kind"`
	Detail string    `json:"detail,omitempty"`
	Caller string    `json:"caller,omitempty"`
}

type wireAuditList struct {
	OK         bool        `json:"ok"`
	Audit      []wireAudit `json:"audit"`
	NextCursor string      `json:"nextCursor,omitempty"`
}

// listAudit answers who did what, the newest first.
func (s *Server) listAudit(w http.ResponseWriter, r *http.Request, c Caller) error {
	q, err := parseList(r, c.Scope, nil)
	if err != nil {
		return err
	}
	out := wireAuditList{OK: true, Audit: []wireAudit{}}
	if inst, ok := q.within(c.Scope); ok {
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		v := r.URL.Query()
		page, err := s.o.Trail.Page(ctx, kv.AuditQuery{
			Installation: inst, Repos: c.Scope.Repos, Repo: q.repo, Kind: v.Get("kind"), Caller: v.Get("caller"),
			TaskID: task.ID(strings.ToLower(v.Get("task"))), Limit: q.limit, Cursor: q.cursor,
		})
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			out.Audit = append(out.Audit, wireAudit{At: e.At, TaskID: e.TaskID, Repo: e.Repo, Kind: e.Kind, Detail: e.Detail, Caller: e.Caller})
		}
		out.NextCursor = q.next(page.Next)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}
