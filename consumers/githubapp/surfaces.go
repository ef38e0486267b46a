package githubapp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"

	"github.com/belay-run/belay/kv/task"
)

// SurfacesOptions are what Surfaces are made of; Client is needed.
type SurfacesOptions struct {
	Client *Client
	// Name is a familiar's display name; nil shows its id.
	Name func(familiar string) string
	// DetailsURL is where a task is shown outside of GitHub; nil is nowhere.
	DetailsURL func(task.ID) string
	// Holds reports whether the task still holds its supersede key: only
	// then it may edit the comment. It is asked right before; nil is always.
	Holds func(ctx context.Context, t task.Record) (bool, error)
	// Pin notes in the task's record, before the first effect, that the task
	// shows something and at which head: whoever ends it closes that, and a
	// later attempt looks for the check run there. Its error ends Begin; nil
	// does nothing.
	Pin func(ctx context.Context, t task.Record, head string) error
}

// Surfaces show on GitHub what becomes of tasks.
type Surfaces struct{ o SurfacesOptions }

// NewSurfaces makes Surfaces.
func NewSurfaces(o SurfacesOptions) (*Surfaces, error) {
	if o.Client == nil {
		return nil, errors.New("make surfaces: there is no client")
	}
	if o.Name == nil {
		o.Name = func(familiar string) string { return familiar }
	}
	if o.DetailsURL == nil {
		o.DetailsURL = func(task.ID) string { return "" }
	}
	if o.Holds == nil {
		o.Holds = func(context.Context, task.Record) (bool, error) { return true, nil }
	}
	if o.Pin == nil {
		o.Pin = func(context.Context, task.Record, string) error { return nil }
	}
	return &Surfaces{o}, nil
}

// StaleError means that the head which a review is about is no longer the
// pull request's: there is nothing to run.
type StaleError struct {
	Head string // the task's
	Live string // the pull request's now
	// Closed means that the pull request is not open any more.
	Closed bool
}

// Error names both.
func (e *StaleError) Error() string {
	return fmt.Sprintf("the head moved from %.12s to %.12s", e.Head, e.Live)
}

// CheckName is the name of a familiar's check runs.
func CheckName(familiar string) string { return "belay/" + familiar }

// checkName is that of a task's check run. Rules have names of their own: the
// results of two on one commit stand side by side.
func checkName(t *task.Record) string {
	name := CheckName(t.FamiliarID)
	if t.Kind.Name == task.Custom {
		name += "/" + t.Kind.Custom.Name
	}
	return name
}

// hasCheck reports whether a task runs something that can be checked, and
// where. A custom task is checked at the commit that its event names.
func hasCheck(t *task.Record) bool {
	switch t.Kind.Name {
	case task.CommandReply, task.CancelReviews:
		return false
	case task.Custom:
		return commitOf(t) != ""
	}
	return true
}

// commitOf is the commit that a custom task is about, "" if its event names none.
func commitOf(t *task.Record) string {
	return cmp.Or(t.HeadSHA, t.Kind.Custom.SHA, t.Kind.Custom.After)
}

func (s *Surfaces) card(t *task.Record, phase Phase) Card {
	return Card{Familiar: s.o.Name(t.FamiliarID), Task: t.ID, Title: t.Title, Head: t.HeadSHA, Phase: phase, CheckURL: t.CheckRunURL}
}

func threadOf(repo Repo, t *task.Record) Thread {
	return Thread{Repo: repo, Number: t.Number, Familiar: t.FamiliarID}
}

