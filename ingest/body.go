package ingest

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// firstBuffer is where a body's buffer starts; most webhooks fit.
	firstBuffer = 64 << 10
	// maxPooled is the largest buffer that goes back to the pool, so that a
	// few large bodies do not pin their memory for ever.
	maxPooled = 512 << 10
	// trusted is how much of a declared length has to have come before the
	// rest of it is allocated at once.
	trusted = 1 << 20
	// drainTime bounds the reading on of a refused body.
	drainTime = 2 * time.Second
)

// budget bounds the bytes of all bodies that are held at a time.
type budget struct {
	max  int64
	used atomic.Int64
}

func (b *budget) reserve(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return false
	}
	return true
}

// body is one request's body in a pooled buffer. It is only valid until
// release; whatever outlives the request has to be copied out of it.
type body struct {
	buf      []byte
	budget   *budget
	reserved int64
}

var bodies = sync.Pool{New: func() any { return &body{buf: make([]byte, 0, firstBuffer)} }}

// release gives the reservation and the buffer back.
func (b *body) release() {
	b.budget.used.Add(-b.reserved)
	b.reserved = 0
	if cap(b.buf) <= maxPooled {
		b.buf = b.buf[:0]
		bodies.Put(b)
	}
}

// readBody reads r's body: a declared length is reserved up front, an
// undeclared one as it comes. The caller releases the body it gets, also
// along with an error.
func readBody(r *http.Request, bud *budget, limit int64) (*body, error) {
	b := bodies.Get().(*body)
	b.budget = bud
	if r.ContentLength > limit {
		return b, errTooLarge
	}
	if r.ContentLength > 0 && !b.grow(r.ContentLength) {
		return b, errBusy
	}
	for {
		if len(b.buf) == cap(b.buf) {
			b.extend(r.ContentLength, limit)
		}
		n, err := r.Body.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		size := int64(len(b.buf))
		if size > limit {
			return b, errTooLarge
		}
		if size > b.reserved && !b.grow(size-b.reserved) {
			return b, errBusy
		}
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, bodyError(err)
		}
	}
}

func (b *body) grow(n int64) bool {
	if !b.budget.reserve(n) {
		return false
	}
	b.reserved += n
	return true
}

// extend makes room: twice as much, or all that was declared once a part of
// it has proved to be there.
func (b *body) extend(declared, limit int64) {
	next := 2 * int64(cap(b.buf))
	if declared > 0 && (len(b.buf) >= trusted || declared < next) {
		next = max(declared+1, int64(cap(b.buf))+1)
	}
	next = min(next, limit+1)
	grown := make([]byte, len(b.buf), next)
	copy(grown, b.buf)
	b.buf = grown
}

// bodyError tells a body that was too slow from one whose sender went away.
func bodyError(err error) error {
	var t interface{ Timeout() bool }
	if errors.As(err, &t) && t.Timeout() {
		return errSlowBody
	}
	return errBrokenBody
}

// drain reads a refused body on for a while, since a client that is still
// writing may not see an answer before the connection is reset. A client
// that asked first (Expect) has sent nothing.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Expect") != "" {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, r.Body, 2*s.o.MaxBody)
}
