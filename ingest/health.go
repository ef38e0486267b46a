package ingest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
)

const (
	probeTimeout = 2 * time.Second
	// probeEvery is how long an answer of the store stands, so that asking
	// for /healthz, which anybody may, costs the store little.
	probeEvery = 250 * time.Millisecond
)

// storeProbe asks the store, one at a time.
type storeProbe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

func (p *storeProbe) ask(ctx context.Context, prober Prober, now func() time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || now().Sub(p.at) >= probeEvery {
		// Not the client's context: others wait for the same answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		p.err = prober.Store(ctx)
		p.at = now()
	}
	return p.err
}

type wireOK struct {
	OK bool `json:"ok"`
}

// wireReady is /readyz: Conditions hold names on the public listener and
// whole conditions on the admin one.
type wireReady struct {
	OK         bool `json:"ok"`
	Conditions any  `json:"conditions,omitempty"`
	// Warnings do not stop work; only the admin listener shows them.
	Warnings []Condition `json:"warnings,omitempty"`
}

func publicReady(failing []Condition) any {
	names := make([]string, 0, len(failing))
	for _, c := range failing {
		names = append(names, c.Name)
	}
	return names
}

func adminReady(failing []Condition) any { return failing }

// healthRoutes need no authorization and leak nothing (DT-106): /livez says
// that the process answers, /healthz that its store does, /readyz that work
// makes progress.
func (s *Server) healthRoutes(r chi.Router, show func([]Condition) any, warnings func() []Condition) {
	get := func(path string, h http.HandlerFunc) {
		r.Get(path, h)
		r.Head(path, h)
	}
	get("/livez", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, wireOK{OK: true}) })
	get("/healthz", s.healthz)
	get("/readyz", func(w http.ResponseWriter, r *http.Request) {
		failing := s.failing(r.Context())
		if len(failing) == 0 {
			writeJSON(w, http.StatusOK, wireReady{OK: true, Warnings: warnings()})
			return
		}
		writeJSON(w, http.StatusServiceUnavailable, wireReady{Conditions: show(failing), Warnings: warnings()})
	})
}

func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	if s.o.Prober != nil {
		if err := s.store.ask(r.Context(), s.o.Prober, s.o.Now); err != nil {
			writeJSON(w, http.StatusServiceUnavailable, wireOK{})
			return
		}
	}
	writeJSON(w, http.StatusOK, wireOK{OK: true})
}

func (s *Server) failing(ctx context.Context) []Condition {
	var failing []Condition
	if s.draining.Load() {
		failing = append(failing, Condition{
			Name: "draining", Message: "the process is about to stop", Next: "send requests to another one, or wait for its restart",
		})
	}
	if s.o.Prober == nil {
		return failing
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return append(failing, s.o.Prober.Ready(ctx)...)
}

// warnings are what Options.Warnings says.
func (s *Server) warnings() []Condition {
	if s.o.Warnings == nil {
		return nil
	}
	return s.o.Warnings()
}

// noWarnings is for the public listener.
func noWarnings() []Condition { return nil }
