package consumers

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// TestTheRecordSaysSoBeforeAnythingShows: at the pin GitHub has nothing yet.
func TestTheRecordSaysSoBeforeAnythingShows(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	var state atomic.Value
	s.worker.o.Hooks = &Hooks{Pinned: func(id task.ID) {
		r := s.peek(id)
		state.Store([]any{r.Surfaces, r.HeadSHA, len(s.gh.Mutations())})
	}}
	s.start()
	s.reaches(s.accept(issue(1)), task.Completed)
	require.Equal(t, []any{task.SurfacesOpen, githubtest.SHA("acme/api"), 0}, state.Load())
}

// TestNothingShowsForATaskThatIsNoLongerHeld: it was cancelled right before.
func TestNothingShowsForATaskThatIsNoLongerHeld(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	ended := make(chan task.ID, 1)
	s.worker.o.Hooks = &Hooks{
		Claimed: func(id task.ID) {
			_, _, err := s.store.Change(context.Background(), 7, id, func(r task.Record) (task.Record, error) { return r.Cancel("asked", time.Now()) }, nil)
			if err != nil {
				t.Error(err)
			}
		},
		Ended: func(id task.ID) { ended <- id },
	}
	s.start()
	id := s.accept(issue(1))
	<-ended
	require.Equal(t, []any{task.Cancelled, task.SurfaceState("")}, []any{s.record(id).State, s.record(id).Surfaces})
	require.Empty(t, s.gh.Mutations())
	require.Empty(t, s.runner.started())
}

// TestAPinWhoseAnswerIsLostIsReread: the attempt goes on with the revision it
// wrote, and ends without another claim.
func TestAPinWhoseAnswerIsLostIsReread(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	var updates atomic.Int32
	s.store.SetHooks(&kv.Hooks{After: func(_ context.Context, op, key string) error {
		if op == "update" && strings.HasPrefix(key, "task.") && updates.Add(1) == 2 {
			return kv.ErrUnknown
		}
		return nil
	}})
	s.start()
	r := s.reaches(s.accept(issue(1)), task.Completed)
	require.Equal(t, 1, r.Attempts)
	require.EqualValues(t, 3, updates.Load(), "claim, pin, finish")
	require.Equal(t, "success", s.check().Conclusion)
}

// TestG25ACommandedReviewWaitsForARunningOne: it takes no key from it.
func TestG25ACommandedReviewWaitsForARunningOne(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	old := s.admitted(pushed(head1, "", 1))
	_, _, err := s.store.Change(t.Context(), 7, old, func(r task.Record) (task.Record, error) {
		return r.Claim("other", "other", "nonce", time.Now())
	}, nil)
	require.NoError(t, err)
	r := s.record(s.admitted(command(maintainer, reviewPull)))
	require.ErrorIs(t, s.worker.takeKey(t.Context(), r), errWaits)
	e := s.worker.hindered(t.Context(), &run{}, errWaits)
	require.Equal(t, task.OutcomeReleased, e.Outcome, "at no cost")
	k, _ := r.Key()
	p, _, err := s.store.Pointer(t.Context(), k)
	require.NoError(t, err)
	require.Equal(t, old, p.Task)
}

// TestAStoreThatIsAwayCostsNoAttempt between claim and run.
func TestAStoreThatIsAwayCostsNoAttempt(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	var updates atomic.Int32
	s.store.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, key string) error {
		if op == "update" && strings.HasPrefix(key, "supersede.") && updates.Add(1) == 1 {
			return kv.ErrFull
		}
		return nil
	}})
	auto := s.admitted(pushed(head1, "", 1))
	s.pause(auto) // the pointer names it, and has to move
	s.start()
	r := s.reaches(s.accept(command(maintainer, reviewPull)), task.Completed)
	require.Equal(t, []task.Outcome{task.OutcomeReleased, task.OutcomeCompleted}, outcomes(r))
	require.Zero(t, r.Spent())
	require.Equal(t, task.Superseded, s.reaches(auto, task.Superseded).State)
}

