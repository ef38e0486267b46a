package consumers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// The kinds that people command.
var (
	fixIssue    = task.Kind{Name: task.FixIssue, IssueNumber: 1, IssueTitle: "Issue 1"}
	reviewPull  = task.Kind{Name: task.ReviewPullRequest, PRNumber: 3, PRTitle: "Mend it", Reason: "command:review"}
	cancelPull  = task.Kind{Name: task.CancelReviews, PRNumber: 3}
	addressPull = task.Kind{Name: task.AddressReviewComment, PRNumber: 3, CommentBody: "@cody fix it"}
	replyIssue  = task.Kind{Name: task.CommandReply, IssueNumber: 1, Body: "`cancel` is for reviews only."}
)

// TestTheGateDeclinesBeforeAnythingShows: whoever cannot write gets an answer,
// no check run and no run; the permission is asked before anything changes.
func TestTheGateDeclinesBeforeAnythingShows(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]task.Kind{"fix": fixIssue, "review": reviewPull, "cancel": cancelPull, "address": addressPull, "reply": replyIssue} {
		for _, login := range []string{reader, "stranger"} {
			t.Run(name+" by "+login, func(t *testing.T) {
				t.Parallel()
				s := newStageBench(t)
				waiting := s.admitted(pushed(head1, "", 1))
				id := s.admitted(command(login, k))
				s.pause(waiting)
				s.start()
				r := s.reaches(id, task.Completed)
				require.Equal(t, []any{"declined", task.SurfaceState(""), 0}, []any{r.Reason, r.Surfaces, r.Spent()})
				require.Empty(t, s.runner.started())
				require.Empty(t, s.gh.Checks(99))
				require.Contains(t, s.body(k.Number()), "Declined: `"+login+"` has no write access")
				require.Equal(t, 1, s.gh.Requests(githubtest.OpPermission))
				require.Equal(t, githubtest.OpCreateComment, s.gh.Mutations()[0].Op)
				require.Len(t, s.gh.Mutations(), 1)
				require.Equal(t, task.Queued, s.record(waiting).State, "nothing was superseded or cancelled")
			})
		}
	}
}

// pause keeps a queued task from being claimed.
func (s *stageBench) pause(id task.ID) {
	s.t.Helper()
	_, _, err := s.store.Change(s.t.Context(), 7, id, func(r task.Record) (task.Record, error) {
		r.NotBefore = task.At(r.CreatedAt.AddDate(1, 0, 0))
		return r, nil
	}, nil)
	require.NoError(s.t, err)
}

// TestTheGateLetsWritersThrough and asks nobody for what nobody commanded.
func TestTheGateLetsWritersThrough(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.start()
	s.reaches(s.accept(command(maintainer, fixIssue)), task.Completed)
	require.Equal(t, "success", s.check().Conclusion)
	require.Equal(t, 1, s.gh.Requests(githubtest.OpPermission))
	s.reaches(s.accept(issue(2)), task.Completed)
	require.Equal(t, 1, s.gh.Requests(githubtest.OpPermission))
}

// TestWithoutAnAppNobodyMayCommand: who cannot be asked for is not trusted.
func TestWithoutAnAppNobodyMayCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t)).start()
	r := b.reaches(b.accept(command(maintainer, fixIssue)), task.Failed)
	require.Contains(t, r.Reason, "nobody can say whether maria may command")
	require.Empty(t, b.runner.started())
}

// TestDT93ACommandedReviewSupersedesAfterItsGate: queued older reviews of its
// key, sparing itself and what is another's; it then holds the comment.
func TestDT93ACommandedReviewSupersedesAfterItsGate(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	older := s.admitted(pushed(head1, "", 1))
	rita := pushed(head1, "", 1)
	rita.Task.FamiliarID = "rita"
	others := s.admitted(rita)
	earlier := s.admitted(command(maintainer, reviewPull))
	for _, id := range []task.ID{older, others, earlier} {
		s.pause(id)
	}
	id := s.admitted(command(maintainer, reviewPull))
	require.Equal(t, task.Queued, s.record(older).State, "not before the gate")
	for _, old := range []task.ID{older, others, earlier} {
		s.seen(old, task.Queued)
	}
	s.start()
	require.Equal(t, head1, s.reaches(id, task.Completed).HeadSHA)
	for _, old := range []task.ID{older, earlier} {
		r := s.reaches(old, task.Superseded)
		require.Equal(t, []any{id, task.ReasonSuperseded, 0}, []any{r.SupersededBy, r.Reason, r.Attempts})
	}
	require.Equal(t, task.Queued, s.record(others).State, "another familiar's")
	require.Contains(t, s.body(3), string(id))

	next := s.accept(pushed(head2, head1, 2)) // a push supersedes as ever
	s.gh.SetBranch(99, "mend", head2)
	s.reaches(next, task.Completed)
	require.Contains(t, s.body(3), string(next))
}

