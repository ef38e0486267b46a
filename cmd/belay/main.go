// Command belay turns every GitHub webhook into exactly one durable task, runs
// it and shows the outcome. `belay help` lists its subcommands.
//
// Exit codes: 0 all well, 1 it did not work, 2 the command line or the
// configuration is wrong. `belay doctor` says what its own mean.
package main

import (
	"os"

	"github.com/belay-run/belay/consumers/executor"
)

func main() {
	executor.Supervise()
	os.Exit(run())
}
