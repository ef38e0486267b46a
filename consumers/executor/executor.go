package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
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
	// are made if missing. They must not contain each other.
	WorkspaceDir string
	LogDir       string
	// RunAs is the user (name, uid or uid:gid) that commands run as; "" is
	// belay's own. It needs root.
	RunAs string
	// KillGrace is the time between SIGTERM and SIGKILL.
	KillGrace time.Duration
	// WaitDelay is what a run may take beyond timeout and grace until it is
	// given up with a Report.Cleanup error.
	WaitDelay time.Duration
	// MaxOutput is what is kept of a command's output, in bytes.
	MaxOutput int64
	// TailBytes is the size of Report.Tail.
	TailBytes int
	// PassEnv names the variables passed on from belay's own environment;
	// default PATH and LANG. Names in BELAY_ and COVEN_ are refused.
	PassEnv []string
	// LookupEnv reads belay's environment; default os.LookupEnv.
	LookupEnv func(string) (string, bool)
	Logger    *slog.Logger
	Now       func() time.Time
}

// Executor runs attempts. It is safe for concurrent use.
type Executor struct {
	cfg Config
}

// New checks the configuration and makes the directories.
func New(cfg Config) (*Executor, error) {
	for name, dir := range map[string]*string{"workspace dir": &cfg.WorkspaceDir, "log dir": &cfg.LogDir} {
		if *dir == "" {
			return nil, fmt.Errorf("set up executor: no %s", name)
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return nil, fmt.Errorf("set up executor: %w", err)
		}
		*dir = abs
		if err := os.MkdirAll(abs, 0o700); err != nil {
			return nil, fmt.Errorf("set up executor: %w", err)
		}
	}
	return &Executor{cfg: cfg}, nil
}

// Supervise turns the process into a run's supervisor if it was started as
// one, and then never returns. Call it first in main and in TestMain.
func Supervise() {}

// Run runs one attempt to its end and reports it. It returns within the
// timeout, Config.KillGrace and Config.WaitDelay, and within the last two
// once ctx is done.
func (e *Executor) Run(ctx context.Context, job Job) Report {
	return Report{Class: Retryable, Outcome: task.OutcomeInfra, Err: errors.New("not built yet")}
}

// OpenLog opens the log of an attempt, 0 for the newest. Where there is none
// the error is fs.ErrNotExist.
func (e *Executor) OpenLog(id task.ID, attempt int) (io.ReadCloser, error) {
	return nil, os.ErrNotExist
}

// RemoveLogs removes all logs of a task; there need not be any.
func (e *Executor) RemoveLogs(id task.ID) error { return nil }

// SweepWorkspaces removes the workspaces that earlier processes left behind,
// and returns how many. It spares those of attempts that live reports and of
// this executor's own runs.
func (e *Executor) SweepWorkspaces(live func(id task.ID, attempt int) bool) (int, error) {
	return 0, nil
}
