package githubapp

import (
	"context"
	"errors"
	"fmt"

	"github.com/belay-run/belay/kv/task"
)

// Session are the surfaces of one attempt. The holder of the attempt alone
// uses it, from one goroutine.
type Session struct {
	s *Surfaces
	// Task is the record as Begin got it, with the head it found.
	Task task.Record
	Repo Repo
	// Head is the commit that the check run is at.
	Head string
	// Check is the check run; its ID is 0 for kinds without one.
	Check CheckRun
}

// Published is where an outcome is to be seen.
type Published struct {
	CheckRunURL string
	CommentURL  string
	PRNumber    int
	PRURL       string
	// Stale means that the head moved to Live before or while the review was
	// published: it counts for nothing, whatever it says.
	Stale bool
	Live  string
	// Closed means, with Stale, that the pull request is not open any more.
	Closed bool
}

// openCheck finds or makes the check run and sets it in progress.
func (n *Session) openCheck(ctx context.Context) error {
	c, name := n.s.o.Client, checkName(&n.Task)
	run, err := n.s.knownCheck(ctx, n.Repo, &n.Task)
	if err == nil && run == nil {
		var made CheckRun
		made, err = c.EnsureCheckRun(ctx, n.Repo, CheckSpec{
			Head: n.Head, ExternalID: string(n.Task.ID), Name: name, DetailsURL: n.s.o.DetailsURL(n.Task.ID),
		})
		run = &made
	}
	if err != nil {
		return fmt.Errorf("open the check run of task %s: %w", n.Task.ID, err)
	}
	n.Check, n.Task.CheckRunURL = *run, run.URL
	card := n.s.card(&n.Task, Working)
	if n.Check, err = c.UpdateCheckRun(ctx, n.Repo, *run, name, card.Check()); err != nil {
		return fmt.Errorf("start the check run of task %s: %w", n.Task.ID, err)
	}
	return nil
}

// errAsk means that nobody says whether the task may show anything.
var errAsk = errors.New("ask who holds the comment")

// say makes the comment show the card, if the task still holds its key.
func (n *Session) say(ctx context.Context, card Card) (Comment, error) {
	if n.Task.Number == 0 {
		return Comment{}, nil
	}
	holds, err := n.s.o.Holds(ctx, n.Task)
	if err != nil {
		return Comment{}, fmt.Errorf("%w of task %s: %w", errAsk, n.Task.ID, err)
	}
	if !holds {
		return Comment{}, nil
	}
	k, err := n.s.o.Client.EnsureComment(ctx, threadOf(n.Repo, &n.Task), card.Comment())
	if err != nil {
		return k, fmt.Errorf("write the comment of task %s: %w", n.Task.ID, err)
	}
	return k, nil
}

// conclude closes the check run as the card says.
func (n *Session) conclude(ctx context.Context, card Card) error {
	if n.Check.ID == 0 {
		return nil
	}
	run, err := n.s.o.Client.UpdateCheckRun(ctx, n.Repo, n.Check, checkName(&n.Task), card.Check())
	n.Check = run
	if err != nil {
		return fmt.Errorf("close the check run of task %s: %w", n.Task.ID, err)
	}
	return nil
}

// Finish publishes an outcome: the pull request, the comment, the check run,
// in this order. It may be repeated, by a later attempt too. Of a review
// nothing is published if its head has moved, and what was is withdrawn if it
// moves meanwhile. What can be published is, even if another part fails, but
// for Holds, which may fail because the task is another's by now.
func (n *Session) Finish(ctx context.Context, o Outcome) (Published, error) {
	if stale, out, err := n.moved(ctx); stale || err != nil {
		return out, err
	}
	card := n.s.card(&n.Task, Done)
	card.Outcome = &o
	out := Published{CheckRunURL: n.Check.URL}
	if err := n.propose(ctx, &o, &card, &out); err != nil {
		return out, err
	}
	k, failed := n.say(ctx, card)
	if errors.Is(failed, errAsk) {
		return out, failed
	}
	out.CommentURL = k.URL
	failed = errors.Join(failed, n.conclude(ctx, card))
	if stale, withdrawn, err := n.moved(ctx); stale {
		return withdrawn, errors.Join(failed, err)
	} else if err != nil {
		failed = errors.Join(failed, err)
	}
	return out, failed
}

// moved fetches the head of a review again. If it moved, the surfaces say so.
func (n *Session) moved(ctx context.Context) (bool, Published, error) {
	out := Published{CheckRunURL: n.Check.URL}
	if n.Task.Kind.Name != task.ReviewPullRequest {
		return false, out, nil
	}
	pull, err := n.s.o.Client.Head(ctx, n.Repo, n.Task.Kind.PRNumber)
	if err != nil {
		return false, out, fmt.Errorf("fetch the head of task %s again: %w", n.Task.ID, err)
	}
	if pull.HeadSHA == n.Head {
		return false, out, nil
	}
	out.Stale, out.Live, out.Closed = true, pull.HeadSHA, pull.State == closedPull
	card := n.s.card(&n.Task, Stale)
	card.Why = (&StaleError{Head: n.Head, Live: pull.HeadSHA}).Error()
	if _, err = n.say(ctx, card); errors.Is(err, errAsk) {
		return true, out, err
	}
	return true, out, errors.Join(err, n.conclude(ctx, card))
}

// propose opens the draft pull request if there is something to propose.
func (n *Session) propose(ctx context.Context, o *Outcome, card *Card, out *Published) error {
	if o.Branch == "" || o.Commits == 0 || o.Status != task.ResultSuccess && o.Status != task.ResultPartial ||
		n.Task.Kind.Name == task.ReviewPullRequest {
		return nil
	}
	title, body := n.pullText(o)
	pull, _, err := n.s.o.Client.EnsurePull(ctx, n.Repo, PullSpec{Branch: o.Branch, Base: n.Task.DefaultBranch, Title: title, Body: body})
	var e *Error
	switch {
	case err == nil:
		card.PullNumber, card.PullURL = pull.Number, pull.URL
		out.PRNumber, out.PRURL = pull.Number, pull.URL
	case errors.As(err, &e) && (errors.Is(err, ErrValidation) || errors.Is(err, ErrForbidden)):
		card.PullProblem = e.Message
	default:
		return fmt.Errorf("open the pull request of task %s: %w", n.Task.ID, err)
	}
	return nil
}

// pullText are title and body of the pull request; the frame is belay's.
func (n *Session) pullText(o *Outcome) (title, body string) {
	title = oneLine(safe(n.Task.Title), maxTitle)
	if title == "" {
		title = "Task " + string(n.Task.ID)
	}
	text := o.PRBody
	if text == "" {
		text = o.Summary
	}
	card := n.s.card(&n.Task, Done)
	foot := card.footer(true)
	if n.Task.Kind.Name == task.FixIssue && n.Task.Kind.IssueNumber > 0 {
		foot = fmt.Sprintf("For #%d.\n\n%s", n.Task.Kind.IssueNumber, foot)
	}
	return title, para(block(text, maxBody-2*len(foot)-64), foot)
}
