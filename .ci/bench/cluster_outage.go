package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natscluster"
)

// outageClients post at once while leaders are killed.
const outageClients = 8

// outage is the time from the kill of the log's leader to the first 200 to a
// webhook that was sent after it.
type outage struct {
	Seconds float64 `json:"seconds"`
	Load    string  `json:"load_average"`
}

// measureOutages kills the leader of the log so many times.
func measureOutages(ctx context.Context, o *options, kills int) ([]outage, error) {
	dir, done, err := o.temp("outage")
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := startNodes(ctx, dir, syncAlways)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	s, err := startChild(ctx, childServer, serverJob{Variant: variantBelay, URL: c.URL()})
	if err != nil {
		return nil, err
	}
	defer s.kill()
	var at listening
	if err := s.read(&at); err != nil {
		return nil, err
	}
	taken, stop := keepPosting(ctx, at.Addr)
	defer stop()
	var all []outage
	for range kills {
		took, err := oneOutage(ctx, c, taken)
		if err != nil {
			return nil, err
		}
		all = append(all, outage{took.Seconds(), loadAverage()})
		fmt.Printf("  kill %2d  accepted again after %.2f s  load %s\n", len(all), took.Seconds(), loadAverage())
	}
	var of series
	for _, x := range all {
		of = append(of, x.Seconds)
	}
	sorted := slices.Sorted(slices.Values(of))
	fmt.Printf("accepted again after kill -9 of the leader, %d kills: p50 %.1f s, p90 %.1f s, longest %.1f s\n",
		len(sorted), of.median(), sorted[(len(sorted)-1)*9/10], sorted[len(sorted)-1])
	target("longest time until accepting again, seconds", series{sorted[len(sorted)-1]}, 9.5, false)
	return all, nil
}

// oneOutage kills the leader, waits until a later webhook is accepted, and
// brings the node back.
func oneOutage(ctx context.Context, c *natscluster.Cluster, taken <-chan time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	leader, err := c.Leader(ctx, kv.StreamWebhooks)
	if err != nil {
		return 0, err
	}
	killed := time.Now()
	if err := leader.Kill(); err != nil {
		return 0, err
	}
	for sent := (time.Time{}); !sent.After(killed); {
		select {
		case sent = <-taken:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for a webhook to be accepted: %w", ctx.Err())
		}
	}
	took := time.Since(killed)
	if err := leader.Start(ctx); err != nil {
		return 0, err
	}
	return took, leader.Healthy(ctx)
}

// keepPosting posts without end, each client after a short pause, and tells of
// each accepted webhook when it was sent. A refused one costs its connection.
func keepPosting(ctx context.Context, addr string) (taken <-chan time.Time, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan time.Time)
	var wg sync.WaitGroup
	for range outageClients {
		wg.Go(func() {
			for ctx.Err() == nil {
				c, err := dial(ctx, addr)
				for err == nil && ctx.Err() == nil {
					sent := time.Now()
					if err = c.post(); err != nil {
						break
					}
					select {
					case out <- sent:
					case <-ctx.Done():
					case <-time.After(20 * time.Millisecond): // nobody waits for one now
					}
				}
				if c != nil {
					_ = c.conn.Close()
				}
			}
		})
	}
	return out, func() { cancel(); wg.Wait() }
}
