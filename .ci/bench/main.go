// Bench measures belay beside what one would use instead of it: see README.md
// for the benchmarks, what they gave and where the time goes. It is a module
// of its own, so that the drivers of the rivals stay out of belay's.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name, args := "help", []string(nil)
	if len(os.Args) > 1 {
		name, args = os.Args[1], os.Args[2:]
	}
	cmd, ok := commands()[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: bench accept|tasks|idle|start|latency|memory|scale|cluster|all [flags]; -h after a name lists its flags")
		return 2
	}
	if err := cmd(ctx, args); err != nil {
		fmt.Fprintf(os.Stderr, "bench %s: %v\n", name, err)
		return 1
	}
	return 0
}