// TestDT94CancelSupersedesQueuedReviewsOfThePullOnly and says how many, also
// when its process dies after that and before it could say so.
func TestDT94CancelSupersedesQueuedReviewsOfThePullOnly(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.gh.AddPull(99, githubtest.Pull{Number: 4, Title: "Other", Login: "octocat", Branch: "other", HeadSHA: head2})
	auto, commanded := s.admitted(pushed(head1, "", 1)), s.admitted(command(maintainer, reviewPull))
	elsewhere := s.admitted(review(4, head2, "", 1))
	fix := s.admitted(command(maintainer, addressPull))
	id := s.admitted(command(maintainer, cancelPull))
	later := s.admitted(command(maintainer, reviewPull))
	for _, q := range []task.ID{auto, commanded, elsewhere, fix, later} {
		s.pause(q)
		s.seen(q, task.Queued)
	}
	s.gh.Fail(githubtest.Fault{Op: githubtest.OpListComments, Kind: githubtest.ErrorBefore, Times: 3})
	s.start()
	r := s.reaches(id, task.Completed)
	require.Equal(t, []task.Outcome{task.OutcomeInfra, task.OutcomeCompleted}, outcomes(r))
	for _, q := range []task.ID{auto, commanded} {
		require.Equal(t, []any{task.Superseded, id, reasonCancelled}, []any{s.record(q).State, s.record(q).SupersededBy, s.record(q).Reason})
	}
	for _, q := range []task.ID{elsewhere, fix, later} {
		require.Equal(t, task.Queued, s.record(q).State)
	}
	require.Contains(t, s.body(3), "Cancelled 2 queued reviews")
	require.Empty(t, s.gh.Checks(99))
}

// TestRepliesComeInTheOneComment: status and an unknown verb need no gate, and
// answer below what the comment says already.
func TestRepliesComeInTheOneComment(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.start()
	fixed := s.accept(issue(1))
	s.reaches(fixed, task.Completed)
	s.seen(fixed, task.Completed)
	status, unknown := command("", replyIssue), command("", replyIssue)
	status.Task.Kind.Body, unknown.Task.Kind.Body = "status", "I don't know that command."
	r := s.reaches(s.accept(unknown), task.Completed)
	require.Equal(t, "I don't know that command.", r.Summary)
	require.Contains(t, s.body(1), "I don't know that command.")
	require.Contains(t, s.body(1), "All is well.")
	s.reaches(s.accept(status), task.Completed)
	require.Contains(t, s.body(1), "- Issue 1: **completed, success**")
	require.NotContains(t, s.body(1), "I don't know")
	require.Zero(t, s.gh.Requests(githubtest.OpPermission))
	require.Len(t, s.gh.Checks(99), 1)
}

// TestAReviewWhoseHeadMovedIsSupersededByItsSuccessor: nothing runs for it.
func TestAReviewWhoseHeadMovedIsSupersededByItsSuccessor(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	var newer task.ID
	hooks := &Hooks{}
	s.worker.o.Hooks = hooks
	old := s.admitted(pushed(head1, "", 1))
	hooks.Claimed = func(id task.ID) {
		if id == old {
			s.gh.SetBranch(99, "mend", head2)
			newer = s.admitted(pushed(head2, head1, 2))
		}
	}
	s.start()
	r := s.reaches(old, task.Superseded)
	require.Equal(t, []any{task.ReasonStale, newer}, []any{r.Reason, r.SupersededBy})
	s.reaches(newer, task.Completed)
	require.Len(t, s.runner.started(), 1)
	require.Equal(t, head2, s.check().HeadSHA)
}

