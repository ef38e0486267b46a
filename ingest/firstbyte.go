package ingest

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// net/http tells nobody when a request's first byte came, only when its
// headers are complete; a slow sender of headers would stretch the intake
// deadline past GitHub's patience. So the listener's connections note it.

// Listener wraps l so that requests know when their first byte came.
func (s *Server) Listener(l net.Listener) net.Listener {
	return &firstByteListener{Listener: l, now: s.o.Now}
}

type firstByteListener struct {
	net.Listener
	now func() time.Time
}

// Accept implements net.Listener.
func (l *firstByteListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	f := &firstByteConn{Conn: c, now: l.now}
	f.idle.Store(true)
	return f, nil
}

type firstByteConn struct {
	net.Conn
	now  func() time.Time
	idle atomic.Bool               // the next byte starts a request
	at   atomic.Pointer[time.Time] // when the current request started
}

// Read implements net.Conn.
func (c *firstByteConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.idle.Load() {
		c.start()
	}
	return n, err
}

func (c *firstByteConn) start() {
	now := c.now()
	c.at.Store(&now)
	c.idle.Store(false)
}

type connKey struct{}

// firstByteOf finds the connection behind TLS, too.
func firstByteOf(c net.Conn) *firstByteConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	f, _ := c.(*firstByteConn)
	return f
}

func connContext(ctx context.Context, c net.Conn) context.Context {
	if f := firstByteOf(c); f != nil {
		return context.WithValue(ctx, connKey{}, f)
	}
	return ctx
}

// connState notes that a request is over. A next one that the client sent
// ahead may be in a buffer already, so it starts now at the latest.
func connState(c net.Conn, state http.ConnState) {
	if f := firstByteOf(c); f != nil && state == http.StateIdle {
		f.start()
		f.idle.Store(true)
	}
}

// started is when the request's first byte came, or now if the connection
// does not know.
func (s *Server) started(r *http.Request, now time.Time) time.Time {
	f, ok := r.Context().Value(connKey{}).(*firstByteConn)
	if !ok {
		return now
	}
	if at := f.at.Load(); at != nil && at.Before(now) {
		return *at
	}
	return now
}
