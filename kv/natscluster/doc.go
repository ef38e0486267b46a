// Package natscluster runs three nats-server processes on this machine that
// keep each stream three times, and does to them what happens to servers: a
// kill, a clean restart, a freeze. For soaks, benchmarks and tests; it is not
// a way to run a cluster for good, as a machine's end is the end of all three.
//
// The processes are whatever Options.Command starts, so that the package knows
// no nats-server itself. Every node has its own folder with its nats.conf, its
// store and its log; addresses are on loopback and stay the same for the life
// of the cluster, over all restarts.
package natscluster
