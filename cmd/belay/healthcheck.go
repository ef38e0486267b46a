package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout is how long belay may take to say how it is: less than what
// container engines wait.
const healthTimeout = 10 * time.Second

// healthcheckCommand asks one of belay's health routes, for images that have no
// other program.
func (c *cli) healthcheckCommand() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running belay whether its store takes writes, for container engines",
		Long: "Asks /healthz of a running belay, or /readyz with --ready.\n\n" +
			"Exit codes: 0 it is well, 1 it is not or does not answer, 2 the configuration cannot be read.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := c.dial()
			if err != nil {
				return err
			}
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
			if err != nil {
				return fmt.Errorf("make request: %w", err)
			}
			ans, err := a.do(req)
			if err == nil && ans.status != http.StatusOK {
				err = fmt.Errorf("%s answered %d: %s: see /readyz on the admin listener for what to do", path, ans.status, bytes.TrimSpace(ans.body))
			}
			if err == nil {
				_, err = c.out.Write(ans.body)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether work makes progress (/readyz)")
	return c.serverFlag(cmd)
}
