package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/bench"
)

// benchOutbox are the flags of `belay bench outbox`.
type benchOutbox struct {
	rounds, replies int
	queued, samples int
	dir             string
}

func (c *cli) benchOutboxCommand() *cobra.Command {
	o := benchOutbox{rounds: 3, replies: 2000, queued: 1000, samples: 1000}
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Measure how fast replies leave, and what a dead recipient costs the others",
		Long: `Runs the relay of ` + "`belay serve`" + ` over an embedded server of its own, which syncs
every write to disk, to receivers on loopback, all in this process.

  throughput  replies a second to a fast recipient, from a full queue; beside it
              a plain loop of POSTs of the same body, as many at once, in the
              same run, and the ratio of the two
  dead        what recipients wait, from a reply's creation to its request,
              without and with replies queued for a recipient that accepts and
              never answers (10 s timeout); the two take turns, 20 ms apart

It takes about two minutes. The folder should be on the disk that belay is to
use: how many synced writes it takes is the limit, so that is shown too.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for name, n := range map[string]int{"rounds": o.rounds, "replies": o.replies, "queued": o.queued, "samples": o.samples} {
				if n < 1 {
					return usageError("--%s %d: write a number from 1 on", name, n)
				}
			}
			return c.runBenchOutbox(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.rounds, "rounds", o.rounds, "rounds of the throughput")
	f.IntVar(&o.replies, "replies", o.replies, "replies in each round")
	f.IntVar(&o.queued, "queued", o.queued, "replies for the dead recipient")
	f.IntVar(&o.samples, "samples", o.samples, "replies for the others, on each side")
	f.StringVar(&o.dir, "dir", "", "`folder` to make a temporary one in (default: the system's)")
	return cmd
}

func (c *cli) runBenchOutbox(ctx context.Context, o benchOutbox) (err error) {
	dir, err := os.MkdirTemp(o.dir, "belay-bench-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w: name another with --dir", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	say := func(text string) { fmt.Fprintln(c.err, text) }
	through, err := bench.MeasureThroughput(ctx, dir, o.rounds, o.replies, say)
	if err != nil {
		return fmt.Errorf("measure the throughput: %w", err)
	}
	dead, err := bench.MeasureDead(ctx, dir, o.queued, o.samples, say)
	if err != nil {
		return fmt.Errorf("measure a dead recipient: %w", err)
	}
	if c.output == outputJSON {
		return printJSON(c.out, map[string]any{"throughput": through, "dead": dead, "cpus": runtime.NumCPU()})
	}
	return c.showBenchOutbox(through, dead)
}

func (c *cli) showBenchOutbox(t bench.Throughput, d bench.Dead) error {
	wait := func(w bench.Wait) string {
		return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, max %.1f ms", w.P50, w.P99, w.Max)
	}
	return fields(c.out, [][2]string{
		{"machine", fmt.Sprintf("%d CPUs, every write synced", runtime.NumCPU())},
		{"relay", fmt.Sprintf("%s replies/s (rounds of %d, %d bytes, %d at once)", rates(t.Relay), t.Replies, t.Body, t.Concurrency)},
		{"plain POSTs", fmt.Sprintf("%s /s (the same body, as many at once, in turns)", rates(t.Bare))},
		{"disk", fmt.Sprintf("%s synced writes/s, of which a reply needs two", rates(t.Disk))},
		{"ratio", fmt.Sprintf("%.3f of the plain POSTs", t.Ratio)},
		{"others alone", wait(d.Alone)},
		{"beside a dead one", wait(d.Beside)},
		{"dead one", fmt.Sprintf("%d queued, %d tried, %s timeout; %d samples a side", d.Queued, d.Tried, bench.DeadTimeout, d.Samples)},
	})
}

// rates lists the rounds.
func rates(list []float64) string {
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = fmt.Sprintf("%.0f", r)
	}
	return strings.Join(out, ", ")
}
