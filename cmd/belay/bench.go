package main

import (
	"time"

	"github.com/spf13/cobra"
)

// benchCommand groups what proves and measures belay on the machine at hand.
func (c *cli) benchCommand() *cobra.Command {
	return group("bench", "Prove and measure belay on this machine", c.soakCommand(), c.benchOutboxCommand(), c.benchOperatorCommand(), soakTaskCommand())
}

func (c *cli) soakCommand() *cobra.Command {
	o := soakOptions{duration: time.Minute, rate: 25, clients: 8, concurrency: 8}
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Kill the server again and again under load, then audit that nothing was lost or done twice",
		Long: `Soak starts ` + "`belay serve`" + ` in a temporary folder, sends it signed webhooks (every
fourth one twice), and kills it with SIGKILL every few seconds. Each run of a
task notes its start and end in a file outside the store. When the time is over
the server is left alone until all is done; then the audit compares the ids that
were accepted, the notes and the list:

  lost         accepted, but not in the list
  extra        in the list, but never sent
  twice        one delivery, several tasks
  overlapping  two attempts of one task at the same time
  after end    a run that began after its task was seen as ended
  open         neither done nor failed at the end

Each task also calls the soak back when it has ended. The receiver, which nobody
kills, must get each reply at most once, and every reply that reads delivered;
one that a kill interrupted is unknown, and shown as that.

All of them must be 0; else the exit code is 1.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.soak(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.DurationVar(&o.duration, "duration", o.duration, "how long to send and kill")
	f.IntVar(&o.rate, "rate", o.rate, "webhooks a second at the most")
	f.IntVar(&o.clients, "clients", o.clients, "clients that send at once")
	f.IntVar(&o.concurrency, "concurrency", o.concurrency, "tasks that run at once")
	f.StringVar(&o.keep, "keep", "", "`folder` to use and keep, for a look afterwards")
	return cmd
}
