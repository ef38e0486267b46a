package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"
)

// The variants of the benchmark accept.
const (
	variantBelay   = "belay"   // our handler over the embedded server, every message synced
	variantNothing = "nothing" // the same handler over a store that does nothing
	variantPublish = "publish" // synced publishes of the same bytes, no HTTP
	variantSQLite  = "sqlite"  // the same handler over SQLite, synchronous FULL
)

// accepted is one measurement: one variant, one number of clients, one round.
type accepted struct {
	Variant  string  `json:"variant"`
	Clients  int     `json:"clients"`
	Round    int     `json:"round"`
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"requests_per_second"`
	quantiles
	usage
	All  int    `json:"requests_with_warm_up"` // what the CPU was used for
	Load string `json:"load_average"`
}

// acceptPlan is how long and with how many clients.
type acceptPlan struct {
	clients []int
	warm    time.Duration
	span    time.Duration
}

func acceptCommand(ctx context.Context, args []string) error {
	plan := acceptPlan{clients: []int{1, 16, 64, 256}, warm: 500 * time.Millisecond}
	o, err := parse("accept", args, func(fs *flag.FlagSet) {
		fs.DurationVar(&plan.span, "duration", 3*time.Second, "length of one measurement")
	})
	if err != nil {
		return err
	}
	if o.quick {
		plan = acceptPlan{clients: []int{16}, warm: 50 * time.Millisecond, span: 300 * time.Millisecond}
	}
	var all []accepted
	for round := range o.rounds {
		for _, clients := range plan.clients {
			for _, variant := range []string{variantBelay, variantPublish, variantSQLite, variantNothing} {
				if !o.wants(variant) {
					continue
				}
				m, err := measureAccept(ctx, o, plan, variant, clients, round)
				if err != nil {
					return fmt.Errorf("%s with %d clients: %w", variant, clients, err)
				}
				fmt.Printf("  round %d  %3d clients  %-8s %7.0f/s  p50 %.2f ms  p99 %.2f ms  load %s\n", round+1, clients, variant, m.Rate, m.P50, m.P99, m.Load)
				all = append(all, m)
			}
		}
	}
	reportAccept(all, plan.clients)
	return o.writeJSON("accept", all)
}

func measureAccept(ctx context.Context, o *options, plan acceptPlan, variant string, clients, round int) (accepted, error) {
	m := accepted{Variant: variant, Clients: clients, Round: round, Load: loadAverage()}
	dir, done, err := o.temp("accept")
	if err != nil {
		return m, err
	}
	defer done()
	job := loadJob{Clients: clients, Warm: plan.warm, Span: plan.span}
	profile := o.profileFile(fmt.Sprintf("accept-%s-%d-%d", variant, clients, round))
	var got loaded
	if variant == variantPublish {
		m.usage, err = alone(ctx, childPublish, publishJob{loadJob: job, Dir: dir, Profile: profile}, &got)
	} else {
		m.usage, err = served(ctx, serverJob{Variant: variant, Dir: dir, Profile: profile}, job, &got)
	}
	if err != nil {
		return m, err
	}
	m.Requests, m.All, m.Seconds, m.quantiles = got.Requests, got.All, got.Seconds, got.quantiles
	m.Rate = float64(got.Requests) / got.Seconds
	return m, nil
}

// alone runs a child that makes its own load.
func alone(ctx context.Context, name string, job any, got *loaded) (usage, error) {
	var u usage
	c, err := startChild(ctx, name, job)
	if err != nil {
		return u, err
	}
	if err := c.read(got); err != nil {
		return u, err
	}
	return u, c.stop(&u)
}

// served runs a server and, in another process, the load.
func served(ctx context.Context, server serverJob, job loadJob, got *loaded) (usage, error) {
	var u usage
	s, err := startChild(ctx, childServer, server)
	if err != nil {
		return u, err
	}
	var at listening
	if err := s.read(&at); err != nil {
		return u, err
	}
	job.Addr = at.Addr
	l, err := startChild(ctx, childLoad, job)
	if err == nil {
		if err = l.read(got); err == nil {
			err = l.stop(nil)
		}
	}
	if err != nil {
		s.kill()
		return u, fmt.Errorf("load: %w", err)
	}
	return u, s.stop(&u)
}

func reportAccept(all []accepted, clients []int) {
	of := func(variant string, n int, number func(accepted) float64) series {
		return pick(all, func(m accepted) bool { return m.Variant == variant && m.Clients == n }, number)
	}
	rate := func(m accepted) float64 { return m.Rate }
	rows := [][]string{{"clients", "variant", "requests/s", "p50 ms", "p95 ms", "p99 ms", "CPU µs a request", "peak RSS MiB", "belay's rate / this"}}
	for _, n := range clients {
		for _, v := range []string{variantBelay, variantNothing, variantPublish, variantSQLite} {
			if len(of(v, n, rate)) == 0 {
				continue
			}
			rows = append(rows, []string{
				strconv.Itoa(n), v, of(v, n, rate).String(),
				of(v, n, func(m accepted) float64 { return m.P50 }).String(),
				of(v, n, func(m accepted) float64 { return m.P95 }).String(),
				of(v, n, func(m accepted) float64 { return m.P99 }).String(),
				of(v, n, func(m accepted) float64 { return m.CPU * 1e6 / float64(max(1, m.All)) }).String(),
				of(v, n, func(m accepted) float64 { return float64(m.PeakRSS) / (1 << 20) }).String(),
				of(variantBelay, n, rate).over(of(v, n, rate)).String(),
			})
		}
	}
	fmt.Println("medians [lowest–highest round]")
	table(rows)
	target("belay / bare synced publish at 64 clients", of(variantBelay, 64, rate).over(of(variantPublish, 64, rate)), 0.75, true)
	target("belay / SQLite FULL at 256 clients", of(variantBelay, 256, rate).over(of(variantSQLite, 256, rate)), 1, true)
}
