package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/doctor"
	"github.com/belay-run/belay/kv/streams"
)

// errDiffer is the answer of `streams diff` where there is something to change.
var errDiffer = errors.New("the server's streams differ: `belay streams apply` changes them")

// errRefused is the answer of `streams apply` where the server changed not all.
var errRefused = errors.New("the server refused a change: streams stay as they were")

// streamsCommand is `belay streams`.
func (c *cli) streamsCommand() *cobra.Command {
	return group("streams", "Compare the server's streams with those that belay needs, and make them so",
		c.streamsDiffCommand(), c.streamsApplyCommand())
}

func (c *cli) streamsDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff",
		Short: "Say what differs; exit code 1 if anything does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.loadConfig()
			if err != nil {
				return err
			}
			changes, err := doctor.DiffStreams(cmd.Context(), cfg)
			if err == nil {
				err = c.printChanges("differs", changes)
			}
			if err == nil && len(changes) > 0 {
				err = errDiffer
			}
			return err
		},
	}
}

func (c *cli) streamsApplyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "apply",
		Short: "Make and change streams and consumers, and delete nothing",
		Long: `Apply makes the streams and consumers of the server in [nats] url what this
belay needs. A belay whose user may change streams does so itself when it starts;
this is for fleets whose roles may not (deploy/nats): run it as the user belay
before the first start, and before the start of a new version.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.loadConfig()
			if err != nil {
				return err
			}
			report, err := doctor.ApplyStreams(cmd.Context(), cfg)
			for _, part := range []struct {
				what    string
				changes []streams.Change
			}{{"created", report.Created}, {"updated", report.Updated}, {"refused", report.Refused}} {
				if perr := c.printChanges(part.what, part.changes); perr != nil {
					return perr
				}
			}
			if err == nil && len(report.Refused) > 0 {
				err = errRefused
			}
			return err
		},
	}
}

func (c *cli) printChanges(what string, changes []streams.Change) error {
	for _, ch := range changes {
		if _, err := fmt.Fprintln(c.out, what+": "+safe(ch.String())); err != nil {
			return fmt.Errorf("write changes: %w", err)
		}
	}
	return nil
}
