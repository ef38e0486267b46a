package githubapp

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// TestErrorsSayWhatToDo is the table of the package comment, over HTTP.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	status := func(n int) githubtest.Fault {
		return githubtest.Fault{Kind: githubtest.ErrorBefore, Status: n, Times: -1}
	}
	kind := func(f githubtest.FaultKind) githubtest.Fault { return githubtest.Fault{Kind: f, Times: -1} }
	for name, c := range map[string]struct {
		fault           githubtest.Fault
		edits, creation error
	}{
		"dropped":    {kind(githubtest.DropAfter), ErrTransient, ErrUnknown},
		"500":        {status(500), ErrTransient, ErrUnknown},
		"503":        {status(503), ErrTransient, ErrUnknown},
		"garbage":    {kind(githubtest.GarbageAfter), ErrTransient, ErrUnknown},
		"empty":      {kind(githubtest.EmptyAfter), ErrTransient, ErrUnknown},
		"401":        {status(401), ErrUnauthorized, ErrUnauthorized},
		"403":        {status(403), ErrForbidden, ErrForbidden},
		"451":        {status(451), ErrForbidden, ErrForbidden},
		"404":        {status(404), ErrNotFound, ErrNotFound},
		"410":        {status(410), ErrNotFound, ErrNotFound},
		"408":        {status(408), ErrTransient, ErrTransient},
		"409":        {status(409), ErrTransient, ErrTransient},
		"422":        {status(422), ErrValidation, ErrValidation},
		"400":        {status(400), ErrValidation, ErrValidation},
		"429":        {status(429), ErrRateLimited, ErrRateLimited},
		"secondary":  {kind(githubtest.SecondaryLimit), ErrRateLimited, ErrRateLimited},
		"no JSON id": {kind(githubtest.EmptyAfter), ErrTransient, ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			run, err := k.client.EnsureCheckRun(t.Context(), k.repo, k.check("t0"))
			require.NoError(t, err)
			k.Fail(with(c.fault, githubtest.OpUpdateCheck))
			k.Fail(with(c.fault, githubtest.OpCreateCheck))
			_, err = k.client.UpdateCheckRun(t.Context(), k.repo, run, "n", CheckUpdate{Status: StatusInProgress, Title: "t", Summary: "s"})
			require.ErrorIs(t, err, c.edits)
			k.clock.Advance(time.Hour)
			_, err = k.client.createCheckRun(t.Context(), k.repo, k.check("t1"))
			require.ErrorIs(t, err, c.creation)
			if c.creation == ErrUnknown {
				require.NotErrorIs(t, err, ErrTransient)
			}
		})
	}
}

func with(f githubtest.Fault, op string) githubtest.Fault {
	f.Op = op
	return f
}

// TestWhatWasNotSentIsTransient has nobody listen.
func TestWhatWasNotSentIsTransient(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	_, err := k.client.Token(t.Context(), k.repo, Orchestration)
	require.NoError(t, err)
	require.NoError(t, k.Close())
	k.client.Close()
	_, err = k.client.createCheckRun(t.Context(), k.repo, k.check("t1"))
	require.ErrorIs(t, err, ErrTransient)
	require.NotErrorIs(t, err, ErrUnknown)
	require.Equal(t, delays, k.clock.slept[:2], "tried three times")
}

// TestACancelledCallSaysSo keeps the context's error.
func TestACancelledCallSaysSo(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := k.client.BranchHead(ctx, k.repo, "main")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrTransient)
}

// TestG27ACommitThatIsNotThereYetIsTransient: a check run for a commit that
// GitHub learns of seconds later.
func TestG27ACommitThatIsNotThereYetIsTransient(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	spec := k.check("t1")
	spec.Head = githubtest.SHA("new")
	_, err := k.client.EnsureCheckRun(t.Context(), k.repo, spec)
	require.ErrorIs(t, err, ErrTransient)
	require.NotErrorIs(t, err, ErrValidation)
	k.SetBranch(100, "new", spec.Head)
	_, err = k.client.EnsureCheckRun(t.Context(), k.repo, spec)
	require.NoError(t, err)
	require.Len(t, k.Checks(100), 1)
}

// TestG27TheHeadIsTheBranchsNotTheMerges reads head.sha.
func TestG27TheHeadIsTheBranchsNotTheMerges(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p, err := k.client.Head(t.Context(), k.repo, 8)
	require.NoError(t, err)
	require.Equal(t, githubtest.SHA("h1"), p.HeadSHA)
	require.Equal(t, Pull{
		Number: 8, Title: "Mend it", State: "open", HeadSHA: githubtest.SHA("h1"), HeadRef: "mend", BaseRef: "main", Author: bob, URL: p.URL,
	}, p)
}

// TestTransientReadsAreTriedThrice and then given back.
func TestTransientReadsAreTriedThrice(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.Fail(githubtest.Fault{Op: githubtest.OpRef, Kind: githubtest.ErrorBefore, Times: 2})
	_, err := k.client.BranchHead(t.Context(), k.repo, "main")
	require.NoError(t, err)
	k.Fail(githubtest.Fault{Op: githubtest.OpRef, Kind: githubtest.ErrorBefore, Times: 3})
	_, err = k.client.BranchHead(t.Context(), k.repo, "main")
	require.ErrorIs(t, err, ErrTransient)
	require.Equal(t, 6, k.Requests(githubtest.OpRef))
}

// TestErrorsAreReadable has the words of one.
func TestErrorsAreReadable(t *testing.T) {
	t.Parallel()
	err := &Error{Kind: ErrForbidden, Op: "create comment", Status: http.StatusForbidden, Message: "Resource not accessible by integration"}
	require.EqualError(t, err, "create comment: forbidden (403): Resource not accessible by integration")
	require.EqualError(t, &Error{Kind: ErrTransient, Op: "get app", cause: errors.New("no route")}, "get app: github is not available: no route")
}
