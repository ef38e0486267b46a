package ingest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// callTimeout bounds what a read or a command may take in the stores.
const callTimeout = 10 * time.Second

// maxNewest is how many of the newest deliveries are looked through for a
// task that admission has not seen yet.
const maxNewest = 100

type wireTasks struct {
	OK         bool       `json:"ok"`
	Tasks      []wireItem `json:"tasks"`
	NextCursor string     `json:"nextCursor,omitempty"`
}

// wireOneTask is the answer about one task; Task is a wireTask or a wireItem.
type wireOneTask struct {
	OK   bool `json:"ok"`
	Task any  `json:"task"`
}

func (s *Server) listTasks(w http.ResponseWriter, r *http.Request, c Caller) error {
	q, err := parseList(r, c.Scope, view.Statuses)
	if err != nil {
		return err
	}
	out := wireTasks{OK: true, Tasks: []wireItem{}}
	if inst, ok := q.within(c.Scope); ok {
		page, err := s.o.Tasks.List(view.Query{
			Installation: inst, Repos: c.Scope.Repos, Repo: q.repo, Status: q.status, Limit: q.limit, Cursor: q.cursor,
		})
		if err != nil {
			return err
		}
		for i := range page.Items {
			out.Tasks = append(out.Tasks, s.item(&page.Items[i]))
		}
		out.NextCursor = q.next(page.Next)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func (s *Server) showTask(w http.ResponseWriter, r *http.Request, c Caller) error {
	rec, logged, err := s.findTask(r, c)
	if err != nil {
		return err
	}
	out := wireOneTask{OK: true}
	if logged != nil {
		t, err := s.received(logged)
		if err != nil {
			return err
		}
		out.Task = t
	} else {
		t := s.taskOf(&rec)
		if rec.State == task.Queued {
			t.Waits = s.o.Tasks.Waits(rec.ID)
		}
		if t.Outbox, err = s.outboxOf(c, rec.ID); err != nil {
			return err
		}
		if t.Events, err = s.eventsOf(r.Context(), rec.ID); err != nil {
			return err
		}
		out.Task = t
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// findTask reads the record of the route's task, or, where admission has made
// none yet, its delivery. What is out of the caller's scope is unknown.
func (s *Server) findTask(r *http.Request, c Caller) (task.Record, *kv.Logged, error) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	return s.taskFor(ctx, c, task.ID(strings.ToLower(chi.URLParam(r, "id"))))
}

// taskFor is findTask for an id.
func (s *Server) taskFor(ctx context.Context, c Caller, id task.ID) (task.Record, *kv.Logged, error) {
	if s.o.Tasks == nil || s.o.TaskStore == nil {
		return task.Record{}, nil, errUnknownTask
	}
	inst, logged, err := s.locate(ctx, c, id)
	if err != nil {
		return task.Record{}, nil, err
	}
	rec, _, err := s.o.TaskStore.Get(ctx, inst, id)
	switch {
	case err == nil && c.Scope.sees(rec.InstallationID, rec.Repo) && rec.Tombstone:
		return task.Record{}, nil, errGone
	case err == nil && c.Scope.sees(rec.InstallationID, rec.Repo):
		return rec, nil, nil
	case err == nil:
		return task.Record{}, nil, errUnknownTask
	case errors.Is(err, kv.ErrNotFound) && logged != nil && c.Scope.sees(logged.InstallationID, logged.Repo):
		return task.Record{}, logged, nil
	case errors.Is(err, kv.ErrNotFound):
		return task.Record{}, nil, errUnknownTask
	}
	return task.Record{}, nil, err
}

// locate finds the installation of a task: in the read model, or, since that
// comes a little later, among the newest deliveries. What is out of the
// caller's scope is looked for as long as what is not there.
func (s *Server) locate(ctx context.Context, c Caller, id task.ID) (int64, *kv.Logged, error) {
	if i, ok := s.o.Tasks.Find(id); ok && c.Scope.sees(i.InstallationID, i.Repo) {
		return i.InstallationID, nil, nil
	}
	if inst, ok := s.o.Tasks.Entombed(id); ok && (c.Scope.Installation == nil || *c.Scope.Installation == inst) {
		return inst, nil, nil
	}
	if s.o.Deliveries == nil {
		return 0, nil, errUnknownTask
	}
	page, err := s.o.Deliveries.Page(ctx, kv.DeliveryQuery{Installation: c.Scope.Installation, Repos: c.Scope.Repos, Limit: maxNewest})
	if err != nil {
		return 0, nil, err
	}
	for i := range page.Deliveries {
		if of, ok := page.Deliveries[i].Routing.Task(); ok && of == id {
			return page.Deliveries[i].InstallationID, &page.Deliveries[i], nil
		}
	}
	return 0, nil, errUnknownTask
}

// showLog answers an attempt's output as plain text: the whole of it where
// this machine keeps it, else the tail in the record, and says which.
func (s *Server) showLog(w http.ResponseWriter, r *http.Request, c Caller) error {
	rec, logged, err := s.findTask(r, c)
	if err != nil {
		return err
	}
	if logged != nil {
		return errUnknownLog
	}
	n := rec.Attempts
	if v := r.URL.Query().Get("attempt"); v != "" {
		if n, err = strconv.Atoi(v); err != nil || n < 1 {
			return badParameter("attempt", "the number of an attempt")
		}
	}
	if n < 1 || n > rec.Attempts {
		return errUnknownLog
	}
	f, err := s.o.Logs.OpenLog(rec.ID, n)
	if errors.Is(err, fs.ErrNotExist) {
		return logTail(w, &rec, n)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	copyLog(w, f)
	return nil
}

func logHeader(w http.ResponseWriter, part string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Belay-Log", part)
	w.WriteHeader(http.StatusOK)
}

func logTail(w http.ResponseWriter, rec *task.Record, n int) error {
	for _, a := range rec.AttemptLog {
		if a.N == n && a.Tail != "" {
			logHeader(w, "tail")
			_, _ = io.WriteString(w, a.Tail)
			return nil
		}
	}
	return errRemoteLog
}

// copyLog writes as long as the client reads: each part has its own deadline.
func copyLog(w http.ResponseWriter, f io.Reader) {
	logHeader(w, "whole")
	rc := http.NewResponseController(w)
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
