// Package bench measures belay on the machine at hand: the relay and the
// creation of operators' issues that serve runs, over the embedded server with
// every write synced, to receivers on loopback, all in one process.
//
// Every number stands beside another of the same run, as those of different
// runs on a busy machine say little: the relay's throughput beside a plain loop
// of POSTs, and what recipients wait beside a dead one beside what they wait
// without it. What is compared alternates.
package bench
