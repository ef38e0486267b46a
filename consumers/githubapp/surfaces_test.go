package githubapp

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/task"
)

func fixed() Outcome {
	return Outcome{Status: task.ResultSuccess, Summary: "Mended.", PRBody: "What and why.", Branch: "fix/7", Commits: 1}
}

func reviewed() Outcome {
	return Outcome{Status: task.ResultSuccess, Summary: "Looks good.", Review: &Review{Evidence: EvidenceComplete, ReviewedFiles: []string{"a.go"}}}
}

// closeBoth is what the two channels of the outbox do.
func (s *Surfaces) closeBoth(ctx context.Context, t task.Record, why string) error {
	return errors.Join(s.CloseCheck(ctx, t, why), s.CloseComment(ctx, t, why))
}

// TestDT3TheWholeLoopOfAFix is what a person sees: one check run, one comment
// edited in place, one draft pull request, by tokens of the roles they want.
func TestDT3TheWholeLoopOfAFix(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.surfaces(t, SurfacesOptions{Name: func(string) string { return "Fam" }})
	n, err := s.Begin(t.Context(), k.fix("t1"))
	require.NoError(t, err)
	require.Equal(t, k.head(), n.Head)
	check := k.Checks(100)[0]
	require.Equal(t, []string{"queued", "in_progress"}, check.History)
	require.Equal(t, "t1", check.ExternalID)
	require.Contains(t, k.Comments(100, 7)[0].Body, "**Fam** · Working")

	k.SetBranch(100, "fix/7", githubtest.SHA("fix"))
	out, err := n.Finish(t.Context(), fixed())
	require.NoError(t, err)
	check = k.Checks(100)[0]
	require.Equal(t, []string{"queued", "in_progress", "completed:success"}, check.History)
	require.Equal(t, check.Title, "Completed")
	comments := k.Comments(100, 7)
	require.Len(t, comments, 1)
	require.Len(t, comments[0].Edits, 2)
	require.Contains(t, comments[0].Body, "Mended.")
	require.Contains(t, comments[0].Body, out.PRURL)
	pull := k.Pulls(100)[1]
	require.True(t, pull.Draft)
	require.Equal(t, "fix/7", pull.Branch)
	require.Contains(t, pull.Body, "What and why.\n\nFor #7.")
	require.Equal(t, Published{CheckRunURL: out.CheckRunURL, CommentURL: out.CommentURL, PRNumber: pull.Number, PRURL: out.PRURL}, out)

	const orchestration = "checks:write contents:read issues:write metadata:read pull_requests:read"
	const publication = "contents:read issues:write metadata:read pull_requests:write"
	for _, m := range k.Mutations() {
		want := orchestration
		if m.Op == githubtest.OpCreatePull {
			want = publication
		}
		require.Equal(t, want, m.Token, m.Op)
		require.Less(t, m.Status, 300)
	}
	require.Len(t, k.Grants(), 2, "no token of the agent's is made for surfaces")
}

// TestDT79DT80ARunAgainUsesWhatIsThere crashes the process after every
// mutation of the loop, in turn, and runs the task again: by a new process,
// with the record as it was (only the pinned head is known).
func TestDT79DT80ARunAgainUsesWhatIsThere(t *testing.T) {
	t.Parallel()
	for crash := range 7 {
		k := newKit(t)
		rec := k.fix("t1")
		pin := func(_ context.Context, _ task.Record, head string) error { rec.HeadSHA = head; return nil }
		run := func(c *Client, stop int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.o.Transport.(*dying).after(stop, cancel)
			s := k.surfaces(t, SurfacesOptions{Client: c, Pin: pin})
			n, err := s.Begin(ctx, rec)
			if err != nil {
				return
			}
			k.SetBranch(100, "fix/7", githubtest.SHA("fix"))
			_, _ = n.Finish(ctx, fixed())
		}
		run(k.dying(t), crash)
		k.SetBranch(100, "main", githubtest.SHA("main moved"))
		run(k.dying(t), 1000)

		checks := k.Checks(100)
		require.Len(t, checks, 1, "crash after %d", crash)
		require.Equal(t, "completed", checks[0].Status)
		require.Equal(t, "success", checks[0].Conclusion)
		comments := k.Comments(100, 7)
		require.Len(t, comments, 1, "crash after %d", crash)
		require.Contains(t, comments[0].Body, "Mended.")
		require.Len(t, k.Pulls(100), 2, "crash after %d", crash)
	}
}

