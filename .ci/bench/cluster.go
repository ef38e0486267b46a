package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/belay-run/belay/kv/natscluster"
	"github.com/belay-run/belay/kv/natsserver"
)

// childNode is one server of a cluster.
const childNode = "child-node"

// nodeJob tells a node where its files are.
type nodeJob struct{ Conf, Store string }

// nodeChild runs a node until it is told by a signal to stop.
func nodeChild(ctx context.Context, args []string) error {
	job, err := told[nodeJob](args)
	if err != nil {
		return err
	}
	s, err := natsserver.Start(ctx, natsserver.Options{ConfigFile: job.Conf, Dir: job.Store})
	if err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.Shutdown(stop)
}

// startNodes starts three servers of this binary in dir.
func startNodes(ctx context.Context, dir, syncInterval string) (*natscluster.Cluster, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return natscluster.Start(ctx, natscluster.Options{
		Dir: dir, SyncInterval: syncInterval,
		Command: func(conf, store string) []string {
			arg, err := json.Marshal(nodeJob{conf, store})
			if err != nil {
				panic(err) // two strings
			}
			return []string{exe, childNode, string(arg)}
		},
	})
}

// clustered is one measurement of a cluster.
type clustered struct {
	accepted

	Sync string `json:"sync_interval"`
}

// clusterCommand measures belay's accept beside a bare publish on three copies,
// and how long nobody is accepted after the leader was killed.
func clusterCommand(ctx context.Context, args []string) error {
	plan, clients, kills := acceptPlan{warm: time.Second}, 64, 20
	o, err := parse("cluster", args, func(fs *flag.FlagSet) {
		fs.DurationVar(&plan.span, "duration", 5*time.Second, "length of one measurement")
		fs.IntVar(&clients, "clients", clients, "clients at once")
		fs.IntVar(&kills, "kills", kills, "leaders to kill")
	})
	if err != nil {
		return err
	}
	if o.quick {
		plan, clients, kills = acceptPlan{warm: 50 * time.Millisecond, span: 300 * time.Millisecond}, 8, 1
	}
	var all []clustered
	for round := range o.rounds {
		for _, sync := range []string{syncAlways, syncDefault} {
			for _, variant := range []string{variantBelay, variantPublish} {
				m, err := measureCluster(ctx, o, plan, variant, sync, clients)
				if err != nil {
					return fmt.Errorf("%s with %d clients: %w", variant, clients, err)
				}
				m.Round = round
				fmt.Printf("  round %d  sync %-6s  %-8s %7.0f/s  p50 %.2f ms  p99 %.2f ms  load %s\n", round+1, sync, variant, m.Rate, m.P50, m.P99, m.Load)
				all = append(all, m)
			}
		}
	}
	reportCluster(all)
	outages, err := measureOutages(ctx, o, kills)
	if err != nil {
		return fmt.Errorf("kill leaders: %w", err)
	}
	return errors.Join(o.writeJSON("cluster", all), o.writeJSON("outage", outages))
}

// measureCluster measures one variant on a cluster of its own.
func measureCluster(ctx context.Context, o *options, plan acceptPlan, variant, sync string, clients int) (clustered, error) {
	m := clustered{accepted: accepted{Variant: variant, Clients: clients, Load: loadAverage()}, Sync: sync}
	dir, done, err := o.temp("cluster")
	if err != nil {
		return m, err
	}
	defer done()
	c, err := startNodes(ctx, dir, sync)
	if err != nil {
		return m, err
	}
	defer func() { _ = c.Close() }()
	job := loadJob{Clients: clients, Warm: plan.warm, Span: plan.span}
	profile := o.profileFile("cluster-" + variant + "-" + sync)
	var got loaded
	if variant == variantPublish {
		m.usage, err = alone(ctx, childPublish, publishJob{loadJob: job, URL: c.URL(), Profile: profile}, &got)
	} else {
		m.usage, err = served(ctx, serverJob{Variant: variant, URL: c.URL(), Profile: profile}, job, &got)
	}
	if err != nil {
		return m, err
	}
	m.Requests, m.All, m.Seconds, m.quantiles = got.Requests, got.All, got.Seconds, got.quantiles
	m.Rate = float64(got.Requests) / got.Seconds
	return m, nil
}

func reportCluster(all []clustered) {
	of := func(variant, sync string, number func(clustered) float64) series {
		return pick(all, func(m clustered) bool { return m.Variant == variant && m.Sync == sync }, number)
	}
	rate := func(m clustered) float64 { return m.Rate }
	rows := [][]string{{"clients", "sync", "variant", "requests/s", "p50 ms", "p99 ms", "CPU µs a request", "belay's rate / this"}}
	for _, sync := range []string{syncAlways, syncDefault} {
		for _, v := range []string{variantBelay, variantPublish} {
			rows = append(rows, []string{
				strconv.Itoa(all[0].Clients), sync, v, of(v, sync, rate).String(),
				of(v, sync, func(m clustered) float64 { return m.P50 }).String(),
				of(v, sync, func(m clustered) float64 { return m.P99 }).String(),
				of(v, sync, func(m clustered) float64 { return m.CPU * 1e6 / float64(max(1, m.All)) }).String(),
				of(variantBelay, sync, rate).over(of(v, sync, rate)).String(),
			})
		}
	}
	fmt.Println("three copies, one machine; medians [lowest–highest round]; CPU is that of the publishing process")
	table(rows)
	for _, sync := range []string{syncAlways, syncDefault} {
		target("belay / bare publish, three copies, sync "+sync, of(variantBelay, sync, rate).over(of(variantPublish, sync, rate)), 0.6, true)
	}
}
