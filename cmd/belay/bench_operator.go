package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/bench"
)

// benchOperator are the flags of `belay bench operator`.
type benchOperator struct {
	rounds, requests, raced int
	dir                     string
}

func (c *cli) benchOperatorCommand() *cobra.Command {
	o := benchOperator{rounds: 3, requests: 1000, raced: 1000}
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Measure how fast operator requests become issues, and that a race makes one of each",
		Long: `Runs what ` + "`belay serve`" + ` runs for operator tasks over an embedded server of its own,
which syncs every write to disk, against a stand-in of GitHub and a receiver on
loopback, all in this process. GitHub's own limits are left out: there, an
installation makes one issue a second.

  lives  requests a second, from the proposal to the callback that tells of the
         issue; beside it the synced writes a second of the same disk
  race   requests that eight confirm at once: there must be one issue of each,
         and one request to GitHub

If a race makes more or fewer, the exit code is 1.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for name, n := range map[string]int{"rounds": o.rounds, "requests": o.requests, "raced": o.raced} {
				if n < 1 {
					return usageError("--%s %d: write a number from 1 on", name, n)
				}
			}
			return c.runBenchOperator(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.rounds, "rounds", o.rounds, "rounds of lives")
	f.IntVar(&o.requests, "requests", o.requests, "requests in each round")
	f.IntVar(&o.raced, "raced", o.raced, "requests that are raced")
	f.StringVar(&o.dir, "dir", "", "`folder` to make a temporary one in (default: the system's)")
	return cmd
}

func (c *cli) runBenchOperator(ctx context.Context, o benchOperator) (err error) {
	dir, err := os.MkdirTemp(o.dir, "belay-bench-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w: name another with --dir", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	got, err := bench.MeasureOperator(ctx, dir, o.rounds, o.requests, o.raced, func(text string) { fmt.Fprintln(c.err, text) })
	if err != nil {
		return fmt.Errorf("measure operator tasks: %w", err)
	}
	if c.output == outputJSON {
		err = printJSON(c.out, map[string]any{"operator": got, "cpus": runtime.NumCPU()})
	} else {
		err = fields(c.out, [][2]string{
			{"machine", fmt.Sprintf("%d CPUs, %.0f synced writes/s", runtime.NumCPU(), got.Writes)},
			{"lives", fmt.Sprintf("%s requests/s (rounds of %d, proposed to delivered)", rates(got.Lives), got.Requests)},
			{"race", fmt.Sprintf("%d requests by %d confirmers each: %d won, %d POSTs, %d issues, %.0f requests/s",
				got.Raced, bench.Confirmers, got.Won, got.Posts, got.Issues, got.RaceRate)},
		})
	}
	if got.Won != got.Raced || got.Posts != got.Raced || got.Issues != got.Raced {
		err = errors.Join(err, fmt.Errorf("race of %d requests: %d confirmations won, %d requests to GitHub, %d issues", got.Raced, got.Won, got.Posts, got.Issues))
	}
	return err
}
