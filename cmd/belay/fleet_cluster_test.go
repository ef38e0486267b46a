//go:build cluster

package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
)

// clusterTest is a fleet of belay's processes on three nats-servers, whose
// routes lead through proxies: from and to are the numbers of nodes.
type clusterTest struct {
	*soak

	routes map[[2]int]*natstest.Proxy
	addrs  map[[2]int]string // where they lead
}

// newClusterTest builds belay and starts all of it.
func newClusterTest(t *testing.T) *clusterTest {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "belay")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	natsServer, err := exec.LookPath("nats-server")
	require.NoError(t, err, "the tests of the cluster need nats-server; .ci/run installs it")
	c := &cli{out: io.Discard, err: io.Discard, environ: os.Environ(), now: time.Now, client: newHTTPClient()}
	o := soakOptions{rate: clusterRate, clients: 6, concurrency: 4, cluster: true, natsServer: natsServer}
	s, err := c.newSoak(t.Context(), o, dir, program)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.close())
		if t.Failed() {
			tellLogs(t, dir)
		}
	})
	ct := &clusterTest{soak: s, routes: map[[2]int]*natstest.Proxy{}, addrs: map[[2]int]string{}}
	options := s.clusterOptions()
	options.SyncInterval = "2m" // nobody cuts the power
	options.Route = func(from, to int, addr string) (string, error) {
		pair := [2]int{from, to}
		ct.routes[pair], ct.addrs[pair] = natstest.NewProxy(t, addr), addr
		return ct.routes[pair].Addr(), nil
	}
	require.NoError(t, s.startCluster(t.Context(), options))
	return ct
}

// tellLogs shows the ends of all processes' logs.
func tellLogs(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"*/server.log", "nats/*/server.log"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			t.Logf("%s:\n%s", file, data[max(0, len(data)-6000):])
		}
	}
}

// under runs a scene under load and audits when all is quiet again: nothing is
// lost, doubled, run twice at a time or after its end, or stuck, and every
// answer of a door was 200 or 503, and in time.
func (c *clusterTest) under(t *testing.T, scene func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	before := c.count()
	over, stop := context.WithCancel(ctx)
	stormed := make(chan error, 1)
	go func() {
		stormed <- c.storm(ctx, over, func(_, over context.Context) error { <-over.Done(); return nil })
		close(stormed)
	}()
	defer func() { cancel(); <-stormed }() // a scene that fails leaves no clients behind
	scene(ctx)
	stop()
	require.NoError(t, <-stormed)
	require.NoError(t, c.settle(ctx))
	require.Greater(t, c.count(), before, "no webhook came through")
}

func (c *clusterTest) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.accepted)
}

// goesOn waits until so many more webhooks were accepted.
func (c *clusterTest) goesOn(t *testing.T, more int) {
	t.Helper()
	want := c.count() + more
	require.Eventually(t, func() bool { return c.count() >= want }, time.Minute, 20*time.Millisecond, "nothing is accepted any more")
}

// isolate cuts a node off from the others, or connects it again.
func (c *clusterTest) isolate(node int, off bool) {
	for pair, p := range c.routes {
		if !slices.Contains(pair[:], node) {
			continue
		}
		if off {
			p.Lead("")
			p.Cut()
		} else {
			p.Lead(c.addrs[pair])
		}
	}
}

// TestCluster plays what happens to clusters, on one fleet, each scene under
// load and with an audit at its end.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := newClusterTest(t)
	t.Run("J02 leaders are killed", c.leadersAreKilled)
	t.Run("J10 consumers change their leaders", c.consumersChangeTheirLeaders)
	t.Run("rolling restart", c.rollingRestart)
	t.Run("J18 all servers restart", c.allRestart)
	t.Run("Q10 a leader freezes", c.aLeaderFreezes)
	t.Run("G36 a partition", c.partition)
}

// J02, Q16, Q18: leaders of the log and of the records are killed in turn, and
// a worker with the third.
func (c *clusterTest) leadersAreKilled(t *testing.T) {
	c.under(t, func(ctx context.Context) {
		for n := range 3 {
			c.goesOn(t, 5)
			require.NoError(t, c.killNode(ctx, ctx, n))
		}
	})
	require.Equal(t, 1, c.kills)
}

