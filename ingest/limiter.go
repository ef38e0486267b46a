package ingest

import (
	"context"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// logEvery is how often one class of error is logged at most.
const logEvery = 10 * time.Second

// limiter lets one line of a class through per logEvery, and counts the rest.
// Classes come from closed lists, so it stays small.
type limiter struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[string]*lastLine
}

type lastLine struct {
	at      time.Time
	dropped int
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, last: map[string]*lastLine{}}
}

// allow says whether to log, and how many lines were dropped since the last.
func (l *limiter) allow(class string) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	e := l.last[class]
	if e == nil {
		l.last[class] = &lastLine{at: now}
		return 0, true
	}
	if now.Sub(e.at) < logEvery {
		e.dropped++
		return 0, false
	}
	dropped, e.at, e.dropped = e.dropped, now, 0
	return dropped, true
}

func (s *Server) warn(class, msg string, attrs ...slog.Attr) {
	s.logLimited(slog.LevelWarn, class, msg, attrs...)
}

func (s *Server) logLimited(level slog.Level, class, msg string, attrs ...slog.Attr) {
	dropped, ok := s.limit.allow(class)
	if !ok {
		return
	}
	if dropped > 0 {
		attrs = append(attrs, slog.Int("like_it_not_logged", dropped))
	}
	s.log.LogAttrs(context.Background(), level, msg, append(attrs, slog.String("class", class))...)
}

// serverLog is where net/http's own complaints go.
type serverLog struct{ s *Server }

// Write implements io.Writer.
func (l serverLog) Write(p []byte) (int, error) {
	l.s.warn("http_server", strings.TrimSpace(string(p)))
	return len(p), nil
}

func (s *Server) errorLog() *log.Logger { return log.New(serverLog{s}, "", 0) }
