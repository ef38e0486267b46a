package natscluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Size is the number of nodes: the smallest that outlives one of them.
const Size = 3

const (
	// user is whom clients log in as.
	user = "belay"
	// lookEvery is the pause between two looks at something that changes.
	lookEvery = 50 * time.Millisecond
	// askTimeout bounds one question to the cluster: without a leader nobody
	// answers.
	askTimeout = time.Second
	// nowhere is an address that nobody listens on.
	nowhere = "127.0.0.1:1"
	// tries is how often a start looks for other ports when one was taken.
	tries = 5
)

// Options say how to make a cluster. Dir and Command are needed.
type Options struct {
	// Dir gets a folder for each node.
	Dir string
	// Command is the program and the arguments of one server, given its
	// nats.conf and the folder of its store, which the file names too.
	Command func(conf, store string) []string
	// Env is the environment of the processes; nil means this process's.
	Env []string
	// SyncInterval is the servers' sync_interval; empty means always.
	SyncInterval string
	// Route is the address at which node `from` reaches the routes of node
	// `to`, which listens on addr; nil means addr. A test puts what can cut
	// between them. The nodes tell each other of no other way.
	Route func(from, to int, addr string) (string, error)
}

// Cluster is three running servers and a connection to look at them with.
type Cluster struct {
	// Nodes are the servers, by their number.
	Nodes []*Node

	nc *nats.Conn
	js jetstream.JetStream
}

// Start makes the cluster and waits until its JetStream answers. What it
// started ends with Close, or with its error.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.SyncInterval == "" {
		o.SyncInterval = "always"
	}
	var secret [16]byte
	_, _ = rand.Read(secret[:])                     // never fails (crypto/rand)
	password := "b" + hex.EncodeToString(secret[:]) // digits alone break nats.conf
	var err error
	for range tries {
		var c *Cluster
		if c, err = start(ctx, o, password); !errors.Is(err, errPortTaken) {
			return c, err
		}
	}
	return nil, err
}

func start(ctx context.Context, o Options, password string) (*Cluster, error) {
	c := &Cluster{}
	addrs, err := freeAddrs(3 * Size)
	if err != nil {
		return nil, err
	}
	for i := range Size {
		n, err := newNode(o, i, addrs[3*i:], password)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, n)
	}
	err = c.configure(o)
	if err == nil {
		err = c.startAll(ctx)
	}
	if err == nil {
		err = c.connect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// configure writes each node's nats.conf.
func (c *Cluster) configure(o Options) error {
	for from, n := range c.Nodes {
		var routes []string
		for to, other := range c.Nodes {
			if to == from {
				continue
			}
			addr := other.route
			if o.Route != nil {
				var err error
				if addr, err = o.Route(from, to, addr); err != nil {
					return fmt.Errorf("lay the route from node %d to %d: %w", from, to, err)
				}
			}
			routes = append(routes, "nats-route://"+addr)
		}
		advertise := n.route
		if o.Route != nil {
			advertise = nowhere // what nodes hear of from each other would go round it
		}
		text := fmt.Sprintf(`server_name: %s
listen: %q
http: %q
max_payload: 8MB
authorization { user: %s, password: %s }
jetstream { store_dir: %q, sync_interval: %s }
cluster {
  name: belay
  listen: %q
  advertise: %q
  no_advertise: true
  routes: [%s]
}
`, n.Name, n.client, n.monitor, user, n.password, n.store, o.SyncInterval, n.route, advertise, strings.Join(routes, ", "))
		if err := os.WriteFile(n.conf, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write nats.conf: %w", err)
		}
	}
	return nil
}

// startAll starts the nodes beside each other: one alone waits for the others.
func (c *Cluster) startAll(ctx context.Context) error {
	errs := make(chan error, Size)
	for _, n := range c.Nodes {
		go func() { errs <- n.Start(ctx) }()
	}
	var err error
	for range c.Nodes {
		err = errors.Join(err, <-errs)
	}
	return err
}

// connect opens the connection of the cluster's own and waits for a leader.
func (c *Cluster) connect(ctx context.Context) error {
	var err error
	c.nc, err = nats.Connect(c.URL(), nats.Name("natscluster"), nats.MaxReconnects(-1), nats.ReconnectWait(lookEvery),
		nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(askTimeout))
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	if c.js, err = jetstream.New(c.nc, jetstream.WithDefaultTimeout(askTimeout)); err != nil {
		return fmt.Errorf("use the cluster's JetStream: %w", err)
	}
	return until(ctx, "the cluster has no leader", func(ctx context.Context) error {
		_, err := c.js.AccountInfo(ctx)
		return err
	})
}

// Close kills what runs; the folders stay.
func (c *Cluster) Close() error {
	if c.nc != nil {
		c.nc.Close()
	}
	var err error
	for _, n := range c.Nodes {
		err = errors.Join(err, n.Kill())
	}
	return err
}

// URL is where clients reach all nodes, separated by commas, with user and
// password.
func (c *Cluster) URL() string {
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, n.URL())
	}
	return strings.Join(urls, ",")
}

// JetStream is JetStream over the cluster's own connection, which goes to
// whatever node is there.
func (c *Cluster) JetStream() jetstream.JetStream { return c.js }

// Leader waits for the node that leads a stream.
func (c *Cluster) Leader(ctx context.Context, stream string) (*Node, error) {
	var leader *Node
	err := until(ctx, "stream "+stream+" has no leader", func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		info := s.CachedInfo().Cluster
		if info == nil || info.Leader == "" {
			return errors.New("none is named")
		}
		for _, n := range c.Nodes {
			if n.Name == info.Leader {
				leader = n
				return nil
			}
		}
		return fmt.Errorf("it is %s, which is none of ours", info.Leader)
	})
	return leader, err
}

// StepDown has the leader of a consumer step down, so that another node
// leads it.
func (c *Cluster) StepDown(ctx context.Context, stream, consumer string) error {
	return until(ctx, "consumer "+consumer+" does not step down", func(ctx context.Context) error {
		_, err := c.nc.RequestWithContext(ctx, jetstream.DefaultAPIPrefix+"CONSUMER.LEADER.STEPDOWN."+stream+"."+consumer, nil)
		return err
	})
}

// until tries f, a second at a time, until it succeeds or ctx ends.
func until(ctx context.Context, what string, f func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, askTimeout)
		err := f(try)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%w)", what, context.Cause(ctx), err)
		case <-time.After(lookEvery):
		}
	}
}

// newNode makes a node with three addresses.
func newNode(o Options, i int, addrs []string, password string) (*Node, error) {
	name := fmt.Sprintf("n%d", i+1)
	dir := filepath.Join(o.Dir, name)
	n := &Node{
		Name: name, client: addrs[0], monitor: addrs[1], route: addrs[2], password: password, env: o.Env,
		conf: filepath.Join(dir, "nats.conf"), store: filepath.Join(dir, "store"), log: filepath.Join(dir, "server.log"),
	}
	n.argv = o.Command(n.conf, n.store)
	if err := os.MkdirAll(n.store, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of a node: %w", err)
	}
	return n, nil
}

// URL is where clients reach this node, with user and password.
func (n *Node) URL() string {
	u := url.URL{Scheme: "nats", User: url.UserPassword(user, n.password), Host: n.client}
	return u.String()
}
