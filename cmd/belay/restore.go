package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/backup"
	"github.com/belay-run/belay/cmd/internal/doctor"
	"github.com/belay-run/belay/kv"
)

// restoreCommand is `belay restore`.
func (c *cli) restoreCommand() *cobra.Command {
	var from, tmp string
	var verify, goOn bool
	cmd := &cobra.Command{
		Use:   "restore --from FILE [--verify]",
		Short: "Put a backup into an empty store, or verify it",
		Long: "Puts a backup into the configured store, which must be empty: a data folder without one, or NATS servers\n" +
			"without belay's streams.\n\n" +
			"What the belay that the backup is of may have done since is not done again: tasks wait for `belay resume`,\n" +
			"replies that were not sent count as unknown (`belay outbox ls --unknown`), and of operator tasks that could be\n" +
			"attempted the issue is looked for. --continue holds nothing back; it needs a backup during which no belay worked.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case from == "":
				return usageError("restore needs --from")
			case verify && goOn:
				return usageError("--verify restores nothing that could be continued: leave one out")
			}
			return c.restore(cmd.Context(), from, tmp, verify, goOn)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "`file` of the backup")
	cmd.Flags().BoolVar(&verify, "verify", false, "only restore to a server of its own, and look through all of it")
	cmd.Flags().BoolVar(&goOn, "continue", false, "hold nothing back: no belay worked on the store since the backup")
	cmd.Flags().StringVar(&tmp, "tmp", "", "`folder` with room to verify it in (default: the system's)")
	return cmd
}

func (c *cli) restore(ctx context.Context, from, tmp string, verify, goOn bool) error {
	a, err := backup.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = a.Close() }()
	r := backupReport{File: from, Manifest: a.Manifest}
	if verify {
		found, err := backup.Verify(ctx, a, tmp, c.meter("verifying"))
		if err != nil && !errors.Is(err, backup.ErrProblems) {
			return err
		}
		r.Found = &found
		return errors.Join(c.printBackup(r), err)
	}
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	held, err := backup.To(ctx, cfg, doctor.Connect, a, backup.RestoreOptions{
		Continue: goOn, Hold: kv.HoldOptions{Now: c.now}, Progress: c.meter("restoring"),
	})
	switch {
	case errors.Is(err, backup.ErrNotEmpty):
		return fmt.Errorf("%w: restore to another storage.dir or other servers, or move it away", err)
	case errors.Is(err, backup.ErrNotQuiet):
		return fmt.Errorf("%w: leave out --continue, then `belay outbox ls --unknown` and `belay resume`", err)
	case err != nil:
		return err
	}
	if !goOn {
		r.Held = &held
	}
	if err := c.printBackup(r); err != nil || c.output == outputJSON || r.Held == nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "restored. Held back: %d tasks wait for `belay resume`; %d replies count as unknown in two minutes,\n"+
		"settle each with `belay outbox resolve`; the issues of %d operator tasks are looked for.\n"+
		"next: start `belay serve`; copy the secrets, which are not in a backup\n", held.Live, held.Replies, held.Requests)
	return err
}