// Begin opens the surfaces of a task whose commander may command: its check
// run, in progress, and its comment. A custom task without a commit has no
// check run, one without an issue or pull request no comment. A review of a head that has moved is
// StaleError; what an earlier attempt opened for it is closed as stale.
func (s *Surfaces) Begin(ctx context.Context, t task.Record) (*Session, error) {
	repo, err := RepoOf(&t)
	if err != nil {
		return nil, err
	}
	if !hasCheck(&t) && t.Number == 0 {
		return &Session{s: s, Task: t, Repo: repo}, nil // there is nowhere to show it
	}
	head, err := s.head(ctx, repo, &t)
	var moved *StaleError
	if errors.As(err, &moved) {
		card := s.card(&t, Stale)
		card.Why = moved.Error()
		return nil, errors.Join(err, s.close(ctx, repo, t, card))
	}
	if err != nil {
		return nil, fmt.Errorf("find the head of task %s: %w", t.ID, err)
	}
	if err := s.o.Pin(ctx, t, head); err != nil {
		return nil, fmt.Errorf("keep the head of task %s: %w", t.ID, err)
	}
	t.HeadSHA = head
	n := &Session{s: s, Task: t, Repo: repo, Head: head}
	if hasCheck(&n.Task) {
		if err := n.openCheck(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := n.say(ctx, s.card(&n.Task, Working)); err != nil {
		return nil, err
	}
	return n, nil
}

// head is the commit that a task is about: the one in its record, else the
// live one. A review whose two differ is stale.
func (s *Surfaces) head(ctx context.Context, repo Repo, t *task.Record) (string, error) {
	switch t.Kind.Name {
	case task.ReviewPullRequest, task.AddressReviewComment:
		pull, err := s.o.Client.Head(ctx, repo, t.Kind.PRNumber)
		if err != nil {
			return "", err
		}
		if t.HeadSHA == "" {
			return pull.HeadSHA, nil
		}
		if t.Kind.Name == task.ReviewPullRequest && t.HeadSHA != pull.HeadSHA {
			return "", &StaleError{Head: t.HeadSHA, Live: pull.HeadSHA, Closed: pull.State == closedPull}
		}
		return t.HeadSHA, nil
	case task.Custom:
		return commitOf(t), nil
	}
	if t.HeadSHA != "" {
		return t.HeadSHA, nil
	}
	return s.o.Client.BranchHead(ctx, repo, t.DefaultBranch)
}

// findCheck is the task's check run, nil if it has none yet: the one in its
// record, else the one that its id finds at its head.
func (s *Surfaces) findCheck(ctx context.Context, repo Repo, t *task.Record) (*CheckRun, error) {
	if run, err := s.knownCheck(ctx, repo, t); run != nil || err != nil {
		return run, err
	}
	if t.HeadSHA == "" {
		return nil, nil
	}
	run, err := s.o.Client.FindCheckRun(ctx, repo, t.HeadSHA, string(t.ID))
	if noCommit(err) {
		return nil, nil
	}
	return run, err
}

// knownCheck is the check run whose address the task's record has.
func (s *Surfaces) knownCheck(ctx context.Context, repo Repo, t *task.Record) (*CheckRun, error) {
	id, err := strconv.ParseInt(path.Base(t.CheckRunURL), 10, 64)
	if err != nil {
		return nil, nil
	}
	run, err := s.o.Client.CheckRun(ctx, repo, id)
	if errors.Is(err, ErrNotFound) || err == nil && run.ExternalID != string(t.ID) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &run, nil
}

// noCommit reports that GitHub does not know the commit: no check run is there.
func noCommit(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == ErrTransient && e.Status == http.StatusUnprocessableEntity
}

// Reply answers a command below what the comment says: command_reply, the
// count of cancel_reviews, or that a commander was declined. text is belay's
// own Markdown.
func (s *Surfaces) Reply(ctx context.Context, t task.Record, text string) (Comment, error) {
	repo, err := RepoOf(&t)
	if err != nil {
		return Comment{}, err
	}
	if t.Number == 0 {
		return Comment{}, fmt.Errorf("reply to task %s: it has no issue or pull request", t.ID)
	}
	return s.o.Client.putComment(ctx, threadOf(repo, &t), func(old string) string { return withReply(old, text) }, true)
}
