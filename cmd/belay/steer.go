package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func (c *cli) tasksRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID",
		Short: "Queue a completed, failed or cancelled task again",
		Args:  oneID("task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.steer(cmd, args[0], "retry", struct{}{}, "only ended tasks are retried, and superseded ones never: retry the one that took its place")
		},
	}
}

func (c *cli) tasksCancelCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "End a queued or running task",
		Args:  oneID("task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]string{}
			if reason != "" {
				body["reason"] = reason
			}
			return c.steer(cmd, args[0], "cancel", body, "only queued and running tasks are cancelled")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

// steer sends a command for a task and shows what became of it.
func (c *cli) steer(cmd *cobra.Command, id, verb string, body any, conflict string) error {
	a, err := c.dial()
	if err != nil {
		return err
	}
	ans, err := a.post(cmd.Context(), tasksPath+"/"+url.PathEscape(id)+"/"+verb, body)
	if err != nil {
		return noTask(withNext(err, http.StatusConflict, conflict))
	}
	return c.printTask(a, ans, func(t *taskDetail) error {
		_, err := fmt.Fprintf(c.out, "%s: %s\n", safe(t.ID), safe(t.Status))
		return err
	})
}