// TestDT90ADeliveryRunTwiceAddsNothing runs the same finished task once more.
func TestDT90ADeliveryRunTwiceAddsNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.surfaces(t, SurfacesOptions{})
	k.SetBranch(100, "fix/7", githubtest.SHA("fix"))
	for range 2 {
		n, err := s.Begin(t.Context(), k.fix("t1"))
		require.NoError(t, err)
		_, err = n.Finish(t.Context(), fixed())
		require.NoError(t, err)
	}
	for _, op := range []string{githubtest.OpCreateCheck, githubtest.OpCreateComment, githubtest.OpCreatePull} {
		require.Equal(t, 1, k.Count(op), op)
	}
	n, err := s.Begin(t.Context(), k.fix("t2"))
	require.NoError(t, err)
	_, err = n.Finish(t.Context(), fixed())
	require.NoError(t, err)
	require.Len(t, k.Comments(100, 7), 1, "another task of the thread edits the same comment")
	require.Len(t, k.Checks(100), 2)
	require.Len(t, k.Pulls(100), 2)
}

// TestTheCheckRunOfTheRecordIsUsed though the head is another one by now.
func TestTheCheckRunOfTheRecordIsUsed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.surfaces(t, SurfacesOptions{})
	n, err := s.Begin(t.Context(), k.fix("t1"))
	require.NoError(t, err)
	again := k.fix("t1")
	again.CheckRunURL = n.Check.URL
	k.SetBranch(100, "main", githubtest.SHA("moved"))
	_, err = s.Begin(t.Context(), again)
	require.NoError(t, err)
	require.Len(t, k.Checks(100), 1)

	stranger := k.fix("t2")
	stranger.CheckRunURL = n.Check.URL
	_, err = s.Begin(t.Context(), stranger)
	require.NoError(t, err)
	require.Len(t, k.Checks(100), 2, "an address is no proof: the external id is")
}

// TestOnlyOurCheckRunsAreFound ignores another App's with the same external id.
func TestOnlyOurCheckRunsAreFound(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.AddForeignCheck(100, k.head(), "t1")
	run, err := k.client.EnsureCheckRun(t.Context(), k.repo, k.check("t1"))
	require.NoError(t, err)
	require.Len(t, k.Checks(100), 2)
	_, err = k.client.CheckRun(t.Context(), k.repo, k.Checks(100)[0].ID)
	require.ErrorIs(t, err, ErrNotFound)
	for range 120 {
		_, err := k.client.createCheckRun(t.Context(), k.repo, k.check("other"))
		require.NoError(t, err)
	}
	got, err := k.client.FindCheckRun(t.Context(), k.repo, k.head(), "t1")
	require.NoError(t, err)
	require.Equal(t, run.ID, got.ID, "though it is on the second page")
}

