package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// configCommand is `belay config`.
func (c *cli) configCommand() *cobra.Command {
	return group("config", "Show the configuration", &cobra.Command{
		Use:   "print",
		Short: "Print what is in force as TOML, and where each value came from",
		Long:  "Prints the configuration in force as TOML, each key with where its value came from. Of secrets it only says whether they are set.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := c.loadConfig()
			if err != nil {
				return err
			}
			file := cfg.File
			if file == "" {
				file = "none, so the defaults are in force"
			}
			if _, err := fmt.Fprintf(c.out, "# file: %s\n\n", safe(file)); err != nil {
				return fmt.Errorf("write configuration: %w", err)
			}
			return cfg.Print(c.out)
		},
	})
}
