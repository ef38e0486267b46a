package githubtest

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// FaultKind is what goes wrong with a request.
type FaultKind string

// The faults. Those named Before keep the effect from happening, those named
// After let it happen and lose the answer.
const (
	// DropBefore closes the connection, nothing happened.
	DropBefore FaultKind = "drop before"
	// DropAfter closes the connection, it happened.
	DropAfter FaultKind = "drop after"
	// TimeoutBefore never answers, nothing happened.
	TimeoutBefore FaultKind = "timeout before"
	// TimeoutAfter never answers, it happened.
	TimeoutAfter FaultKind = "timeout after"
	// ErrorBefore answers Status (502 if 0), nothing happened.
	ErrorBefore FaultKind = "error before"
	// ErrorAfter answers Status (502 if 0), it happened.
	ErrorAfter FaultKind = "error after"
	// EmptyAfter answers as if all were well, but with an empty object.
	EmptyAfter FaultKind = "empty after"
	// GarbageAfter answers as if all were well, but with no JSON.
	GarbageAfter FaultKind = "garbage after"
	// Unauthorized answers 401 Bad credentials.
	Unauthorized FaultKind = "unauthorized"
	// SecondaryLimit answers 403 (or Status), with Retry-After if RetryAfter is set.
	SecondaryLimit FaultKind = "secondary limit"
	// PrimaryLimit answers 403 with no requests remaining until Reset.
	PrimaryLimit FaultKind = "primary limit"
	// Exhausted answers truthfully, but with no requests remaining until Reset.
	Exhausted FaultKind = "exhausted"
	// Hold lets the effect happen and answers when Until is closed.
	Hold FaultKind = "hold"
)

// Fault happens to the next Times requests of Op.
type Fault struct {
	// Op is a route, such as "POST /repos/{owner}/{repo}/check-runs"; ""
	// means every request. See the Op constants.
	Op   string
	Kind FaultKind
	// Skip lets that many requests of Op pass first.
	Skip int
	// Times is how many requests it happens to; 0 is one, below 0 all.
	Times      int
	Status     int
	RetryAfter time.Duration
	Reset      time.Time
	// Until ends a Hold; Held, if set, is called when one began.
	Until <-chan struct{}
	Held  func()
}

// Fail makes a fault happen. Faults of one Op happen in the order given.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &f)
}

// Heal takes all faults away that have not happened yet.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Server) takeFault(op string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Op != "" && f.Op != op {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			return nil
		}
		if f.Times--; f.Times == 0 {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
		out := *f
		return &out
	}
	return nil
}

// before does a fault that keeps the effect from happening.
func (s *Server) before(w http.ResponseWriter, r *http.Request, f *Fault) bool {
	switch f.Kind {
	case DropBefore:
		drop(w)
	case TimeoutBefore:
		s.hang(w, r)
	case ErrorBefore:
		fail(w, orElse(f.Status, http.StatusBadGateway), "Server Error", "")
	case Unauthorized:
		fail(w, http.StatusUnauthorized, "Bad credentials", "https://docs.github.com/rest")
	case SecondaryLimit:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
		}
		if !f.Reset.IsZero() {
			w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(f.Reset.Unix(), 10))
		}
		fail(w, orElse(f.Status, http.StatusForbidden),
			"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
			"https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits")
	case PrimaryLimit:
		limitHeader(w.Header(), s.o.RateLimit, 0, f.Reset)
		fail(w, orElse(f.Status, http.StatusForbidden), "API rate limit exceeded for installation.",
			"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api")
	default:
		return false
	}
	return true
}

// after does a fault to the answer of a request that had its effect.
func (s *Server) after(w http.ResponseWriter, r *http.Request, f *Fault, out *answer) bool {
	switch f.Kind {
	case DropAfter:
		drop(w)
	case TimeoutAfter:
		s.hang(w, r)
	case ErrorAfter:
		fail(w, orElse(f.Status, http.StatusBadGateway), "Server Error", "")
	case EmptyAfter:
		out.body.Reset()
		out.body.WriteString("{}")
		out.send(w)
	case GarbageAfter:
		out.body.Reset()
		out.body.WriteString("<html>Unicorn!")
		out.send(w)
	case Exhausted:
		limitHeader(out.header, s.o.RateLimit, 0, f.Reset)
		out.send(w)
	case Hold:
		if f.Held != nil {
			f.Held()
		}
		select {
		case <-f.Until:
		case <-r.Context().Done():
		case <-s.done:
		}
		out.send(w)
	default:
		return false
	}
	return true
}

// hang answers nothing until the client or the server gives up.
func (s *Server) hang(w http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.done:
	}
	drop(w)
}

// drop closes the connection without an answer.
func drop(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			_ = conn.Close()
		}
	}
}

func orElse(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