// TestAReviewWhoseHeadMovedGoesOnAtTheLiveHead where no event told of it: it
// is queued again there, before its run or after, and the event that comes
// late finds it done.
func TestAReviewWhoseHeadMovedGoesOnAtTheLiveHead(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before its run": true, "while it ran": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageBench(t, func(_ *stageBench, o *Options) { o.MaxRetries = 0 })
			hold := make(chan struct{})
			s.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
				if j.Task.HeadSHA == head2 {
					<-hold
				} else {
					s.gh.SetBranch(99, "mend", head2)
				}
				return s.agent(ctx, j)
			}
			if before {
				s.gh.SetBranch(99, "mend", head2)
			}
			s.start()
			id := s.accept(pushed(head1, "", 1))
			natstest.Eventually(t, "the run at the live head", func() bool {
				r := s.peek(id)
				return r.HeadSHA == head2 && r.State == task.Running && r.Surfaces == task.SurfacesOpen
			})
			late := s.accept(pushed(head2, head1, 2))
			r := s.reaches(late, task.Superseded)
			require.Equal(t, []any{task.ReasonCoalesced, id}, []any{r.Reason, r.SupersededBy})
			close(hold)
			r = s.reaches(id, task.Completed)
			require.Equal(t, []task.Outcome{task.OutcomeSuperseded, task.OutcomeCompleted}, outcomes(r))
			require.Contains(t, r.AttemptLog[0].Detail, "the head moved from")
			require.Zero(t, r.Spent())
			checks := s.gh.Checks(99)
			last := checks[len(checks)-1]
			require.Equal(t, []string{head2, "success"}, []string{last.HeadSHA, last.Conclusion})
			if before {
				require.Len(t, checks, 1, "nothing was opened for the old head")
				return
			}
			require.Equal(t, []string{head1, "neutral", "Stale"}, []string{checks[0].HeadSHA, checks[0].Conclusion, checks[0].Title})
			for _, body := range s.gh.Comments(99, 3)[0].Edits[:3] {
				require.NotContains(t, body, "All is well.")
			}
		})
	}
}

// peek is record for one that may not be there yet.
func (s *stageBench) peek(id task.ID) task.Record {
	r, _, _ := s.store.Get(context.Background(), 7, id)
	return r
}

// TestAStaleReviewOfAClosedPullEnds: nothing is reviewed any more.
func TestAStaleReviewOfAClosedPullEnds(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.gh.SetBranch(99, "mend", head2)
	s.gh.ClosePull(99, 3)
	s.start()
	r := s.reaches(s.accept(pushed(head1, "", 1)), task.Superseded)
	require.Equal(t, []any{task.ReasonStale, task.ID("")}, []any{r.Reason, r.SupersededBy})
	require.Empty(t, s.runner.started())
}

// TestARetriedReviewGoesToTheLiveHead, with a check run of its own there: the
// one in its record is of the head before.
func TestARetriedReviewGoesToTheLiveHead(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.start()
	id := s.accept(pushed(head1, "", 1))
	s.reaches(id, task.Completed)
	s.gh.SetBranch(99, "mend", head2)
	_, _, err := s.store.Change(t.Context(), 7, id, func(r task.Record) (task.Record, error) { return r.Retry(time.Now()) }, nil)
	require.NoError(t, err)
	natstest.Eventually(t, "the review of the live head", func() bool {
		r := s.peek(id)
		return r.State == task.Completed && r.HeadSHA == head2
	})
	checks := s.gh.Checks(99)
	require.Len(t, checks, 2)
	require.Equal(t, []string{head1, "neutral", head2, "success"}, []string{checks[0].HeadSHA, checks[0].Conclusion, checks[1].HeadSHA, checks[1].Conclusion})
	require.NotEmpty(t, s.body(3))
}

// TestNothingMoreIsPublishedForATaskThatWasTaken: a person cancels it while
// its result is being shown.
func TestNothingMoreIsPublishedForATaskThatWasTaken(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	ended := make(chan struct{})
	s.worker.o.Hooks = &Hooks{Ended: func(task.ID) { close(ended) }}
	id := s.admitted(issue(1))
	s.gh.Fail(githubtest.Fault{Op: githubtest.OpCreatePull, Kind: githubtest.Hold, Until: ended, Held: func() {
		_, _, err := s.store.Change(context.Background(), 7, id, func(r task.Record) (task.Record, error) { return r.Cancel("asked", time.Now()) }, nil)
		if err != nil {
			t.Error(err)
		}
	}})
	s.start()
	<-ended
	require.Equal(t, task.Cancelled, s.record(id).State)
	require.Equal(t, "in_progress", s.check().Status, "whoever cancelled it has it closed")
	require.NotContains(t, s.body(1), "All is well.")
	s.close(id)
	require.Equal(t, "Cancelled", s.check().Title)
}
