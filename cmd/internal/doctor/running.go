package doctor

import (
	"fmt"
	"strings"
	"time"
)

// pendingFor is how long a reply may wait before it is a finding.
const pendingFor = 5 * time.Minute

// Running is what a process says of itself.
type Running struct {
	// Stalled are the conditions that keep it from being ready, each with what
	// to do (Q15 among them: the age of the last pull).
	Stalled []Stall
	// OldestPending is how long the oldest reply has waited, and Unknown how
	// many have an outcome that nobody knows (O10).
	OldestPending time.Duration
	Unknown       int
	// Disabled are channels whose recipient wants nothing more, with the reason.
	Disabled []string
	// PauseError is why control.pause cannot be read; it counts as paused (Q27).
	PauseError error
	// Unreadable counts records that this belay cannot read.
	Unreadable int
	// LoginUnknown is set when there is an App whose login GitHub has not said.
	LoginUnknown bool
}

// Stall is something that stops work.
type Stall struct{ Name, Message, Next string }

func (d *doctor) progress() {
	for _, s := range d.Running.Stalled {
		d.fail(s.Name, s.Message, s.Next)
	}
}

func (d *doctor) outbox() {
	r := d.Running
	if r.OldestPending > pendingFor {
		d.warn("outbox", fmt.Sprintf("a reply has waited for %s", r.OldestPending.Round(time.Second)), "look at `belay outbox ls --status pending`, and whether its recipient answers")
	}
	if r.Unknown > 0 {
		d.warn("outbox", fmt.Sprintf("nobody knows of %d replies whether they arrived", r.Unknown), "look at `belay outbox ls --unknown`, and settle each with `belay outbox resolve`")
	}
	if len(r.Disabled) > 0 {
		d.warn("callbacks", "recipients want nothing more: "+strings.Join(r.Disabled, "; "), "correct their url under [[callbacks]], or remove them; then restart")
	}
}

func (d *doctor) pause() {
	if err := d.Running.PauseError; err != nil {
		d.warn("control.pause", fmt.Sprintf("it cannot be read, so nothing runs: %v", err), "look at `nats kv get STATE control.pause`, then `belay resume`")
	}
}

func (d *doctor) records() {
	if n := d.Running.Unreadable; n > 0 {
		d.warn("storage.dir", fmt.Sprintf("%d records cannot be read and are left alone", n), "look at the log for class poisoned; start the belay that wrote them, or restore a backup")
	}
}

func (d *doctor) appLogin() {
	if d.Running.LoginUnknown {
		d.warn("github.app_id", "GitHub has not said the App's login yet: its own events are not known as such", "look at the log for class app; check that this host reaches api_url")
	}
}