// TestAReviewWhoseHeadMovedPublishesNothing: before it begins, before it is
// published, and while it is.
func TestAReviewWhoseHeadMovedPublishesNothing(t *testing.T) {
	t.Parallel()
	h1, h2 := githubtest.SHA("h1"), githubtest.SHA("h2")
	t.Run("before it begins", func(t *testing.T) {
		t.Parallel()
		k := newKit(t)
		s := k.surfaces(t, SurfacesOptions{})
		_, err := s.Begin(t.Context(), k.review("t1", h1))
		require.NoError(t, err)
		k.SetBranch(100, "mend", h2)
		_, err = s.Begin(t.Context(), k.review("t1", h1))
		var stale *StaleError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, StaleError{Head: h1, Live: h2}, *stale)
		require.Equal(t, "neutral", k.Checks(100)[0].Conclusion)
		require.Equal(t, "Stale", k.Checks(100)[0].Title)
		_, err = s.Begin(t.Context(), k.review("t2", h1))
		require.ErrorAs(t, err, &stale)
		require.Len(t, k.Checks(100), 1, "one that never began opens nothing")
	})
	t.Run("before it is published", func(t *testing.T) {
		t.Parallel()
		k := newKit(t)
		n, err := k.surfaces(t, SurfacesOptions{}).Begin(t.Context(), k.review("t1", h1))
		require.NoError(t, err)
		k.SetBranch(100, "mend", h2)
		out, err := n.Finish(t.Context(), reviewed())
		require.NoError(t, err)
		require.True(t, out.Stale)
		require.Equal(t, h2, out.Live)
		for _, body := range k.Comments(100, 8)[0].Edits {
			require.NotContains(t, body, "Looks good.")
		}
		require.Equal(t, []string{"queued", "in_progress", "completed:neutral"}, k.Checks(100)[0].History)
	})
	t.Run("while it is published", func(t *testing.T) {
		t.Parallel()
		k := newKit(t)
		n, err := k.surfaces(t, SurfacesOptions{}).Begin(t.Context(), k.review("t1", h1))
		require.NoError(t, err)
		moved := make(chan struct{})
		k.Fail(githubtest.Fault{Op: githubtest.OpEditComment, Kind: githubtest.Hold, Until: moved, Held: func() {
			k.SetBranch(100, "mend", h2)
			close(moved)
		}})
		out, err := n.Finish(t.Context(), reviewed())
		require.NoError(t, err)
		require.True(t, out.Stale)
		require.NotContains(t, k.Comments(100, 8)[0].Body, "Looks good.")
		require.Equal(t, "Stale", k.Checks(100)[0].Title)
		require.Equal(t, "neutral", k.Checks(100)[0].Conclusion)
	})
}

// TestTheCommentBelongsToTheHolderOfTheKey: a task that lost it closes its
// check run and leaves the comment alone.
func TestTheCommentBelongsToTheHolderOfTheKey(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	holder := task.ID("t1")
	s := k.surfaces(t, SurfacesOptions{Holds: func(_ context.Context, r task.Record) (bool, error) { return r.ID == holder, nil }})
	h1 := githubtest.SHA("h1")
	first, err := s.Begin(t.Context(), k.review("t1", h1))
	require.NoError(t, err)
	holder = "t2"
	_, err = s.Begin(t.Context(), k.review("t2", h1))
	require.NoError(t, err)
	body := k.Comments(100, 8)[0].Body
	_, err = first.Finish(t.Context(), reviewed())
	require.NoError(t, err)
	require.Equal(t, body, k.Comments(100, 8)[0].Body)
	require.Equal(t, "completed", k.Checks(100)[0].Status)

	lost := k.review("t1", h1)
	lost.State = task.Superseded
	require.NoError(t, s.closeBoth(t.Context(), lost, "by t2"))
	require.Equal(t, body, k.Comments(100, 8)[0].Body, "nor does its end touch what is t2's")
}

// TestDT77CloseEndsWhatIsOpen and opens nothing, whoever ended the task.
func TestDT77CloseEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	for state, want := range map[task.State][2]string{
		task.Failed: {"failure", "Failed"}, task.Superseded: {"neutral", "Superseded"}, task.Cancelled: {"neutral", "Cancelled"},
	} {
		k := newKit(t)
		s := k.surfaces(t, SurfacesOptions{})
		rec := k.fix("t1")
		rec.HeadSHA, rec.State = k.head(), state
		require.NoError(t, s.closeBoth(t.Context(), rec, "never began"))
		require.Empty(t, k.Mutations())
		_, err := s.Begin(t.Context(), rec)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, s.closeBoth(t.Context(), rec, "3 of 3 attempts spent"))
		}
		check := k.Checks(100)[0]
		require.Equal(t, want, [2]string{check.Conclusion, check.Title})
		require.Len(t, k.Comments(100, 7), 1)
		require.Contains(t, k.Comments(100, 7)[0].Body, "3 of 3 attempts spent")
		require.Equal(t, 1, k.Count(githubtest.OpEditComment), "closing again edits nothing")
	}
	k := newKit(t)
	require.Error(t, k.surfaces(t, SurfacesOptions{}).CloseCheck(t.Context(), k.fix("t1"), "it runs"))
	require.Error(t, k.surfaces(t, SurfacesOptions{}).CloseComment(t.Context(), k.fix("t1"), "it runs"))
}

