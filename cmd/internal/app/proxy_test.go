package app

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a process and its NATS server. It can stall, cut, and
// lead to another address.
type proxy struct {
	l    net.Listener
	gate sync.RWMutex // held while nothing passes

	mu     sync.Mutex
	target string // "" refuses
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{l: l, conns: map[net.Conn]bool{}}
	p.lead(target)
	p.wg.Go(p.accept)
	t.Cleanup(func() { _ = l.Close(); p.lead(""); p.cut(); p.wg.Wait() })
	return p
}

// URL is where clients connect.
func (p *proxy) URL() string { return "nats://" + p.l.Addr().String() }

// lead sets the address of the server; connections that are there stay.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = strings.TrimPrefix(target, "nats://")
}

// stall lets nothing pass until resume.
func (p *proxy) stall()  { p.gate.Lock() }
func (p *proxy) resume() { p.gate.Unlock() }

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *proxy) accept() {
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
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(client, server) })
		p.wg.Go(func() { p.pass(server, client) })
	}
}

// wait returns when something may pass.
func (p *proxy) wait() {
	p.gate.RLock()
	defer p.gate.RUnlock()
}

// pass copies until one side ends, then ends the other.
func (p *proxy) pass(from, to net.Conn) {
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
