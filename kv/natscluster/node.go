package natscluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Node is one server of a cluster. Its methods may be called from several
// goroutines, one of them at a time being of use.
type Node struct {
	// Name is the server's name, as JetStream reports it.
	Name string

	client, monitor, route string // addresses
	password               string
	conf, store, log       string // files and folders
	argv, env              []string

	mu   sync.Mutex
	cmd  *exec.Cmd // nil or ended while the node is down
	done chan struct{}
}

// errPortTaken means that somebody else took a port that was free.
var errPortTaken = errors.New("a port was taken meanwhile")

// Start starts the process and waits until it takes connections; whether it
// has caught up, Healthy tells. One that runs is left alone.
func (n *Node) Start(ctx context.Context) error {
	if err := n.spawn(); err != nil {
		return err
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if n.greets() {
			return nil
		}
		select {
		case <-n.over():
			return n.lastWords()
		case <-ctx.Done():
			return fmt.Errorf("node %s does not come up: %w", n.Name, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (n *Node) spawn() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		select {
		case <-n.done:
		default:
			return nil
		}
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of node %s: %w", n.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(n.argv[0], n.argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = n.env, log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	done := make(chan struct{})
	n.cmd, n.done = cmd, done
	go func() {
		_ = cmd.Wait() // how it ended, whoever ended it knows
		close(done)
	}()
	return nil
}

// over is closed when the process that was started last has ended.
func (n *Node) over() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.done
}

// greets reports whether the server says hello to clients.
func (n *Node) greets() bool {
	conn, err := net.DialTimeout("tcp", n.client, askTimeout)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(askTimeout))
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "INFO ")
}

// lastWords is the error of a process that ended by itself.
func (n *Node) lastWords() error {
	data, err := os.ReadFile(n.log)
	if err != nil {
		return fmt.Errorf("node %s ended: %w", n.Name, err)
	}
	text := strings.TrimSpace(string(data[max(0, len(data)-1000):]))
	if strings.Contains(text, syscall.EADDRINUSE.Error()) {
		return fmt.Errorf("node %s: %w: %s", n.Name, errPortTaken, text)
	}
	return fmt.Errorf("node %s ended: %s", n.Name, text)
}

// Healthy waits until the server has caught up with what it missed, which is
// when the next one may be stopped. A process that ends meanwhile is an error.
func (n *Node) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := n.over()
	go func() {
		select {
		case <-over:
			cancel(n.lastWords())
		case <-ctx.Done():
		}
	}()
	return until(ctx, "node "+n.Name+" has not caught up", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.monitor+"/healthz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
			return fmt.Errorf("%s: %s", res.Status, text)
		}
		return nil
	})
}

// Kill ends the process with SIGKILL, as the out-of-memory killer would.
func (n *Node) Kill() error { return n.end(context.Background(), syscall.SIGKILL) }

// Stop ends the process with SIGTERM, after which it hands over what it leads.
// When ctx ends first, it is killed.
func (n *Node) Stop(ctx context.Context) error { return n.end(ctx, syscall.SIGTERM) }

// Freeze stops the process without ending it; connections stay, and nobody
// answers. Thaw lets it go on.
func (n *Node) Freeze() error { return n.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (n *Node) Thaw() error { return n.signal(syscall.SIGCONT) }

func (n *Node) end(ctx context.Context, s syscall.Signal) error {
	done := n.over()
	if done == nil {
		return nil
	}
	if err := n.signal(s); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop node %s: %w", n.Name, context.Cause(ctx)), n.Kill())
	}
}

func (n *Node) signal(s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return nil
	}
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal node %s: %w", n.Name, err)
	}
	return nil
}

// lowPort and highPort bound the ports that nodes get: below those that the
// system gives to outgoing connections, one of which would otherwise have the
// port of a node that is down when it comes back.
const (
	lowPort  = 10000
	highPort = 32000
)

// freeAddrs are n random addresses on loopback that were free just now.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for tries := 0; len(addrs) < n; tries++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(lowPort+rand.IntN(highPort-lowPort))))
		if err != nil {
			if tries < 100 {
				continue
			}
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // not before there are enough: none is found twice
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
