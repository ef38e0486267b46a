package main

import (
	"context"
	"flag"
	"fmt"
	"time"
)

// idled is what one idle process used.
type idled struct {
	Round int     `json:"round"`
	RSS   float64 `json:"rss_mib"`
	CPU   float64 `json:"cpu_percent_of_a_core"`
	Ready float64 `json:"ready_ms"`
}

// idleCommand measures a `belay serve` that nobody talks to.
func idleCommand(ctx context.Context, args []string) error {
	var span, settle time.Duration
	o, err := parse("idle", args, func(fs *flag.FlagSet) {
		fs.DurationVar(&span, "span", 30*time.Second, "how long to watch it")
		fs.DurationVar(&settle, "settle", 3*time.Second, "how long to wait before")
	})
	if err != nil {
		return err
	}
	if o.quick {
		span, settle = time.Second, 0
	}
	dir, done, err := o.temp("idle")
	if err != nil {
		return err
	}
	defer done()
	bin, err := build(ctx, o, dir)
	if err != nil {
		return err
	}
	var all []idled
	for round := range o.rounds {
		m, err := measureIdle(ctx, o, bin, span, settle)
		if err != nil {
			return err
		}
		m.Round = round
		fmt.Printf("  round %d  %.1f MiB resident  %.2f %% of a core  ready in %.0f ms\n", round+1, m.RSS, m.CPU, m.Ready)
		all = append(all, m)
	}
	any := func(idled) bool { return true }
	target("idle: resident MiB", pick(all, any, func(m idled) float64 { return m.RSS }), 60, false)
	target("idle: % of a core", pick(all, any, func(m idled) float64 { return m.CPU }), 1, false)
	return o.writeJSON("idle", all)
}

func measureIdle(ctx context.Context, o *options, bin string, span, settle time.Duration) (idled, error) {
	var m idled
	dir, done, err := o.temp("idle")
	if err != nil {
		return m, err
	}
	defer done()
	s, err := startServe(ctx, bin, dir)
	if err != nil {
		return m, err
	}
	time.Sleep(settle)
	before, err := s.cpu()
	if err != nil {
		return m, err
	}
	time.Sleep(span)
	after, err := s.cpu()
	if err != nil {
		return m, err
	}
	m.RSS, m.CPU, m.Ready = s.rss(), 100*(after-before).Seconds()/span.Seconds(), float64(s.ready.Microseconds())/1000
	return m, s.stop()
}
