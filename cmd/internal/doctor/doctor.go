package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
)

// Options are what is checked, and how this machine is asked. Config must be
// set; functions that are nil ask the real one.
type Options struct {
	// Config is what was loaded, as far as it was understood.
	Config *config.Config
	// Problems are those that config.Load reported.
	Problems []config.Problem
	// Probe asks the NATS server; nil: the network is not touched.
	Probe Probe
	// Running is what a process says of itself; nil outside of one.
	Running *Running
	// App asks GitHub; nil: there is no App, or the network is not touched.
	App App
	// Apps are those of the further sources, by their names.
	Apps map[string]App

	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// LookPath finds a program.
	LookPath func(name string) (string, error)
	// Filesystem names the kind of filesystem that a folder is on, such as
	// "tmpfs"; "" where it cannot be told.
	Filesystem func(dir string) string
	// Full tells how full the disk of a folder is, in percent; 0 where it cannot
	// be told.
	Full func(dir string) int
	// LookupUser finds a user by name.
	LookupUser func(name string) error
	// UID is the user that belay runs as.
	UID func() int
}

// Check looks at everything and returns what it found.
func Check(ctx context.Context, o Options) Findings {
	facet := Offline
	if o.Probe != nil || o.App != nil || len(o.Apps) > 0 {
		facet |= Online
	}
	return run(ctx, o, facet)
}

func (o *Options) complete() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LookPath == nil {
		o.LookPath = exec.LookPath
	}
	if o.Filesystem == nil {
		o.Filesystem = filesystem
	}
	if o.Full == nil {
		o.Full = full
	}
	if o.LookupUser == nil {
		o.LookupUser = func(name string) error {
			_, err := user.Lookup(name)
			return err
		}
	}
	if o.UID == nil {
		o.UID = os.Geteuid
	}
}

// doctor is one run of Check.
type doctor struct {
	Options
	c     *config.Config
	check string // the one that runs
	found Findings
	// answer is what the NATS server said, nil if it did not.
	answer *Server
}

func (d *doctor) fail(field, message, next string) {
	d.found = append(d.found, Finding{d.check, field, Error, message, next})
}

func (d *doctor) warn(field, message, next string) {
	d.found = append(d.found, Finding{d.check, field, Warning, message, next})
}

// problems are the rules that the configuration breaks.
func (d *doctor) problems() {
	for _, p := range d.Problems {
		message := p.Message
		if p.Value != "" {
			message = p.Value + " " + message
		}
		switch {
		case p.Env != "":
			message = "$" + p.Env + ": " + message
		case p.Line > 0:
			message = fmt.Sprintf("line %d: %s", p.Line, message)
		}
		d.fail(p.Key, message, p.Next)
	}
}

func (d *doctor) server() {
	if s := d.c.Server; !config.Loopback(s.AdminListen) {
		d.warn("server.admin_listen", "metrics and health can be read by who reaches "+s.AdminListen+": they ask for no token",
			"listen on 127.0.0.1, or let only Prometheus reach it")
	}
}

func (d *doctor) api() {
	a, open := d.c.API, d.c.API.Mode == config.ModeOpen
	switch {
	case open && !config.Loopback(d.c.Server.Listen) && d.c.Server.AllowPublic:
		d.warn("api.mode", "the API is open to everybody who reaches "+d.c.Server.Listen, `set mode = "token" and a service_token under [api]`)
	case open:
		d.warn("api.mode", "every process and user of this host can read the API and retry tasks", `set mode = "token" and a service_token under [api]`)
	}
	if open && a.ServiceToken != "" {
		d.warn("api.service_token", "nothing asks for it in open mode", `set mode = "token" under [api]`)
	}
	if n := len(a.ServiceToken); n > 0 && n < minSecret {
		d.warn("api.service_token", "it is shorter than 16 characters", nextSecret)
	}
	if a.ServiceTokenFile != "" {
		d.private("api.service_token_file", a.ServiceTokenFile)
	}
	for i, t := range a.Tenants {
		d.tenant(fmt.Sprintf("api.tenants[%d]", i), t)
	}
}

func (d *doctor) tenant(key string, t config.Tenant) {
	if t.TokenFile != "" {
		d.private(key+".token_file", t.TokenFile)
	}
	if _, listed := d.c.InstallationByID(t.InstallationID); !listed && len(d.c.Installations) > 0 {
		d.warn(key+".installation_id", fmt.Sprintf("installation %d is not listed, so nothing makes tasks for this tenant", t.InstallationID),
			fmt.Sprintf("add [[installations]] with id = %d, or remove the tenant", t.InstallationID))
	}
}
