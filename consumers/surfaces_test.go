package consumers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// TestDT3TheWholeLoop: a task shows as one check run, one comment that is
// edited in place and one pull request, by tokens of three roles, and its
// record says where.
func TestDT3TheWholeLoop(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.start()
	d := issue(1)
	id := s.accept(d)
	r := s.reaches(id, task.Completed)

	require.Equal(t, []string{"queued", "in_progress", "completed:success"}, s.check().History)
	require.Equal(t, string(id), s.check().ExternalID)
	require.Equal(t, r.HeadSHA, s.check().HeadSHA)
	require.Contains(t, s.body(1), "All is well.")
	require.Len(t, s.gh.Comments(99, 1)[0].Edits, 2, "written and edited once")
	pull := s.gh.Pulls(99)[1]
	require.True(t, pull.Draft)
	require.Equal(t, []any{pull.Number, "belay/fix", task.SurfacesClosed}, []any{r.PRNumber, r.Branch, r.Surfaces})
	require.NotEmpty(t, r.CheckRunURL)
	require.Contains(t, r.PRURL, "/pull/")

	var roles []string
	for _, g := range s.gh.Grants() {
		require.Equal(t, []int64{99}, g.Repositories)
		roles = append(roles, g.Permissions["contents"]+" "+g.Permissions["checks"]+" "+g.Permissions["pull_requests"])
	}
	require.Equal(t, []string{"read write read", "write  ", "read  write"}, roles, "orchestration, agent, publication, in this order")
	require.Len(t, s.agents, 1)
	require.Contains(t, s.gh.TokenValues(), s.agents[0])

	n := len(s.gh.Mutations())
	again, err := s.log.Accept(t.Context(), d)
	require.NoError(t, err)
	require.True(t, again.Duplicate)
	other := s.accept(issue(2)) // whatever the duplicate did is done before this one
	s.reaches(other, task.Completed)
	for _, m := range s.gh.Mutations()[n:] {
		require.NotContains(t, m.Path, "issues/1/", "DT-90: a redelivery adds nothing")
	}
	require.Contains(t, s.body(1), string(id))
	require.Len(t, s.gh.Checks(99), 2, "DT-83: one each")
}

// TestAReviewGetsTheFilesAndPublishesFindings of its pull request.
func TestAReviewGetsTheFilesAndPublishesFindings(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.start()
	r := s.reaches(s.accept(pushed(head1, "", 1)), task.Completed)
	require.Equal(t, task.ResultSuccess, task.ResultStatus(r.ResultStatus))
	require.Equal(t, "Completed: 1 finding: 1 high", s.check().Title)
	require.Contains(t, s.body(3), "`a.go:3` Off by one")
	require.Equal(t, head1, s.check().HeadSHA)
}

// TestNobodyIsShownWhereNoAppReaches: a repository hook's task runs as ever.
func TestNobodyIsShownWhereNoAppReaches(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.runner.f = nil
	s.start()
	d := issue(1)
	d.RepoID = 0
	require.Equal(t, 1, s.reaches(s.accept(d), task.Completed).Attempts)
	require.Zero(t, s.gh.Requests(""))
}

// TestDT79ARetryByAPersonReusesWhatIsThere: still one check run, one comment,
// one pull request.
func TestDT79ARetryByAPersonReusesWhatIsThere(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.start()
	id := s.accept(issue(1))
	s.reaches(id, task.Completed)
	s.gh.SetBranch(99, "main", githubtest.SHA("main went on"))
	_, _, err := s.store.Change(t.Context(), 7, id, func(r task.Record) (task.Record, error) { return r.Retry(time.Now()) }, nil)
	require.NoError(t, err)
	natstest.Eventually(t, "the second run to end", func() bool {
		r := s.record(id)
		return r.State == task.Completed && r.Attempts == 2
	})
	require.Equal(t, []string{"queued", "in_progress", "completed:success", "in_progress", "completed:success"}, s.check().History)
	require.NotEmpty(t, s.body(1))
	require.Len(t, s.gh.Pulls(99), 2)
	require.Equal(t, task.SurfacesClosed, s.record(id).Surfaces)
}

