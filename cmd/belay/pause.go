package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func (c *cli) pauseCommand() *cobra.Command {
	return c.switchCommand("pause", "Stop starting tasks; webhooks are still accepted, what runs goes on", "no task is started")
}

func (c *cli) resumeCommand() *cobra.Command {
	return c.switchCommand("resume", "Start tasks again after a pause", "tasks are started")
}

// switchCommand is `belay pause` or `belay resume`.
func (c *cli) switchCommand(verb, short, done string) *cobra.Command {
	var installation int64
	cmd := &cobra.Command{
		Use:   verb,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, of := map[string]int64{}, "all installations"
			if cmd.Flags().Changed("installation") {
				body["installation"] = installation
				of = fmt.Sprint("installation ", installation)
			}
			a, err := c.dial()
			if err != nil {
				return err
			}
			ans, err := a.post(cmd.Context(), "/api/control/"+verb, body)
			if err != nil {
				return err
			}
			if c.output == outputJSON {
				return printJSON(c.out, json.RawMessage(ans.body))
			}
			_, err = fmt.Fprintf(c.out, "%s: %s for %s\n", verb, done, of)
			return err
		},
	}
	cmd.Flags().Int64Var(&installation, "installation", 0, "`id` of one installation (default: all)")
	return c.serverFlag(cmd)
}
