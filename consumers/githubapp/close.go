package githubapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/belay-run/belay/kv/task"
)

// CloseCheck shows in its check run, from the record alone, how a task ended:
// by recovery, a person or a newer task, or with a result that Finish could
// not publish, which the record then has in full. It opens none, no pull
// request either; it may be repeated.
func (s *Surfaces) CloseCheck(ctx context.Context, t task.Record, why string) error {
	repo, card, err := s.ended(&t, why)
	if err != nil {
		return err
	}
	_, err = s.closeCheck(ctx, repo, t, card)
	return err
}

// CloseComment is CloseCheck for the status comment, which it leaves alone if
// that shows another task by now.
func (s *Surfaces) CloseComment(ctx context.Context, t task.Record, why string) error {
	repo, card, err := s.ended(&t, why)
	if err != nil {
		return err
	}
	return s.closeComment(ctx, repo, t, card)
}

// ended is the card of a task that has ended.
func (s *Surfaces) ended(t *task.Record, why string) (Repo, Card, error) {
	if !t.State.Terminal() {
		return Repo{}, Card{}, fmt.Errorf("close the surfaces of task %s: it is %s", t.ID, t.State)
	}
	repo, err := RepoOf(t)
	if err != nil {
		return Repo{}, Card{}, err
	}
	card := s.card(t, phaseOf(t))
	card.Why = why
	if t.ResultStatus != "" && (card.Phase == Failed || card.Phase == Done) {
		card.Phase, card.PullNumber, card.PullURL = Done, t.PRNumber, t.PRURL
		card.Outcome = outcomeIn(t)
	}
	return repo, card, nil
}

// outcomeIn is the result in full, if the record has it because GitHub did not
// take it, else what the record keeps of every result.
func outcomeIn(t *task.Record) *Outcome {
	var o Outcome
	if len(t.Unshown) > 0 && json.Unmarshal(t.Unshown, &o) == nil {
		return &o
	}
	return &Outcome{Status: t.ResultStatus, ExitReason: t.Reason, Summary: t.Summary}
}

func phaseOf(t *task.Record) Phase {
	switch {
	case t.State == task.Superseded && t.Reason == task.ReasonStale:
		return Stale
	case t.State == task.Superseded:
		return Superseded
	case t.State == task.Cancelled:
		return Cancelled
	case t.State == task.Completed:
		return Done
	}
	return Failed
}

// close closes what is open, and goes on if a part of it fails.
func (s *Surfaces) close(ctx context.Context, repo Repo, t task.Record, card Card) error {
	url, failed := s.closeCheck(ctx, repo, t, card)
	if url != "" {
		card.CheckURL = url
	}
	return errors.Join(failed, s.closeComment(ctx, repo, t, card))
}

func (s *Surfaces) closeCheck(ctx context.Context, repo Repo, t task.Record, card Card) (url string, err error) {
	if !hasCheck(&t) {
		return "", nil
	}
	run, err := s.findCheck(ctx, repo, &t)
	if run == nil {
		return "", err
	}
	_, err = s.o.Client.UpdateCheckRun(ctx, repo, *run, checkName(&t), card.Check())
	return run.URL, err
}

func (s *Surfaces) closeComment(ctx context.Context, repo Repo, t task.Record, card Card) error {
	if t.Number == 0 {
		return nil
	}
	_, err := s.o.Client.putComment(ctx, threadOf(repo, &t), func(old string) string {
		if isOf(old, t.ID) {
			return card.Comment()
		}
		return old // another task's by now
	}, false)
	return err
}
