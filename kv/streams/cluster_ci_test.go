//go:build ci

package streams_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/streams"
)

// node is one server of a cluster, and a connection to it.
type node struct {
	opts natsserver.Options
	s    *natsserver.Server
	nc   *nats.Conn
}

// start starts the node and connects to it.
func (n *node) start(t *testing.T) {
	t.Helper()
	var err error
	n.s, err = natsserver.Start(t.Context(), n.opts)
	require.NoError(t, err)
	n.nc, err = nats.Connect("", n.s.ConnectOptions()...)
	require.NoError(t, err)
}

// stop stops the node.
func (n *node) stop(t *testing.T) {
	n.nc.Close()
	require.NoError(t, n.s.Shutdown(t.Context()))
}

// newCluster configures three nodes that are not yet started.
func newCluster(t *testing.T) []*node {
	t.Helper()
	ports := make([]int, 3)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	nodes := make([]*node, 3)
	for i := range nodes {
		conf := filepath.Join(t.TempDir(), "nats.conf")
		require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, `server_name: n%d
listen: 127.0.0.1:-1
jetstream { sync_interval: always, max_file_store: 8GB }
cluster { name: c, listen: "127.0.0.1:%d", routes: ["nats://127.0.0.1:%d", "nats://127.0.0.1:%d", "nats://127.0.0.1:%d"] }
`, i, ports[i], ports[0], ports[1], ports[2]), 0o600))
		nodes[i] = &node{opts: natsserver.Options{ConfigFile: conf, Dir: t.TempDir()}}
	}
	return nodes
}

// J18 and J26: three nodes, of which one comes first and waits for a quorum;
// and again after all of them were down, within 30 s and with all messages.
func TestClusterStartsAndRestarts(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t)
	set := embedded(t)
	for round := range 2 {
		log, waiting := newLogged("waiting for JetStream")
		nodes[0].start(t)
		js, err := jetstream.New(nodes[0].nc)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := streams.Reconcile(t.Context(), js, set, streams.Options{Replicas: 3, Logger: log})
			done <- err
		}()
		<-waiting
		nodes[1].start(t)
		nodes[2].start(t)
		begin := time.Now()
		require.NoError(t, <-done)
		require.Less(t, time.Since(begin), 30*time.Second)

		ack, err := js.Publish(t.Context(), "webhook.1.2.task.review", nil, jetstream.WithRetryAttempts(20))
		require.NoError(t, err)
		require.EqualValues(t, round+1, ack.Sequence)
		info := config(t, js, "WEBHOOKS")
		require.Equal(t, 3, info.Replicas)
		for _, n := range nodes {
			n.stop(t)
		}
	}
}
