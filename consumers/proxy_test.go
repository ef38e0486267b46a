package consumers

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// proxy stands between a process and its NATS server. It cuts connections,
// stops forwarding as a stopped server would, and lets through one direction
// only.
type proxy struct {
	t  *testing.T
	l  net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[net.Conn]bool
	down   bool          // new connections are refused
	flow   chan struct{} // closed while bytes may pass
	half   chan struct{} // closed while bytes from the server may pass
	delay  time.Duration
}

func openGate() chan struct{} { c := make(chan struct{}); close(c); return c }

func newProxy(t *testing.T, env *natstest.Env) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{t: t, l: l, conns: map[net.Conn]bool{}, flow: openGate(), half: openGate()}
	p.aim(env)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.thaw()
		p.cut()
		p.wg.Wait()
	})
	return p
}

// aim forwards new connections to the server as it runs now.
func (p *proxy) aim(env *natstest.Env) {
	u, err := url.Parse(env.URL())
	require.NoError(p.t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = u.Host
}

// url is the server's address by way of the proxy.
func (p *proxy) url(env *natstest.Env) string {
	u, err := url.Parse(env.URL())
	require.NoError(p.t, err)
	u.Host = p.l.Addr().String()
	return u.String()
}

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target, down := p.target, p.down
		p.mu.Unlock()
		if down {
			_ = c.Close()
			continue
		}
		s, err := net.Dial("tcp", target)
		if err != nil {
			_ = c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[s] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pump(s, c, false) })
		p.wg.Go(func() { p.pump(c, s, true) })
	}
}

func (p *proxy) pump(dst, src net.Conn, answers bool) {
	defer func() { _ = dst.Close(); _ = src.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		flow, half, delay := p.flow, p.half, p.delay
		p.mu.Unlock()
		<-flow
		if answers {
			<-half
		}
		if delay > 0 {
			<-time.After(delay)
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut closes every connection; new ones are accepted.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = map[net.Conn]bool{}
}

// outage cuts every connection and refuses new ones until it is over.
func (p *proxy) outage(on bool) {
	p.mu.Lock()
	p.down = on
	p.mu.Unlock()
	if on {
		p.cut()
	}
}

// freeze stops forwarding, in both directions or only answers, without
// closing anything.
func (p *proxy) freeze(answersOnly bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answersOnly {
		p.half = make(chan struct{})
	} else {
		p.flow = make(chan struct{})
	}
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []chan struct{}{p.flow, p.half} {
		select {
		case <-c:
		default:
			close(c)
		}
	}
}

func (p *proxy) slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// through makes a process whose connection goes by way of the proxy and comes
// back by itself, as that of belay does.
func (p *proxy) through(env *natstest.Env, logger *slog.Logger, change ...func(*Options)) *bench {
	p.t.Helper()
	var b *bench
	ready := make(chan struct{})
	var nc *nats.Conn
	natstest.Eventually(p.t, "a connection", func() bool { // the first one may take longer on a busy machine
		var err error
		nc, err = nats.Connect(p.url(env), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
			nats.ReconnectJitter(time.Millisecond, time.Millisecond), nats.ReconnectBufSize(-1),
			nats.FlusherTimeout(time.Second), nats.Timeout(time.Second), nats.PingInterval(500*time.Millisecond),
			nats.ReconnectHandler(func(*nats.Conn) {
				<-ready
				b.view.Reopen()
				go b.worker.Beat()
			}))
		return err == nil
	})
	p.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
	require.NoError(p.t, err)
	b = newBenchOn(p.t, env, nc, js, logger, change...)
	close(ready)
	return b
}

// lines counts log lines by their class.
type lines struct {
	slog.Handler
	mu      *sync.Mutex
	classes map[string]int
}

func newLines() *lines {
	return &lines{Handler: slog.NewTextHandler(io.Discard, nil), mu: &sync.Mutex{}, classes: map[string]int{}}
}

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Level < slog.LevelWarn {
		return nil
	}
	class := "none: " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "class" {
			class = a.Value.String()
		}
		return true
	})
	l.classes[class]++
	return nil
}

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *lines) seen() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for k, v := range l.classes {
		out[k] = v
	}
	return out
}
