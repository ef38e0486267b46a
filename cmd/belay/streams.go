package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/cmd/internal/doctor"
	"github.com/belay-run/belay/kv/streams"
)

// errDiffer is the answer of `streams diff` where there is something to change.
var errDiffer = errors.New("the server's streams differ: `belay streams apply` changes them")

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
			return c.withStreams(cmd.Context(), func(ctx context.Context, js jetstream.JetStream, set streams.Set, o streams.Options) error {
				changes, err := streams.Diff(ctx, js, set, o)
				if err != nil {
					return err
				}
				if err := c.printChanges("differs", changes); err != nil {
					return err
				}
				if len(changes) > 0 {
					return errDiffer
				}
				return nil
			})
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
			return c.withStreams(cmd.Context(), func(ctx context.Context, js jetstream.JetStream, set streams.Set, o streams.Options) error {
				report, err := streams.Reconcile(ctx, js, set, o)
				for _, part := range []struct {
					what    string
					changes []streams.Change
				}{{"created", report.Created}, {"updated", report.Updated}, {"refused", report.Refused}} {
					if perr := c.printChanges(part.what, part.changes); perr != nil {
						return perr
					}
				}
				if err == nil && len(report.Refused) > 0 {
					err = errors.New("the server refused a change: streams stay as they were")
				}
				return err
			})
		},
	}
}

// withStreams calls f with the server that the configuration names.
func (c *cli) withStreams(ctx context.Context, f func(context.Context, jetstream.JetStream, streams.Set, streams.Options) error) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	set, err := streams.Load(belay.StreamsJSON)
	if err != nil {
		return err
	}
	nc, err := doctor.Connect(cfg, "belay streams")
	if err != nil {
		return fmt.Errorf("%w: check [nats] url, or start the belay that has the server", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, serveStop)
	defer cancel()
	return f(ctx, js, set, streams.Options{Replicas: cfg.NATS.Replicas})
}

func (c *cli) printChanges(what string, changes []streams.Change) error {
	for _, ch := range changes {
		if _, err := fmt.Fprintln(c.out, what+": "+safe(ch.String())); err != nil {
			return fmt.Errorf("write changes: %w", err)
		}
	}
	return nil
}
