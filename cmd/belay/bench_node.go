package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/app"
	"github.com/belay-run/belay/kv/natsserver"
)

// nodeStop bounds a node's stop.
const nodeStop = 30 * time.Second

// benchNodeCommand is one server of the cluster that a soak runs: the
// nats-server that is in belay, as a process of its own.
func (c *cli) benchNodeCommand() *cobra.Command {
	var conf, dir string
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "Run one nats-server of a soak's cluster",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := natsserver.Start(cmd.Context(), natsserver.Options{
				ConfigFile: conf, Dir: dir, Logger: app.NewLogger(c.err, slog.LevelInfo, time.Now),
			})
			if err != nil {
				return err
			}
			<-cmd.Context().Done()
			ctx, cancel := context.WithTimeout(context.Background(), nodeStop)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				return fmt.Errorf("stop node: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&conf, "nats-config", "", "nats.conf of the server")
	cmd.Flags().StringVar(&dir, "dir", "", "folder of its store")
	return cmd
}
