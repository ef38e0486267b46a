package app

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// classEvery is how often one class of message is let through.
const classEvery = 10 * time.Second

// NewLogger writes JSON lines. Records with the attribute `class` pass at most
// once in ten seconds a class, with the number of those held back.
func NewLogger(w io.Writer, level slog.Level, now func() time.Time) *slog.Logger {
	return slog.New(&classHandler{
		next:  slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}),
		state: &classState{seen: map[string]*classSeen{}, now: now},
	})
}

// classHandler holds repeated messages of a class back.
type classHandler struct {
	next  slog.Handler
	state *classState
}

type classState struct {
	mu   sync.Mutex
	seen map[string]*classSeen
	now  func() time.Time
}

type classSeen struct {
	at   time.Time
	held int
}

func (h *classHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.next.Enabled(ctx, l)
}

func (h *classHandler) Handle(ctx context.Context, r slog.Record) error {
	class := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "class" {
			class = a.Value.String()
		}
		return class == ""
	})
	if class == "" {
		return h.next.Handle(ctx, r)
	}
	held, pass := h.state.pass(class)
	if !pass {
		return nil
	}
	if held > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("held_back", held))
	}
	return h.next.Handle(ctx, r)
}

func (s *classState) pass(class string) (held int, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	c := s.seen[class]
	if c == nil {
		s.seen[class] = &classSeen{at: now}
		return 0, true
	}
	if now.Sub(c.at) < classEvery {
		c.held++
		return 0, false
	}
	held = c.held
	c.at, c.held = now, 0
	return held, true
}

func (h *classHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &classHandler{next: h.next.WithAttrs(attrs), state: h.state}
}

func (h *classHandler) WithGroup(name string) slog.Handler {
	return &classHandler{next: h.next.WithGroup(name), state: h.state}
}