// TestX07ALimitParksOneInstallation: its tasks wait for the time that GitHub
// names, at no cost, and another installation's go on.
func TestX07ALimitParksOneInstallation(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]githubtest.Fault{
		"before the run":          {Op: githubtest.OpRef},
		"for the agent's token":   {Op: githubtest.OpToken, Skip: 1},
		"when it is to be shown":  {Op: githubtest.OpCreatePull},
		"at the end of the shown": {Op: githubtest.OpUpdateCheck, Skip: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageBench(t, func(_ *stageBench, o *Options) { o.MaxRetries = 0 })
			fault.Kind, fault.RetryAfter = githubtest.SecondaryLimit, 3*time.Second
			s.gh.Fail(fault)
			s.start()
			id := s.accept(issue(1))
			var r task.Record
			natstest.Eventually(t, "the task to be parked", func() bool {
				var err error
				r, _, err = s.store.Get(context.Background(), 7, id)
				return err == nil && len(r.AttemptLog) > 0 && r.AttemptLog[0].Outcome == task.OutcomeParked
			})
			_, at, ok := strings.Cut(r.AttemptLog[0].Detail, "rate limit of github until ")
			require.True(t, ok, r.AttemptLog[0].Detail)
			until, err := time.Parse(time.RFC3339, at)
			require.NoError(t, err)
			if r.State == task.Queued {
				require.Equal(t, until, r.NotBefore.Truncate(time.Second))
			}
			require.Zero(t, r.Spent())

			parked := s.accept(issue(2))
			s.seenAny(parked)
			d := issue(1)
			d.InstallationID, d.RepoID, d.Repo = 8, 88, "umbrella/web"
			other := s.accept(d)
			natstest.Eventually(t, "the other installation's task", func() bool {
				r, _, err := s.store.Get(context.Background(), 8, other)
				return err == nil && r.State == task.Completed
			})
			if n := s.record(parked).Attempts; time.Now().Before(until) {
				require.Zero(t, n, "nothing of a parked installation is claimed")
			}
			s.reaches(parked, task.Completed)
			r = s.reaches(id, task.Completed)
			require.Zero(t, r.Spent())
			for _, c := range s.gh.Checks(99) {
				require.Equal(t, "success", c.Conclusion)
			}
			require.Len(t, s.gh.Checks(99), 2)
		})
	}
}

// TestGitHubAwayBeforeTheRunIsSpent: nothing runs, and the third try works.
func TestGitHubAwayBeforeTheRunIsSpent(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.gh.Fail(githubtest.Fault{Op: githubtest.OpRef, Kind: githubtest.ErrorBefore, Times: 6})
	s.start()
	r := s.reaches(s.accept(issue(1)), task.Completed)
	require.Equal(t, []task.Outcome{task.OutcomeInfra, task.OutcomeInfra, task.OutcomeCompleted}, outcomes(r))
	require.Len(t, s.runner.started(), 1)
}

func outcomes(r task.Record) (out []task.Outcome) {
	for _, a := range r.AttemptLog {
		out = append(out, a.Outcome)
	}
	return out
}

// TestDT77AResultThatGitHubDoesNotTakeIsKept: the task ends, its surfaces stay
// open in the record, and the outbox's channels close them from that alone.
func TestDT77AResultThatGitHubDoesNotTakeIsKept(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.runner.f = func(_ context.Context, j executor.Job) executor.Report {
		s.gh.Fail(githubtest.Fault{Kind: githubtest.ErrorBefore, Times: -1})
		r := completed()
		r.Contract = &executor.Result{
			Status: task.ResultNeedsInput, ExitReason: executor.ExitAmbiguousSpec, Summary: "Which one?", Review: executor.Review{
				Mode: executor.ReviewComment, EvidenceStatus: executor.EvidencePartial, ReviewedFiles: []string{"a.go"},
				Findings: []executor.Finding{{Severity: executor.SeverityHigh, File: "a.go", Line: 3, Title: "A door that squeaks", Body: "Oil it."}},
			},
		}
		r.Result.Status, r.Result.Summary, r.Result.Reason = task.ResultNeedsInput, "Which one?", "ambiguous_spec"
		return r
	}
	s.start()
	id := s.accept(issue(1))
	r := s.reaches(id, task.Completed)
	require.Equal(t, task.SurfacesOpen, r.Surfaces)
	require.Equal(t, "in_progress", s.check().Status)
	s.gh.Heal()
	s.close(id)
	require.Equal(t, []string{"queued", "in_progress", "completed:action_required"}, s.check().History)
	require.Contains(t, s.body(1), "Which one?")
	require.Contains(t, s.body(1), "A door that squeaks", "the findings too")
	n := len(s.gh.Mutations())
	s.close(id)
	require.Len(t, s.gh.Mutations(), n, "closing again edits nothing")
}

