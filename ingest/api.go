package ingest

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// maxRequest bounds the body of an API request.
const maxRequest = 64 << 10

// apiRoutes are the routes under /api. Everything there asks who calls first,
// also for paths that do not exist.
func (s *Server) apiRoutes(root chi.Routes) http.Handler {
	r := chi.NewRouter()
	r.Use(s.authorize, s.mutation)
	s.unrouted(r, root)
	if s.o.Tasks != nil && s.o.TaskStore != nil {
		r.Get("/github/tasks", s.read("tasks", s.listTasks))
		r.Get("/github/tasks/{id}", s.read("task", s.showTask))
		if s.o.Logs != nil {
			r.Get("/github/tasks/{id}/log", s.read("log", s.showLog))
		}
		if s.o.Commands != nil {
			r.Post("/github/tasks/{id}/retry", s.handle(s.retryTask))
			r.Post("/github/tasks/{id}/cancel", s.handle(s.cancelTask))
		}
	}
	if s.o.Outbox != nil && s.o.OutboxStore != nil {
		r.Get("/github/outbox", s.read("outbox", s.listOutbox))
		r.Post("/github/outbox/{id}/resolve", s.handle(s.resolveOutbox))
	}
	if s.o.Events != nil {
		r.Post("/events", s.handle(s.postEvent))
	}
	if s.o.Switch != nil {
		r.Post("/control/pause", s.handle(s.pause))
		r.Post("/control/resume", s.handle(s.resume))
	}
	if s.o.Deliveries != nil {
		r.Get("/github/deliveries", s.read("deliveries", s.listDeliveries))
		r.Get("/github/deliveries/{id}", s.read("delivery", s.showDelivery))
		if s.o.Payloads != nil {
			r.Post("/github/deliveries/{id}/replay", s.handle(s.replayDelivery))
		}
		if s.o.Tasks != nil && s.o.TaskStore != nil {
			r.Get("/github/explain/{id}", s.read("explanation", s.explain))
		}
	}
	if s.o.Usage != nil {
		r.Get("/github/usage", s.read("usage", s.listUsage))
	}
	if s.o.Trail != nil {
		r.Get("/github/audit", s.read("audit", s.listAudit))
	}
	if s.o.Places != nil {
		r.Get("/github/routing", s.read("routing", s.listRouting))
	}
	return r
}

// apiHandler answers by itself, or returns the error to answer.
type apiHandler func(w http.ResponseWriter, r *http.Request, c Caller) error

// handle answers the errors of h and logs those that are ours.
func (s *Server) handle(h apiHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r, CallerFrom(r.Context()))
		if err == nil {
			return
		}
		a := s.fail(w, err)
		if a.status >= http.StatusInternalServerError {
			s.logLimited(slog.LevelError, "api_"+a.reason, "api request not answered",
				slog.String("route", chi.RouteContext(r.Context()).RoutePattern()), slog.String("err", err.Error()))
		}
	}
}

// read is handle for a read, which is audited as what.
func (s *Server) read(what string, h apiHandler) http.HandlerFunc {
	next := s.handle(h)
	return func(w http.ResponseWriter, r *http.Request) {
		c := CallerFrom(r.Context())
		s.o.Auditor.Read(c.Name, c.Scope.installation(), what)
		next(w, r)
	}
}

// mutation refuses what a foreign page could make a browser send: a mutation
// that is no JSON, or comes from another site.
func (s *Server) mutation(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
			next.ServeHTTP(w, r)
			return
		}
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
			s.fail(w, errContentType)
			return
		}
		if s.origin.Check(r) != nil {
			s.fail(w, errCrossSite)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		next.ServeHTTP(w, r)
	})
}

// readJSON reads a request's body into v; no body leaves v as it is.
func readJSON(r *http.Request, v any) error {
	data, err := io.ReadAll(r.Body)
	if m := (*http.MaxBytesError)(nil); errors.As(err, &m) {
		return errRequestSize
	}
	if err != nil {
		return bodyError(err)
	}
	if len(data) == 0 {
		return nil
	}
	if json.Unmarshal(data, v) != nil {
		return errParseBody
	}
	return nil
}
