package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	// on a line; Missing, of those, the ones that are not there.
	Drift, Missing []string
	// Lost are streams that the server found damaged, with what it lost (J27).
	Lost []string
	// Replicas are how many copies each stream has.
	Replicas map[string]int
	// Sync is the sync_interval of a server whose monitoring was asked, ""
	// where it was not; SyncError is why it did not answer.
	Sync      string
	SyncError error
	// UsedPercent is how full the store is, 0 where it has no limit.
	UsedPercent int
	// Remapped are requests that the configuration's tenants would strand.
	Remapped []Remap
}

// fullPercent is how full a store may be without a warning.
const fullPercent = 80

// natsField is the key that names the NATS server.
func (d *doctor) natsField() string {
	if d.c.Embedded() {
		return "nats.config"
	}
	return "nats.url"
}

// reach asks the running server; the checks after it look at the answer.
func (d *doctor) reach(ctx context.Context) {
	d.answer = &Server{Version: MinNATSServer}
	if d.Probe == nil {
		return
	}
	s, err := d.Probe.Inspect(ctx)
	if err != nil {
		next := "start it, and check url and credentials under [nats]"
		if d.c.Embedded() {
			next = "start `belay serve`: the embedded server runs within it"
		}
		d.warn(d.natsField(), fmt.Sprintf("the NATS server does not answer: %v", err), next)
		return
	}
	d.answer = &s
}

func (d *doctor) serverVersion() {
	if v := d.answer.Version; older(v, MinNATSServer) {
		d.warn(d.natsField(), fmt.Sprintf("nats-server %s is older than %s", v, MinNATSServer), "upgrade it")
	}
}

// syncInterval is that of an external server (J01).
func (d *doctor) syncInterval() {
	const next = "set sync_interval: always in the jetstream block of each server's configuration"
	switch s := d.answer; {
	case d.c.Embedded() || d.Probe == nil:
	case s.SyncError != nil:
		d.warn("nats.monitoring_url", fmt.Sprintf("sync_interval is not known: %v", s.SyncError), "write the address of the server's http port")
	case s.Sync == "":
		d.warn("nats.url", "sync_interval is not known, and by default a power cut loses two minutes", next+", and write its http port as monitoring_url")
	case s.Sync != "always":
		d.warn("nats.url", fmt.Sprintf("sync_interval is %s: a power cut loses what was acknowledged since", s.Sync), next)
	}
}

// replicas are those that the streams have, whatever the configuration says.
func (d *doctor) replicas() {
	if d.c.Embedded() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(d.answer.Replicas)) {
		switch n := d.answer.Replicas[name]; {
		case n == 1:
			d.warn("nats.replicas", "stream "+name+" is held by one server only: its loss loses it", "set replicas = 3 on a cluster of three or more")
		case n%2 == 0:
			d.warn("nats.replicas", fmt.Sprintf("stream %s has %d replicas, which outlive no more servers than %d", name, n, n-1), "set an odd number")
		}
	}
}

func (d *doctor) streams() {
	for _, line := range d.answer.Drift {
		d.warn("streams", line, "start `belay serve`, which applies streams.json, and see its log for what the server refused")
	}
	for _, line := range d.answer.Lost {
		d.fail("streams", line, "stop belay, move the store away, and `belay restore` the last backup")
	}
}

// consumers are the durables that are gone.
func (d *doctor) consumers() {
	for _, name := range d.answer.Missing {
		d.warn("streams", name+" is not there", "it is made again by a running belay; see its log for who removed it")
	}
}

func (d *doctor) storeFull() {
	if n := d.answer.UsedPercent; n > fullPercent {
		d.warn("storage.dir", fmt.Sprintf("the store is %d%% full", n), "free some space, or shorten the retention under [storage]")
	}
}

func (d *doctor) remapped() { d.remaps(d.answer.Remapped) }

// disk is that of the data folder (J16).
func (d *doctor) disk() {
	if n := d.Full(existing(d.c.Storage.Dir)); d.c.Embedded() && n > fullPercent {
		d.warn("storage.dir", fmt.Sprintf("the disk of %s is %d%% full: without room no webhook is accepted", d.c.Storage.Dir, n),
			"free some space, or move the folder to a larger disk")
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