// TestCloseShowsAResultThatFinishCouldNot: GitHub was away when it came.
func TestCloseShowsAResultThatFinishCouldNot(t *testing.T) {
	t.Parallel()
	for status, want := range map[task.ResultStatus]string{
		task.ResultSuccess: "success", task.ResultPartial: "neutral", task.ResultFailure: "failure", task.ResultNeedsInput: "action_required",
	} {
		k := newKit(t)
		s := k.surfaces(t, SurfacesOptions{})
		rec := k.fix("t1")
		rec.HeadSHA = k.head()
		n, err := s.Begin(t.Context(), rec)
		require.NoError(t, err)
		k.Fail(githubtest.Fault{Kind: githubtest.ErrorBefore, Times: -1})
		_, err = n.Finish(t.Context(), Outcome{Status: status, Summary: "Mended."})
		require.ErrorIs(t, err, ErrTransient)
		k.Heal()
		rec.State, rec.ResultStatus, rec.Summary, rec.PRNumber, rec.PRURL = task.Completed, status, "Mended.", 9, "https://g.example/9"
		if status == task.ResultFailure {
			rec.State = task.Failed
		}
		require.NoError(t, s.closeBoth(t.Context(), rec, ""))
		require.Equal(t, want, k.Checks(100)[0].Conclusion)
		require.Contains(t, k.Comments(100, 7)[0].Body, "Mended.\n\nPull request: [#9](https://g.example/9)")
	}
}

// TestDT94CancelIsAnsweredWithTheCount below what the comment said, with no
// check run; and so are the other answers.
func TestDT94CancelIsAnsweredWithTheCount(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.surfaces(t, SurfacesOptions{})
	n, err := s.Begin(t.Context(), k.review("t1", githubtest.SHA("h1")))
	require.NoError(t, err)
	_, err = n.Finish(t.Context(), reviewed())
	require.NoError(t, err)
	cancel := k.review("t2", "")
	cancel.Kind = task.Kind{Name: task.CancelReviews, PRNumber: 8}
	for _, text := range []string{CancelledText(2), DeclinedText("mallory"), StatusText([]task.Record{k.fix("t1")})} {
		_, err := s.Reply(t.Context(), cancel, text)
		require.NoError(t, err)
		all := k.Comments(100, 8)
		require.Len(t, all, 1)
		require.Contains(t, all[0].Body, "Looks good.")
		require.Contains(t, all[0].Body, text)
	}
	require.NotContains(t, k.Comments(100, 8)[0].Body, "Cancelled 2", "one answer at a time")
	require.Len(t, k.Checks(100), 1)
	_, err = s.Begin(t.Context(), k.review("t3", githubtest.SHA("h1")))
	require.NoError(t, err)
	require.NotContains(t, k.Comments(100, 8)[0].Body, replyOpen, "a task that begins drops it")
}

// TestOneSurfaceThatFailsKeepsNoOtherOpen: the comment is refused, the check
// run is closed all the same.
func TestOneSurfaceThatFailsKeepsNoOtherOpen(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n, err := k.surfaces(t, SurfacesOptions{}).Begin(t.Context(), k.fix("t1"))
	require.NoError(t, err)
	k.Fail(githubtest.Fault{Op: githubtest.OpEditComment, Kind: githubtest.ErrorBefore, Status: 403, Times: -1})
	o := fixed()
	o.Branch = "never-pushed"
	_, err = n.Finish(t.Context(), o)
	require.ErrorIs(t, err, ErrForbidden)
	check := k.Checks(100)[0]
	require.Equal(t, "neutral", check.Conclusion, "commits were promised, but there is no pull request")
	require.Contains(t, check.Summary, "No pull request could be opened")
}