// J10: twenty changes of the consumers' leaders, and no run waits for 15 s.
func (c *clusterTest) consumersChangeTheirLeaders(t *testing.T) {
	began := time.Now()
	c.under(t, func(ctx context.Context) {
		for n := range 20 {
			var err error
			switch n % 3 {
			case 0:
				err = c.cluster.StepDown(ctx, kv.StreamWebhooks, kv.ConsumerTasks)
			case 1:
				err = c.cluster.StepDown(ctx, kv.StreamWebhooks, kv.ConsumerAdmit)
			case 2:
				err = c.cluster.StepDown(ctx, kv.StreamState, kv.ConsumerRelay)
			}
			require.NoError(t, err)
			c.goesOn(t, 2)
		}
	})
	notes, err := readNotes(c.notes())
	require.NoError(t, err)
	last, longest := began, time.Duration(0)
	for _, n := range notes {
		if n.Event == noteStart && n.At.After(began) {
			last, longest = n.At, max(longest, n.At.Sub(last))
		}
	}
	require.Less(t, longest, 15*time.Second, "no run began for so long")
}

// One server after the other is stopped and comes back, as at an upgrade.
func (c *clusterTest) rollingRestart(t *testing.T) {
	c.under(t, func(ctx context.Context) {
		for _, n := range c.cluster.Nodes {
			require.NoError(t, n.Stop(ctx))
			c.goesOn(t, 1)
			require.NoError(t, comeBack(ctx, n))
			c.goesOn(t, 1)
		}
	})
}

// J18, J26: all servers are gone at once, and come back.
func (c *clusterTest) allRestart(t *testing.T) {
	c.under(t, func(ctx context.Context) {
		for _, n := range c.cluster.Nodes {
			require.NoError(t, n.Kill())
		}
		refused := c.refused()
		require.Eventually(t, func() bool { return c.refused() > refused }, time.Minute, 20*time.Millisecond, "a door has to say 503")
		for _, n := range c.cluster.Nodes {
			require.NoError(t, n.Start(ctx))
		}
		c.goesOn(t, 1)
		for _, n := range c.cluster.Nodes {
			require.NoError(t, n.Healthy(ctx))
		}
	})
}

func (c *clusterTest) refused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers.refused
}

// Q10: the server that leads the records stops answering, and its connections
// stay. Whoever is connected to it goes to another one.
func (c *clusterTest) aLeaderFreezes(t *testing.T) {
	c.under(t, func(ctx context.Context) {
		led, err := c.cluster.Leader(ctx, kv.StreamState)
		require.NoError(t, err)
		require.NoError(t, led.Freeze())
		require.Eventually(t, func() bool {
			now, err := c.cluster.Leader(ctx, kv.StreamState)
			return err == nil && now.Name != led.Name
		}, time.Minute, 50*time.Millisecond)
		for _, door := range c.doors {
			c.takes(t, door)
		}
		require.NoError(t, led.Thaw())
		require.NoError(t, led.Healthy(ctx))
	})
}

// takes waits until a door accepts a webhook.
func (c *clusterTest) takes(t *testing.T, door *soakServer) {
	t.Helper()
	h, err := soakWebhook()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.status(t, door, h) == http.StatusOK }, 90*time.Second, 50*time.Millisecond)
}

// status sends once; what is accepted is audited with all the rest.
func (c *clusterTest) status(t *testing.T, door *soakServer, h *hook) int {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), githubPatience)
	defer cancel()
	ans, err := door.client.Load().deliver(ctx, h)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[h.id] = true
	c.answers.note(h.id, ans, err, began)
	if err == nil && ans.status == http.StatusOK {
		c.accepted[h.id] = readHook(ans).Task
	}
	return ans.status
}

// G36: the leader is cut off from the others, and a door that reaches only it
// refuses; the same delivery is taken when the partition is over. Meanwhile
// the others go on.
func (c *clusterTest) partition(t *testing.T) {
	led, err := c.cluster.Leader(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	alone := slices.Index(c.cluster.Nodes, led)
	door, err := c.join(t.Context(), "ingest-alone", config.RoleIngest, led.URL())
	require.NoError(t, err)
	c.under(t, func(ctx context.Context) {
		h, err := soakWebhook()
		require.NoError(t, err)
		c.isolate(alone, true)
		require.Equal(t, http.StatusServiceUnavailable, c.status(t, door, h), "the minority refuses")
		for _, d := range c.doors {
			c.takes(t, d)
		}
		c.isolate(alone, false)
		require.Eventually(t, func() bool { return c.status(t, door, h) == http.StatusOK }, time.Minute, 50*time.Millisecond)
		require.NoError(t, led.Healthy(ctx))
	})
}
