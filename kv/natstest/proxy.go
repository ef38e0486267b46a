package natstest

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy stands between a NATS server and who connects to it. It can stall, cut,
// and lead to another address.
type Proxy struct {
	l    net.Listener
	gate sync.RWMutex // held while nothing passes

	mu     sync.Mutex
	target string // "" refuses
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

// NewProxy listens on a free port of loopback and passes on to target, until
// the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p := &Proxy{l: l, conns: map[net.Conn]bool{}}
	p.Lead(target)
	p.wg.Go(p.accept)
	t.Cleanup(func() { _ = l.Close(); p.Lead(""); p.Cut(); p.wg.Wait() })
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// URL is where clients connect.
func (p *Proxy) URL() string { return "nats://" + p.Addr() }

// Lead sets the address of the server, "" for none; connections that are there
// stay.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = strings.TrimPrefix(target, "nats://")
}

// Stall lets nothing pass until Resume.
func (p *Proxy) Stall() { p.gate.Lock() }

// Resume lets everything pass again.
func (p *Proxy) Resume() { p.gate.Unlock() }

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if target == "" || err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		stays := p.target == target
		if stays { // else it was led elsewhere, and perhaps cut, meanwhile
			p.conns[client], p.conns[server] = true, true
		}
		p.mu.Unlock()
		if !stays {
			_, _ = client.Close(), server.Close()
			continue
		}
		p.wg.Go(func() { p.pass(client, server) })
		p.wg.Go(func() { p.pass(server, client) })
	}
}

// wait returns when something may pass.
func (p *Proxy) wait() {
	p.gate.RLock()
	defer p.gate.RUnlock()
}

// pass copies until one side ends, then ends the other.
func (p *Proxy) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.wait()
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
