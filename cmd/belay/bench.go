package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// benchCommand groups what proves and measures belay on the machine at hand.
func (c *cli) benchCommand() *cobra.Command {
	return group("bench", "Prove and measure belay on this machine", c.soakCommand(), c.benchOutboxCommand(), c.benchOperatorCommand(), soakTaskCommand(), c.benchNodeCommand())
}

// clusterRate is how many webhooks a second three copies on one disk keep up
// with, so that a node that comes back can catch up.
const clusterRate = 10

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

With --cluster, NATS is three servers of their own that keep each stream three
times, and belay five processes on them: two that take webhooks, two that run
tasks, one that sends replies. What is killed is the server that leads the log,
then the one that leads the records, and so on; sometimes a worker at the same
time. The doors are not killed, so that each of their answers counts: it is 200,
or 503 while there is no leader, and comes within the 10 s that GitHub waits.

Each task also calls the soak back when it has ended. The receiver, which nobody
kills, must get each reply at most once, and every reply that reads delivered;
one that a kill interrupted is unknown, and shown as that.

All of them must be 0; else the exit code is 1.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.natsServer != "" && !o.cluster {
				return usageError("--nats-server is for --cluster: without it, NATS is in the server that is killed")
			}
			if o.cluster && !cmd.Flags().Changed("rate") {
				o.rate = clusterRate
			}
			return c.soak(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.cluster, "cluster", false, "kill leaders of a NATS cluster of three")
	f.StringVar(&o.natsServer, "nats-server", "", "nats-server `program` for the cluster (default: the one in belay)")
	f.DurationVar(&o.duration, "duration", o.duration, "how long to send and kill")
	f.IntVar(&o.rate, "rate", o.rate, fmt.Sprintf("webhooks a second at the most (with --cluster %d)", clusterRate))
	f.IntVar(&o.clients, "clients", o.clients, "clients that send at once")
	f.IntVar(&o.concurrency, "concurrency", o.concurrency, "tasks that run at once")
	f.StringVar(&o.keep, "keep", "", "`folder` to use and keep, for a look afterwards")
	return cmd
}
