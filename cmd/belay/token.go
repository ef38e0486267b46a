package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/consumers/githubapp"
)

// tokenCommand is `belay token`.
func (c *cli) tokenCommand() *cobra.Command {
	var asGit bool
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print a fresh git token, inside a run",
		Long: `A task's command gets a git token for its one repository in $BELAY_GIT_TOKEN. It
is good for an hour at most; in a longer run, this prints another one. It asks
the belay that runs the task, through the socket in $` + githubapp.TokenSocketEnv + `.

With --git it is a credential helper of git, which asks when it needs one:

  git -c credential.helper='!belay token --git' fetch`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !asGit || len(args) > 1 {
				return usageError("%s takes no argument: %q", cmd.CommandPath(), args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] != "get" {
				return nil // git says to store or to erase: there is nothing to keep
			}
			t, err := c.fetchToken(cmd.Context())
			if err != nil {
				return err
			}
			return c.printToken(t, asGit)
		},
	}
	cmd.Flags().BoolVar(&asGit, "git", false, "answer as a credential helper of git")
	return cmd
}

func (c *cli) fetchToken(ctx context.Context) (githubapp.Token, error) {
	socket := c.getenv(githubapp.TokenSocketEnv)
	if socket == "" {
		return githubapp.Token{}, fmt.Errorf("$%s is not set: this works only in a task's command, run by a belay with an App under [github]", githubapp.TokenSocketEnv)
	}
	t, err := githubapp.FetchToken(ctx, socket)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return githubapp.Token{}, fmt.Errorf("nothing answers at $%s = %s: the run has ended, or its belay is gone", githubapp.TokenSocketEnv, socket)
	case errors.Is(err, fs.ErrPermission):
		return githubapp.Token{}, fmt.Errorf("$%s = %s is another user's: run it as the user of the task's command", githubapp.TokenSocketEnv, socket)
	case err != nil:
		return githubapp.Token{}, fmt.Errorf("%w: see the log of the belay that runs the task", err)
	}
	return t, nil
}

func (c *cli) printToken(t githubapp.Token, asGit bool) error {
	var err error
	switch value := t.Value.Reveal(); {
	case asGit:
		_, err = fmt.Fprintf(c.out, "username=x-access-token\npassword=%s\n", value)
	case c.output == outputJSON:
		return printJSON(c.out, map[string]string{"token": value, "expiresAt": t.ExpiresAt.UTC().Format(time.RFC3339)})
	default:
		_, err = fmt.Fprintln(c.out, value)
	}
	return err
}
