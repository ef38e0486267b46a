package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/cmd/internal/doctor"
)

// doctorCommand is `belay doctor`.
func (c *cli) doctorCommand() *cobra.Command {
	var online bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration and this machine",
		Long: "Checks the configuration and this machine, and says of each finding what to do.\n\n" +
			"Exit codes: 0 no errors, 1 errors, 2 the configuration cannot be read.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.doctor(cmd.Context(), online) },
	}
	cmd.Flags().BoolVar(&online, "online", false, "ask the NATS server and GitHub too")
	return cmd
}

func (c *cli) doctor(ctx context.Context, online bool) error {
	cfg, err := config.Load(config.Find(c.config, c.environ), c.environ)
	var problems *config.Error
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	o := doctor.Options{Config: cfg}
	if problems != nil {
		o.Problems = problems.Problems
	}
	if online {
		o.Probe, o.App, o.Apps = doctor.NewProbe(cfg), doctor.NewApp(cfg), doctor.NewApps(cfg)
	}
	found := doctor.Check(ctx, o)
	write := found.WriteText
	if c.output == outputJSON {
		write = found.WriteJSON
	}
	if err := write(c.out); err != nil {
		return err
	}
	if code := found.ExitCode(); code != exitOK {
		return &codedError{code: code}
	}
	return nil
}
