package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// MinNATSServer is the oldest nats-server on which belay's promises were
// checked: 2.15.2 does not wake waiting pulls after a pause.
const MinNATSServer = "2.15.3"

// Probe asks the NATS server that the configuration names.
type Probe interface {
	Inspect(ctx context.Context) (Server, error)
}

// Server is what a running NATS server says of itself.
type Server struct {
	// Version is such as "2.15.3".
	Version string
	// Drift are the streams and consumers that differ from streams.json, each
	// on a line.
	Drift []string
	// UsedPercent is how full the store is, 0 where it has no limit.
	UsedPercent int
	// Remapped are requests that the configuration's tenants would strand.
	Remapped []Remap
}

// fullPercent is how full a store may be without a warning.
const fullPercent = 80

// online checks the running server.
func (d *doctor) online(ctx context.Context) {
	field := "nats.url"
	if d.c.Embedded() {
		field = "nats.config"
	}
	s, err := d.Probe.Inspect(ctx)
	if err != nil {
		next := "start it, and check url and credentials under [nats]"
		if d.c.Embedded() {
			next = "start `belay serve`: the embedded server runs within it"
		}
		d.warn(field, fmt.Sprintf("the NATS server does not answer: %v", err), next)
		return
	}
	if older(s.Version, MinNATSServer) {
		d.warn(field, fmt.Sprintf("nats-server %s is older than %s", s.Version, MinNATSServer), "upgrade it")
	}
	for _, line := range s.Drift {
		d.warn("streams", line, "start `belay serve`, which applies streams.json, and see its log for what the server refused")
	}
	d.remaps(s.Remapped)
	if s.UsedPercent > fullPercent {
		d.warn("storage.dir", fmt.Sprintf("the store is %d%% full", s.UsedPercent), "free some space, or shorten the retention under [storage]")
	}
}

// older reports whether version a comes before b. What is no version is taken
// for older.
func older(a, b string) bool {
	x, okX := numbers(a)
	y, okY := numbers(b)
	if !okX || !okY {
		return true
	}
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	// A pre-release of the same number comes before it.
	return strings.Contains(a, "-") && !strings.Contains(b, "-")
}

func numbers(version string) (out [3]int, ok bool) {
	core, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	parts := strings.Split(core, ".")
	if len(parts) != len(out) {
		return out, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return out, false
		}
		out[i] = n
	}
	return out, true
}
