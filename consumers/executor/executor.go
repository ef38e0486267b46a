package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/belay-run/belay/kv/task"
)

// Defaults of Config.
const (
	DefaultKillGrace = 5 * time.Second
	DefaultWaitDelay = 2 * time.Second
	DefaultMaxOutput = 8 << 20
	DefaultTailBytes = 4096
)

// Config says where and as whom commands run. Zero values mean the defaults.
type Config struct {
	// WorkspaceDir holds a folder an attempt; LogDir a file an attempt. Both
	// are made if missing, and neither may contain the other.
	WorkspaceDir string
	LogDir       string
	// RunAs is the user (name, uid or uid:gid) that commands run as; "" is
	// belay's own. It needs root, and a WorkspaceDir which that user can
	// reach, so one outside of belay's data.
	RunAs string
	// KillGrace is the time between SIGTERM and SIGKILL.
	KillGrace time.Duration
	// WaitDelay bounds the waiting for processes that do not die and for
	// output that does not end.
	WaitDelay time.Duration
	// Silence is after how long without a sign of this process, frozen or
	// stuck, its commands are killed; 0 is never.
	Silence time.Duration
	// MaxOutput is what a log keeps of a command's output, in bytes.
	MaxOutput int64
	// TailBytes is the size of Report.Tail.
	TailBytes int
	// PassEnv names the variables passed on from belay's own environment;
	// default PATH and LANG. HOME is passed on unless RunAs is set. Belay's
	// own variables are refused.
	PassEnv []string
	// LookupEnv reads belay's environment; default os.LookupEnv.
	LookupEnv func(string) (string, bool)
	Logger    *slog.Logger     // default: none
	Now       func() time.Time // default: time.Now
}

// Executor runs attempts. It is safe for concurrent use.
type Executor struct {
	cfg   Config
	runAs runAs

	mu     sync.Mutex
	active map[run]bool
}

// run names a run in progress.
type run struct {
	id      task.ID
	attempt int
}

// New checks the configuration and makes the directories.
func New(cfg Config) (*Executor, error) {
	cfg.defaults()
	user, err := findRunAs(cfg.RunAs)
	if err != nil {
		return nil, fmt.Errorf("set up executor: %w", err)
	}
	for _, name := range cfg.PassEnv {
		if reserved(name) || name == "" || strings.ContainsAny(name, "=\x00") {
			return nil, fmt.Errorf("set up executor: variable %q may not be passed on", name)
		}
	}
	e := &Executor{cfg: cfg, runAs: user, active: map[run]bool{}}
	if err := e.makeDirs(); err != nil {
		return nil, fmt.Errorf("set up executor: %w", err)
	}
	return e, nil
}

func (c *Config) defaults() {
	if c.KillGrace <= 0 {
		c.KillGrace = DefaultKillGrace
	}
	if c.WaitDelay <= 0 {
		c.WaitDelay = DefaultWaitDelay
	}
	if c.MaxOutput <= 0 {
		c.MaxOutput = DefaultMaxOutput
	}
	if c.TailBytes <= 0 {
		c.TailBytes = DefaultTailBytes
	}
	if c.PassEnv == nil {
		c.PassEnv = []string{"PATH", "LANG"}
	}
	if c.LookupEnv == nil {
		c.LookupEnv = os.LookupEnv
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

func (e *Executor) makeDirs() error {
	if e.cfg.WorkspaceDir == "" || e.cfg.LogDir == "" {
		return errors.New("workspace and log directory must be set")
	}
	mode := os.FileMode(0o700)
	if e.runAs.cred != nil {
		mode = 0o711 // the run's user passes through to its own folder
	}
	for _, d := range []struct {
		path *string
		mode os.FileMode
	}{{&e.cfg.LogDir, 0o700}, {&e.cfg.WorkspaceDir, mode}} {
		abs, err := filepath.Abs(*d.path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(abs, d.mode); err != nil {
			return err
		}
		if err := os.Chmod(abs, d.mode); err != nil {
			return err
		}
		*d.path = abs
	}
	if within(e.cfg.LogDir, e.cfg.WorkspaceDir) || within(e.cfg.WorkspaceDir, e.cfg.LogDir) {
		return fmt.Errorf("log directory %s and workspace directory %s overlap", e.cfg.LogDir, e.cfg.WorkspaceDir)
	}
	if e.runAs.cred != nil {
		if err := e.runAs.reach(e.cfg.WorkspaceDir); err != nil {
			return fmt.Errorf("workspace directory %s: %w", e.cfg.WorkspaceDir, err)
		}
	}
	return nil
}

func within(dir, parent string) bool {
	rel, err := filepath.Rel(parent, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// enter claims a run's folder within this process.
func (e *Executor) enter(id task.ID, attempt int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := run{id, attempt}
	if e.active[r] {
		return false
	}
	e.active[r] = true
	return true
}

func (e *Executor) leave(id task.ID, attempt int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.active, run{id, attempt})
}