// TestWhatGitHubRefusesForGoodEndsTheTask: it is said in the attempt.
func TestWhatGitHubRefusesForGoodEndsTheTask(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.gh.Fail(githubtest.Fault{Op: githubtest.OpEditComment, Kind: githubtest.ErrorBefore, Status: 403, Times: -1})
	s.start()
	r := s.reaches(s.accept(issue(1)), task.Completed)
	require.Equal(t, task.SurfacesClosed, r.Surfaces)
	require.Contains(t, r.AttemptLog[0].Detail, "GitHub does not show all of it: ")
	require.Equal(t, "success", s.check().Conclusion)
}

// TestAPlantedMarkerIsNotOurs: somebody copied our comment before.
func TestAPlantedMarkerIsNotOurs(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	s.start()
	s.reaches(s.accept(issue(1)), task.Completed)
	ours := s.gh.Comments(99, 1)[0]
	planted := s.gh.AddComment(99, githubtest.Comment{Number: 2, Login: "mallory", Body: ours.Body})
	s.reaches(s.accept(issue(2)), task.Completed)
	for _, c := range s.gh.Comments(99, 2) {
		if c.ID == planted {
			require.Equal(t, ours.Body, c.Body, "it is left alone")
			continue
		}
		require.Equal(t, s.gh.Login(), c.Login)
	}
	require.Len(t, s.gh.Comments(99, 2), 2)
}

// TestTheCommentIsTheTaskThatBeganLast: one that is overtaken in its thread
// closes its own check run and leaves the comment alone.
func TestTheCommentIsTheTaskThatBeganLast(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	release := make(chan struct{})
	var first task.ID
	s.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Task.ID == first {
			<-release
		}
		return s.agent(ctx, j)
	}
	first = s.accept(issue(1))
	s.start()
	natstest.Eventually(t, "the first to run", func() bool { return len(s.runner.started()) == 1 })
	second := s.accept(issue(1))
	s.reaches(second, task.Completed)
	s.seen(second, task.Completed)
	require.Contains(t, s.body(1), string(second))
	close(release)
	s.reaches(first, task.Completed)
	require.Contains(t, s.body(1), string(second))
	for _, c := range s.gh.Checks(99) {
		require.Equal(t, "completed", c.Status)
	}
}

// TestOutcomeOfEveryField: nothing of a result is lost on its way to GitHub.
func TestOutcomeOfEveryField(t *testing.T) {
	t.Parallel()
	c := &executor.Result{
		Status: task.ResultPartial, ExitReason: executor.ExitTestFailure, Summary: "s", PRBody: "p", Branch: "b", Commits: make([]executor.Commit, 2),
		Review: executor.Review{
			Mode: executor.ReviewComment, EvidenceStatus: executor.EvidencePartial, ReviewedFiles: []string{"a"}, SupportingFiles: []string{"c"},
			Findings: []executor.Finding{{Severity: executor.SeverityLow, File: "a", Line: 1, Title: "t", Body: "y", Recommendation: "r"}},
			TestsRun: []executor.TestRun{{Command: "go", Status: executor.TestPassed, OutputSummary: "ok"}}, NoFindingsReason: "n", Limitations: []string{"l"},
		},
	}
	require.Equal(t, githubapp.Outcome{
		Status: task.ResultPartial, ExitReason: "test_failure", Summary: "s", PRBody: "p", Branch: "b", Commits: 2,
		Review: &githubapp.Review{
			Evidence: githubapp.EvidencePartial, ReviewedFiles: []string{"a"}, SupportingFiles: []string{"c"},
			Findings: []githubapp.Finding{{Severity: "low", File: "a", Line: 1, Title: "t", Body: "y", Recommendation: "r"}},
			Tests:    []githubapp.TestRun{{Command: "go", Status: "passed", Output: "ok"}}, NoFindingsReason: "n", Limitations: []string{"l"},
		},
	}, outcomeOf(executor.Report{Contract: c}))
}
