package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// linked is the version that the linker sets: -ldflags "-X main.linked=v1.2.3".
var linked = ""

// versions is what `belay version` shows.
type versions struct {
	Belay      string `json:"belay"`
	Commit     string `json:"commit,omitempty"`
	Go         string `json:"go"`
	NATSServer string `json:"natsServer"`
	NATSClient string `json:"natsClient"`
}

// readVersions asks the binary what it was built from.
func readVersions() versions {
	v := versions{Belay: version(), Go: runtime.Version(), NATSServer: "unknown", NATSClient: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if v.Commit != "" {
		v.Commit += dirty
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/nats-io/nats-server/v2":
			v.NATSServer = m.Version
		case "github.com/nats-io/nats.go":
			v.NATSClient = m.Version
		}
	}
	return v
}

// version is the linker's version, else the module's, else "devel".
func version() string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// versionCommand is `belay version`.
func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of belay and of what is in it",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := readVersions()
			if c.output == outputJSON {
				return printJSON(c.out, v)
			}
			commit := ""
			if v.Commit != "" {
				commit = " (" + v.Commit + ")"
			}
			_, err := fmt.Fprintf(c.out, "belay %s%s, %s, nats-server %s, nats.go %s\n", v.Belay, commit, v.Go, v.NATSServer, v.NATSClient)
			return err
		},
	}
}
