package consumers

import (
	"context"
	"errors"
	"time"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/task"
)

// Surfaces are GitHub as the worker needs it. Their errors are githubapp's, or
// ErrNoApp for a task that no App reaches, which runs without surfaces.
type Surfaces interface {
	// CanWrite reports whether the task's commander may command.
	CanWrite(ctx context.Context, t task.Record) (bool, error)
	// Begin opens what shows the task, by the holder of its attempt.
	Begin(ctx context.Context, t task.Record, g Grip) (Stage, error)
	// Reply answers a command where it was given.
	Reply(ctx context.Context, t task.Record, text string) error
	// Parked says until when GitHub takes nothing of an installation, and
	// why; zero if it does.
	Parked(installation int64) (until time.Time, reason string)
}

// Grip is what surfaces ask of the attempt that they show.
type Grip struct {
	// Pin notes in the record that the task shows something, at the head; it
	// comes before the first effect, and an error of it forbids that.
	Pin func(ctx context.Context, head string) error
	// Holds reports whether the thread's comment is the task's to write.
	Holds func(ctx context.Context) (bool, error)
}

// Stage is what shows one attempt.
type Stage interface {
	// Equip gives the run what it needs of GitHub: its token, where to get
	// the next one, and what a review is about.
	Equip(ctx context.Context, job *executor.Job) error
	// CheckRunURL is where the attempt's check run is, "" if it has none.
	CheckRunURL() string
	// Publish shows what the run ended with; it may be repeated.
	Publish(ctx context.Context, rep executor.Report) (githubapp.Published, error)
}

// ErrNoApp means that no GitHub App reaches the task: its source has none, or
// it came by a repository's hook.
var ErrNoApp = errors.New("no GitHub App reaches the task")