// TestAReviewThatLostItsKeyLeavesTheComment: its check run says that it is
// stale, the comment is its successor's.
func TestAReviewThatLostItsKeyLeavesTheComment(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	release := make(chan struct{})
	s.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Task.HeadSHA == head1 {
			<-release
		}
		return s.agent(ctx, j)
	}
	s.start()
	old := s.accept(pushed(head1, "", 1))
	natstest.Eventually(t, "the first to run", func() bool { return len(s.runner.started()) == 1 })
	s.gh.SetBranch(99, "mend", head2)
	next := s.admitted(pushed(head2, head1, 2))
	close(release)
	require.Equal(t, next, s.reaches(old, task.Superseded).SupersededBy)
	s.reaches(next, task.Completed)
	for _, body := range s.gh.Comments(99, 3)[0].Edits {
		require.NotContains(t, body, "The head has moved")
	}
	require.Equal(t, "Stale", s.gh.Checks(99)[0].Title)
	require.Contains(t, s.body(3), string(next))
}

// TestADeclinedTaskTakesNoComment though it began last: it shows nothing.
func TestADeclinedTaskTakesNoComment(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	release := make(chan struct{})
	s.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		<-release
		return s.agent(ctx, j)
	}
	s.start()
	id := s.accept(issue(1))
	natstest.Eventually(t, "it to run", func() bool { return len(s.runner.started()) == 1 })
	declined := s.accept(command(reader, fixIssue))
	s.reaches(declined, task.Completed)
	s.seen(declined, task.Completed)
	close(release)
	s.reaches(id, task.Completed)
	require.Contains(t, s.body(1), "All is well.")
}

// TestJ04AHolderThatLostItsTaskShowsNothing: it was frozen, another process
// has the task since, and its own watch has not told it yet.
func TestJ04AHolderThatLostItsTaskShowsNothing(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before it begins", "after its run", "while it is shown"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			s := newStageBench(t)
			var id task.ID
			lost, ended := make(chan struct{}), make(chan struct{}, 1)
			lose := func(task.ID) {
				s.stopView() // blind
				_, _, err := s.store.Change(context.Background(), 7, id, func(r task.Record) (task.Record, error) {
					r, err := r.EndAttempt(holderOf(r), task.Ending{Outcome: task.OutcomeInterrupted}, 5, time.Now())
					if err == nil {
						r, err = r.Claim("other", "other", "nonce", time.Now())
					}
					return r, err
				}, nil)
				if err != nil {
					t.Error(err)
				}
				close(lost)
			}
			hooks := &Hooks{Ended: func(task.ID) { ended <- struct{}{} }}
			s.worker.o.Hooks = hooks
			shown := -1
			switch when {
			case "before it begins":
				hooks.Claimed = lose
			case "while it is shown":
				s.gh.Fail(githubtest.Fault{Op: githubtest.OpCreatePull, Kind: githubtest.Hold, Until: lost, Held: func() { lose(id) }})
			}
			s.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
				if when == "after its run" {
					lose(id)
				}
				shown = len(s.gh.Mutations())
				return s.agent(ctx, j)
			}
			id = s.admitted(issue(1))
			_, _, err := s.store.Change(t.Context(), 7, id, func(r task.Record) (task.Record, error) {
				r.Surfaces, r.HeadSHA = task.SurfacesOpen, githubtest.SHA("acme/api") // by an attempt before
				return r, nil
			}, nil)
			require.NoError(t, err)
			s.start()
			<-lost
			<-ended
			if shown < 0 {
				require.Empty(t, s.gh.Mutations())
				require.Empty(t, s.runner.started())
				return
			}
			if when == "while it is shown" {
				shown++ // the pull request
			}
			require.Len(t, s.gh.Mutations(), shown, "nothing after it was lost")
			require.Equal(t, "in_progress", s.check().Status)
		})
	}
}

// TestAFailedTaskKnowsItsCheckRun though it never had a result.
func TestAFailedTaskKnowsItsCheckRun(t *testing.T) {
	t.Parallel()
	s := newStageBench(t, func(_ *stageBench, o *Options) { o.MaxRetries = 0 })
	s.runner.f = func(context.Context, executor.Job) executor.Report { return retryable("no luck") }
	s.start()
	r := s.reaches(s.accept(issue(1)), task.Failed)
	require.Contains(t, r.CheckRunURL, "/runs/")
	require.Equal(t, task.SurfacesOpen, r.Surfaces, "the outbox closes it")
}