// TestAPushHasACheckRunAndNoComment: custom tasks may be about no thread.
func TestAPushHasACheckRunAndNoComment(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.fix("t1")
	r.Kind = task.Kind{Name: task.Custom, Custom: task.CustomKind{Name: "nightly", Event: "push", After: githubtest.SHA("h1")}}
	r.Number = 0
	n, err := k.surfaces(t, SurfacesOptions{}).Begin(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, githubtest.SHA("h1"), n.Head)
	_, err = n.Finish(t.Context(), Outcome{Status: task.ResultNeedsInput, ExitReason: "ambiguous_spec"})
	require.NoError(t, err)
	require.Equal(t, "action_required", k.Checks(100)[0].Conclusion)
	require.Equal(t, "belay/fam/nightly", k.Checks(100)[0].Name, "two rules on one commit are told apart")
	require.Zero(t, k.Count(githubtest.OpCreateComment))
}

// TestACustomTaskShowsItselfWhereItsEventIs: without a commit there is no check
// run, and without a thread too there is nothing, nor anything to close.
func TestACustomTaskShowsItselfWhereItsEventIs(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	pins := 0
	s := k.surfaces(t, SurfacesOptions{Pin: func(context.Context, task.Record, string) error { pins++; return nil }})
	r := k.fix("t1")
	r.HeadSHA = ""
	r.Kind = task.Kind{Name: task.Custom, Custom: task.CustomKind{Name: "triage", Event: "issues", Number: r.Number}}
	n, err := s.Begin(t.Context(), r)
	require.NoError(t, err)
	_, err = n.Finish(t.Context(), Outcome{Status: task.ResultSuccess, Summary: "Sorted."})
	require.NoError(t, err)
	require.Equal(t, 1, pins)
	require.Empty(t, k.Checks(100))
	require.Equal(t, 1, k.Count(githubtest.OpCreateComment))
	r.State = task.Completed
	require.NoError(t, s.CloseCheck(t.Context(), r, ""))

	before := k.Requests("")
	r.ID, r.State, r.Number, r.Kind.Custom = "t2", task.Running, 0, task.CustomKind{Name: "starred", Event: "star"}
	n, err = s.Begin(t.Context(), r)
	require.NoError(t, err)
	_, err = n.Finish(t.Context(), Outcome{Status: task.ResultSuccess})
	require.NoError(t, err)
	require.Equal(t, 1, pins, "nothing is open that somebody had to close")
	require.Equal(t, before, k.Requests(""))
}

// TestWhatHasNoRepositoryHasNoSurfaces refuses before anything is sent.
func TestWhatHasNoRepositoryHasNoSurfaces(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.surfaces(t, SurfacesOptions{Pin: func(context.Context, task.Record, string) error { return errors.New("lost") }})
	for _, change := range []func(*task.Record){
		func(r *task.Record) { r.InstallationID = 0 }, func(r *task.Record) { r.RepoID = 0 }, func(r *task.Record) { r.Repo = "acme" },
		func(r *task.Record) { r.Repo = "acme/a/b" }, func(r *task.Record) { r.Repo = "acme/.." },
	} {
		r := k.fix("t1")
		change(&r)
		_, err := s.Begin(t.Context(), r)
		require.Error(t, err)
	}
	require.Zero(t, k.Requests(""))
	_, err := s.Begin(t.Context(), k.fix("t1"))
	require.ErrorContains(t, err, "lost")
	require.Empty(t, k.Mutations(), "no check run for a head that is not kept")
	require.True(t, strings.HasPrefix(err.Error(), "keep the head"))
}
