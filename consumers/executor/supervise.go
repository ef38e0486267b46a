package executor

import (
	"syscall"
	"time"
)

// order is what a supervisor has to do.
type order struct {
	Path  string        `json:"path"`
	Argv  []string      `json:"argv"`
	Env   []string      `json:"env"`
	Dir   string        `json:"dir"`
	Cred  *credential   `json:"cred,omitempty"`
	Grace time.Duration `json:"grace"` // SIGTERM to SIGKILL
	Delay time.Duration `json:"delay"` // for killing what is left
	// Silence is after how long without a word belay counts as gone; 0 is never.
	Silence time.Duration `json:"silence"`
	Mark    string        `json:"-"` // an entry of Env no other run has
}

// notice is what a supervisor says: once after the start, once at the end.
type notice struct {
	Started int     `json:"started,omitempty"` // process id of the command
	Error   string  `json:"error,omitempty"`   // the command did not start
	Ending  *ending `json:"ending,omitempty"`
}

// ending is how a command ended; all its descendants but Left are gone.
type ending struct {
	Code   int           `json:"code"`
	Signal string        `json:"signal,omitempty"`
	Left   int           `json:"left,omitempty"` // processes that would not die
	Lost   string        `json:"lost,omitempty"` // why the ending is not known
	User   time.Duration `json:"user"`
	System time.Duration `json:"system"`
	MaxRSS int64         `json:"max_rss"`
}

// process is a command under supervision.
type process struct {
	notices <-chan notice // ends with an ending, an error or by being closed
	stop    func()        // asks to end the command: SIGTERM, grace, SIGKILL
	kill    func()        // ends a supervision that does not answer
	release func()        // frees what belongs to it; what still runs is killed
}

// credential is the user a command runs as.
type credential struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
}

func (c *credential) sys() *syscall.Credential {
	if c == nil {
		return nil
	}
	return &syscall.Credential{Uid: c.UID, Gid: c.GID, Groups: c.Groups}
}
