package natstest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/streams"
)

// Cluster is several servers that keep each stream three times. They share
// the test's process, and talk over loopback as they would over a network.
type Cluster struct {
	// Servers are the nodes, NC and JS a connection to each.
	Servers []*natsserver.Server
	NC      []*nats.Conn
	JS      []jetstream.JetStream

	t testing.TB
}

// clusterSize is the smallest cluster that outlives one of its nodes.
const clusterSize = 3

// NewCluster starts three servers and makes the streams, three copies each.
// The test's end stops them.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	routes := make([]string, clusterSize)
	for i := range routes {
		routes[i] = "nats://" + freeAddr(t)
	}
	c.Servers = make([]*natsserver.Server, clusterSize)
	errs := make(chan error, clusterSize)
	for i := range routes { // a node is up once it has found the others
		go func() {
			var err error
			c.Servers[i], err = startNode(t, i, routes)
			errs <- err
		}()
	}
	for range routes {
		if err := <-errs; err != nil {
			t.Errorf("start a node: %v", err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	for _, s := range c.Servers {
		c.connect(s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	set, err := Set()
	if err != nil {
		t.Fatalf("load streams: %v", err)
	}
	// The nodes elect a leader before they can make anything.
	for {
		_, err = streams.Reconcile(ctx, c.JS[0], set, streams.Options{Replicas: clusterSize})
		if err == nil {
			return c
		}
		select {
		case <-ctx.Done():
			t.Fatalf("make the streams of the cluster: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func startNode(t testing.TB, i int, routes []string) (*natsserver.Server, error) {
	path := filepath.Join(t.TempDir(), "nats.conf")
	text := fmt.Sprintf("server_name: n%d\nmax_payload: 8MB\njetstream { sync_interval: 2m }\ncluster {\n  name: test\n  listen: %q\n  routes: [%s]\n}\n",
		i, strings.TrimPrefix(routes[i], "nats://"), strings.Join(routes, ", "))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write nats.conf: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s, err := natsserver.Start(ctx, natsserver.Options{ConfigFile: path, Dir: t.TempDir(), Listen: natsserver.ListenRandom, StartTimeout: timeout})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("stop node %d: %v", i, err)
		}
	})
	return s, nil
}

func (c *Cluster) connect(s *natsserver.Server) {
	c.t.Helper()
	nc, err := nats.Connect("", s.ConnectOptions()...)
	if err != nil {
		c.t.Fatalf("connect to node %s: %v", s.Name(), err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatalf("use JetStream of node %s: %v", s.Name(), err)
	}
	c.NC, c.JS = append(c.NC, nc), append(c.JS, js)
}

// freeAddr is an address on loopback that was free just now.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
