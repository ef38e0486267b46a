package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natscluster"
)

// soakCluster is what a soak with --cluster has beside the processes of belay.
type soakCluster struct {
	*natscluster.Cluster

	workers []*soakServer
	led     map[string]int // stream → kills of its leader
}

// soakCatchUp is how long a node may take to come back, with all that it missed.
const soakCatchUp = 2 * time.Minute

// soakFleet are the processes of belay that share the cluster, by their role.
var soakFleet = []string{config.RoleIngest, config.RoleIngest, config.RoleWorker, config.RoleWorker, config.RoleRelay}

// clusterOptions are those of the servers.
func (s *soak) clusterOptions() natscluster.Options {
	return natscluster.Options{
		Dir: filepath.Join(s.dir, "nats"),
		Command: func(conf, store string) []string {
			if s.o.natsServer != "" {
				return []string{s.o.natsServer, "-c", conf}
			}
			return []string{s.program, "bench", "node", "--nats-config", conf, "--dir", store}
		},
	}
}

// startCluster starts three nats-servers and, when they have a leader, the
// fleet.
func (s *soak) startCluster(ctx context.Context, o natscluster.Options) error {
	ctx, cancel := context.WithTimeout(ctx, soakCatchUp)
	defer cancel()
	c, err := natscluster.Start(ctx, o)
	if err != nil {
		return err
	}
	s.cluster = &soakCluster{Cluster: c, led: map[string]int{}}
	return s.startFleet(ctx)
}

// startFleet starts the processes one after the other: the first makes the
// streams.
func (s *soak) startFleet(ctx context.Context) error {
	count := map[string]int{}
	for _, role := range soakFleet {
		count[role]++
		p, err := s.join(ctx, fmt.Sprintf("%s-%d", role, count[role]), role, s.cluster.URL())
		if err != nil {
			return err
		}
		switch role {
		case config.RoleIngest:
			s.doors = append(s.doors, p)
		case config.RoleWorker:
			s.cluster.workers = append(s.cluster.workers, p)
		}
	}
	return nil
}

// join starts a process of belay on the cluster.
func (s *soak) join(ctx context.Context, name, role, url string) (*soakServer, error) {
	p, err := s.newServer(name, role, fmt.Sprintf("url = %q\nreplicas = %d", url, natscluster.Size))
	if err != nil {
		return nil, err
	}
	return p, p.start(ctx)
}

// killNodes kills one leader after the other until the time is over.
func (s *soak) killNodes(ctx, over context.Context) error {
	began := time.Now()
	for n := 0; pauseBetween(over, 2*time.Second, 4*time.Second); n++ {
		if err := s.killNode(ctx, over, n); err != nil {
			return err
		}
		s.progress(began, fmt.Sprintf("%d kills of leaders, %d of workers", n+1, s.kills))
	}
	return nil
}

// killNode kills the leader of the log or that of the records in turn, and
// at every third time a worker while the next leader is being elected. The
// node that comes back catches up before the next one is killed: more than one
// copy of three nobody may lose.
func (s *soak) killNode(ctx, over context.Context, n int) error {
	leader, err := s.cluster.killLeader(ctx, []string{kv.StreamWebhooks, kv.StreamState}[n%2])
	if err != nil {
		return err
	}
	if n%3 == 2 {
		if err := s.killAndStart(ctx, s.cluster.workers[rand.IntN(len(s.cluster.workers))]); err != nil {
			return err
		}
	}
	pauseBetween(over, 500*time.Millisecond, 2*time.Second)
	return comeBack(ctx, leader)
}

func (c *soakCluster) killLeader(ctx context.Context, stream string) (*natscluster.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, soakReady)
	defer cancel()
	leader, err := c.Leader(ctx, stream)
	if err != nil {
		return nil, err
	}
	c.led[stream]++
	return leader, leader.Kill()
}

// comeBack starts a node and waits until it has caught up.
func comeBack(ctx context.Context, n *natscluster.Node) error {
	ctx, cancel := context.WithTimeout(ctx, soakCatchUp)
	defer cancel()
	if err := n.Start(ctx); err != nil {
		return err
	}
	return n.Healthy(ctx)
}

// reportCluster prints what was done to the cluster and what its doors
// answered, and fails if any answer was wrong.
func (s *soak) reportCluster() error {
	if s.cluster == nil {
		return nil
	}
	server := "the nats-server in belay"
	if s.o.natsServer != "" {
		server = s.o.natsServer
	}
	count := map[string]int{}
	var fleet []string
	for _, role := range soakFleet {
		if count[role]++; count[role] == 1 {
			fleet = append(fleet, role)
		}
	}
	for i, role := range fleet {
		fleet[i] = fmt.Sprintf("%d %s", count[role], role)
	}
	a := &s.answers
	fmt.Fprintf(s.cli.out, "%d × %s, %d copies, synced always; belay as %s\n", natscluster.Size, server, natscluster.Size, strings.Join(fleet, ", "))
	fmt.Fprintf(s.cli.out, "kills: the leader of %s %d times, of %s %d times, a worker %d times\n",
		kv.StreamWebhooks, s.cluster.led[kv.StreamWebhooks], kv.StreamState, s.cluster.led[kv.StreamState], s.kills)
	fmt.Fprintf(s.cli.out, "%d answered 503 and sent again, slowest answer %.1f s, longest without an accepted webhook %.1f s, wrong answers %d\n",
		a.refused, a.slowest.Seconds(), a.longest.Seconds(), len(a.wrong))
	if len(a.wrong) > 0 {
		return errors.New("soak got a wrong answer: " + a.wrong[0])
	}
	return nil
}
