package doctor

import (
	"context"
	"slices"
	"time"
)

// Facet says where a check makes sense.
type Facet uint8

// The facets.
const (
	// Offline checks look at the configuration and this machine only.
	Offline Facet = 1 << iota
	// Online checks ask the NATS server or GitHub.
	Online
	// Running checks are made by a process that serves, again and again.
	Serving
)

// checkTimeout bounds each check of a running process.
const checkTimeout = 10 * time.Second

// checkup is one of the checks.
type checkup struct {
	name  string
	facet Facet
	run   func(d *doctor, ctx context.Context)
}

// local makes a check of one that asks nobody.
func local(f func(d *doctor)) func(*doctor, context.Context) {
	return func(d *doctor, _ context.Context) { f(d) }
}

// checks are all there are, in the order of the configuration's sections.
var checks = []checkup{
	{"config", Offline, local((*doctor).problems)},
	{"admin_listen", Offline, local((*doctor).server)},
	{"storage", Offline | Serving, local((*doctor).storage)},
	{"disk", Offline | Serving, local((*doctor).disk)},
	{"nats_config", Offline | Serving, local((*doctor).nats)},
	{"github", Offline, local((*doctor).github)},
	{"worker", Offline, local((*doctor).worker)},
	{"api", Offline, local((*doctor).api)},
	{"familiars", Offline, local((*doctor).familiars)},
	{"callbacks", Offline, local((*doctor).callbacks)},
	{"operator", Offline, local((*doctor).operator)},
	{"nats", Online | Serving, (*doctor).reach},
	{"nats_version", Online | Serving, local((*doctor).serverVersion)},
	{"sync_interval", Online | Serving, local((*doctor).syncInterval)},
	{"replicas", Online | Serving, local((*doctor).replicas)},
	{"streams", Online | Serving, local((*doctor).streams)},
	{"consumers", Online | Serving, local((*doctor).consumers)},
	{"store_full", Online | Serving, local((*doctor).storeFull)},
	{"remapped", Online | Serving, local((*doctor).remapped)},
	{"app", Online, (*doctor).app},
	{"progress", Serving, local((*doctor).progress)},
	{"outbox", Serving, local((*doctor).outbox)},
	{"pause", Serving, local((*doctor).pause)},
	{"records", Serving, local((*doctor).records)},
	{"app_login", Serving, local((*doctor).appLogin)},
}

// RunningChecks are the names of the checks that a running process makes: a
// closed list for metrics.
func RunningChecks() []string {
	var out []string
	for _, c := range checks {
		if c.facet&Serving != 0 {
			out = append(out, c.name)
		}
	}
	return out
}

// Watch makes the checks that a running process makes of itself. Probe and
// Running must be set.
func Watch(ctx context.Context, o Options) Findings { return run(ctx, o, Serving) }

func run(ctx context.Context, o Options, facet Facet) Findings {
	o.complete()
	d := &doctor{Options: o, c: o.Config}
	for _, c := range checks {
		if c.facet&facet == 0 {
			continue
		}
		d.check = c.name
		cctx, cancel := context.WithTimeout(ctx, checkTimeout)
		c.run(d, cctx)
		cancel()
	}
	return slices.Clip(d.found)
}
