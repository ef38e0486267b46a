package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// started is the time from the start of a process until it was ready.
type started struct {
	Store string  `json:"store"`
	After string  `json:"after"`
	Round int     `json:"round"`
	Ready float64 `json:"ready_ms"`
	CPU   float64 `json:"cpu_ms"` // used until then
	RSS   float64 `json:"rss_mib"`
	Load  string  `json:"load_average"`
}

// startCommand measures starts on an empty and on a full store, after a clean
// stop and after kill -9.
func startCommand(ctx context.Context, args []string) error {
	full := fillJob{Tasks: 100_000, Deliveries: 1_000_000}
	o, err := parse("start", args, func(fs *flag.FlagSet) {
		fs.IntVar(&full.Tasks, "tasks", full.Tasks, "terminal tasks in the full store")
		fs.IntVar(&full.Deliveries, "deliveries", full.Deliveries, "deliveries in the full store")
	})
	if err != nil {
		return err
	}
	if o.quick {
		full.Tasks, full.Deliveries = 500, 2000
	}
	dir, done, err := o.temp("start")
	if err != nil {
		return err
	}
	defer done()
	bin, err := build(ctx, o, dir)
	if err != nil {
		return err
	}
	full.Dir = filepath.Join(dir, "full")
	if err := os.Mkdir(full.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := fill(ctx, full); err != nil {
		return fmt.Errorf("fill the store: %w", err)
	}
	all, err := measureStarts(ctx, o, bin, full.Dir)
	if err != nil {
		return err
	}
	if err := explainStart(ctx, o, full.Dir); err != nil {
		return err
	}
	reportStarts(all)
	return o.writeJSON("start", all)
}

func measureStarts(ctx context.Context, o *options, bin, full string) ([]started, error) {
	var all []started
	// The first start settles what the fill has left: it is not measured.
	if _, err := startOnce(ctx, bin, full, false); err != nil {
		return nil, err
	}
	for round := range o.rounds {
		empty, done, err := o.temp("start")
		if err != nil {
			return nil, err
		}
		for _, c := range []struct {
			store, after, dir string
			crash             bool // how this start ends: the next one's "after"
		}{
			{"empty", "nothing", empty, false},
			{"full", "clean stop", full, true},
			{"full", "kill -9", full, false},
		} {
			m, err := startOnce(ctx, bin, c.dir, c.crash)
			if err != nil {
				done()
				return nil, fmt.Errorf("%s after %s: %w", c.store, c.after, err)
			}
			m.Store, m.After, m.Round = c.store, c.after, round
			fmt.Printf("  round %d  %-5s after %-10s  ready in %.0f ms (%.0f ms of processor time), %.0f MiB resident, load %s\n", round+1, m.Store, m.After, m.Ready, m.CPU, m.RSS, m.Load)
			all = append(all, m)
		}
		done()
	}
	return all, nil
}

func startOnce(ctx context.Context, bin, dir string, crash bool) (started, error) {
	s, err := startServe(ctx, bin, dir)
	if err != nil {
		return started{}, err
	}
	used, err := s.cpu()
	if err != nil {
		return started{}, errors.Join(err, s.kill())
	}
	m := started{Ready: float64(s.ready.Microseconds()) / 1000, CPU: used.Seconds() * 1000, RSS: s.rss(), Load: loadAverage()}
	if crash {
		// A beat and a probe have to have been written: a crash right after
		// the start would find the store as a clean stop left it.
		time.Sleep(200 * time.Millisecond)
		return m, s.kill()
	}
	return m, s.stop()
}

func reportStarts(all []started) {
	of := func(store, after string) series {
		return pick(all, func(m started) bool { return m.Store == store && m.After == after }, func(m started) float64 { return m.Ready })
	}
	target("start: ms to ready on an empty store", of("empty", "nothing"), 300, false)
	target("start: ms to ready on a full store, clean", of("full", "clean stop"), 4000, false)
	target("start: ms to ready on a full store, after kill -9", of("full", "kill -9"), 4000, false)
	rss := pick(all, func(m started) bool { return m.Store == "full" }, func(m started) float64 { return m.RSS })
	fmt.Println("  resident MiB right after a start on the full store: " + rss.String())
}

const childFill = "child-fill"

// fill runs the filling in a process of its own, whose memory goes with it.
func fill(ctx context.Context, job fillJob) error {
	began := time.Now()
	c, err := startChild(ctx, childFill, job)
	if err != nil {
		return err
	}
	var size int64
	if err := c.read(&size); err != nil {
		return err
	}
	fmt.Printf("  filled: %d tasks, %d deliveries, %s MiB on disk, in %s\n", job.Tasks, job.Deliveries,
		strconv.FormatInt(size>>20, 10), time.Since(began).Round(time.Second))
	return c.stop(nil)
}
