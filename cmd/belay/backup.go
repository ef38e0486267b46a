package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/backup"
	"github.com/belay-run/belay/cmd/internal/doctor"
	"github.com/belay-run/belay/kv"
)

// backupCommand is `belay backup`.
func (c *cli) backupCommand() *cobra.Command {
	var to, tmp string
	cmd := &cobra.Command{
		Use:   "backup --to FILE|DIR",
		Short: "Take all of belay's records into one file, and verify it",
		Long: "Takes the streams of the configured store into one file, while belay works or while it is stopped,\n" +
			"then restores it to a server of its own and looks through all of it.\n" +
			"The configuration, its secrets and the logs of commands are not in it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usageError("backup needs --to")
			}
			return c.backup(cmd.Context(), to, tmp)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "new `file`, or a folder for one that is named by the time")
	cmd.Flags().StringVar(&tmp, "tmp", "", "`folder` with room to verify it in (default: the system's)")
	return cmd
}

// backupReport is what `belay backup` and `belay restore` print.
type backupReport struct {
	File     string          `json:"file"`
	Manifest backup.Manifest `json:"manifest"`
	// Found is what was looked through, Held what a restore holds back.
	Found *kv.Inspection `json:"found,omitempty"`
	Held  *kv.Held       `json:"held,omitempty"`
}

func (c *cli) backup(ctx context.Context, to, tmp string) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, "belay-"+c.now().UTC().Format("20060102T150405Z")+".backup")
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s is there already: name a new file, or a folder", to)
	}
	o := backup.TakeOptions{Version: version(), Now: c.now, Progress: c.meter("taking")}
	found, err := backup.File(ctx, cfg, doctor.Connect, to, tmp, o, c.meter("verifying"))
	if found == nil {
		return err
	}
	a, aerr := backup.Open(to)
	if aerr != nil {
		return errors.Join(err, aerr)
	}
	defer func() { _ = a.Close() }()
	return errors.Join(c.printBackup(backupReport{File: to, Manifest: a.Manifest, Found: found}), err)
}

// meter returns a printer of progress: a line at most every two seconds.
func (c *cli) meter(what string) func(stream string, done, all int64) {
	last := c.now()
	return func(stream string, done, all int64) {
		if now := c.now(); now.Sub(last) >= 2*time.Second {
			last = now
			fmt.Fprintf(c.err, "belay: %s %s: %s of about %s\n", what, stream, mebibytes(done), mebibytes(max(done, all)))
		}
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// printBackup prints what a backup holds and what was found in it.
func (c *cli) printBackup(r backupReport) error {
	if c.output == outputJSON {
		enc := json.NewEncoder(c.out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	m := r.Manifest
	fmt.Fprintf(c.out, "%s, taken %s by belay %s\n", r.File, m.TakenAt.Format(time.RFC3339), m.Belay)
	for _, s := range m.Streams {
		fmt.Fprintf(c.out, "  %-10s %9d messages, %s\n", s.Name, s.Messages, mebibytes(s.Size))
	}
	if f := r.Found; f != nil {
		fmt.Fprintf(c.out, "verified: %d deliveries, %d tasks (%d tombstones), %d replies, %d operator tasks\n",
			f.Deliveries, f.Tasks, f.Tombstones, f.Replies, f.Requests)
		for _, p := range f.Problems {
			fmt.Fprintf(c.out, "  problem: %s\n", p)
		}
	}
	return nil
}
