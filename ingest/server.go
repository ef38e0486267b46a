package ingest

import (
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers on two listeners. It starts no goroutine and needs no stop:
// whoever listens owns the http.Server.
type Server struct {
	o        Options
	log      *slog.Logger
	metrics  *metrics
	budget   *budget
	limit    *limiter
	origin   *http.CrossOriginProtection
	store    storeProbe
	draining atomic.Bool
	// replaying is held by the one replay that is under way.
	replaying sync.Mutex
	public    http.Handler
	admin     http.Handler
}

// New makes a server and registers its metrics. It refuses options that
// could not serve: nothing to store to, no secrets function, token mode
// without a token.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{o: o, log: o.Logger, limit: newLimiter(o.Now), origin: http.NewCrossOriginProtection()}
	s.budget = &budget{max: o.MaxInFlight}
	m, err := newMetrics(o.Registerer, s.budget, o.Version)
	if err != nil {
		return nil, err
	}
	s.metrics = m
	s.public, s.admin = s.publicRoutes(), s.adminRoutes()
	return s, nil
}

// Public is the handler of the public listener: the webhook, the API, health.
func (s *Server) Public() http.Handler { return s.public }

// Admin is the handler of the admin listener: health and metrics.
func (s *Server) Admin() http.Handler { return s.admin }

// SetDraining makes /readyz say that the process is about to stop.
func (s *Server) SetDraining(on bool) { s.draining.Store(on) }

// webhookPath is the door of task.DefaultSource.
const webhookPath = "/webhook"

func (s *Server) publicRoutes() http.Handler {
	r := s.router()
	r.HandleFunc(webhookPath, s.webhook)
	r.HandleFunc(webhookPath+"/{source}", s.sourceWebhook)
	s.healthRoutes(r, publicReady, noWarnings)
	if s.o.Operator != nil {
		r.Mount("/api/operator", s.operatorRoutes(r))
	}
	r.Mount("/api", s.apiRoutes(r))
	return r
}

func (s *Server) adminRoutes() http.Handler {
	r := s.router()
	s.healthRoutes(r, adminReady, s.warnings)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(s.o.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError),
	}))
	return r
}

// router is a chi router whose every answer is JSON and survives a panic.
func (s *Server) router() *chi.Mux {
	r := chi.NewRouter()
	r.Use(s.recover)
	s.unrouted(r, r)
	return r
}

// unrouted answers what r has no route for; root knows the whole of it.
func (s *Server) unrouted(r *chi.Mux, root chi.Routes) {
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) { s.fail(w, errNotFound) })
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			if root.Match(chi.NewRouteContext(), m, req.URL.Path) {
				w.Header().Add("Allow", m)
			}
		}
		s.fail(w, errMethod)
	})
}

// Timeouts of HTTPServer. The intake deadline, which is shorter, is set for
// each webhook by its handler.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// HTTPServer is an http.Server for one of the handlers, with the timeouts
// that keep a slow or silent client from holding a connection. Listen with
// Listener, so that the intake deadline counts from a request's first byte.
func (s *Server) HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       connContext,
		ConnState:         connState,
		ErrorLog:          s.errorLog(),
	}
}
