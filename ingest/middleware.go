package ingest

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/belay-run/belay/ingest/github"
)

// tracked knows whether an answer was begun.
type tracked struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (t *tracked) WriteHeader(status int) {
	t.begun = true
	t.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (t *tracked) Write(p []byte) (int, error) {
	t.begun = true
	return t.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// recover turns a panic into a 500, a log line and a count. Only an answer
// that was begun can not be taken back: its connection is cut, so that the
// client does not take a part for the whole.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &tracked{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			s.panicked(r, v)
			if t.begun {
				panic(http.ErrAbortHandler)
			}
			s.fail(w, errPanic)
		}()
		next.ServeHTTP(t, r)
	})
}

// panicked counts and logs a panic. Its value may hold a part of a payload,
// so only the runtime's own is told; else the type and the place have to do.
func (s *Server) panicked(r *http.Request, v any) {
	s.metrics.panics.Inc()
	what := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		what = err.Error()
	}
	attrs := []slog.Attr{slog.String("method", r.Method), slog.String("panic", what), slog.String("stack", string(debug.Stack()))}
	if r.URL.Path == webhookPath {
		s.metrics.reject(reasonPanic)
		if id, err := github.ParseDeliveryID(r.Header.Get(headerDelivery)); err == nil {
			attrs = append(attrs, slog.String("github_delivery_id", string(id)))
		}
	}
	s.logLimited(slog.LevelError, "panic", "request panicked", attrs...)
}
