package githubapp

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// creation is one of the things that belay creates on GitHub.
type creation struct {
	op   string
	make func(ctx context.Context, k *kit) error
	have func(k *kit) int
}

func creations() map[string]creation {
	return map[string]creation{
		"check run": {
			op: githubtest.OpCreateCheck,
			make: func(ctx context.Context, k *kit) error {
				_, err := k.client.EnsureCheckRun(ctx, k.repo, k.check("t1"))
				return err
			},
			have: func(k *kit) int { return len(k.Checks(100)) },
		},
		"comment": {
			op: githubtest.OpCreateComment,
			make: func(ctx context.Context, k *kit) error {
				_, err := k.client.EnsureComment(ctx, k.thread(7), "hello")
				return err
			},
			have: func(k *kit) int { return len(k.Comments(100, 7)) },
		},
		"pull request": {
			op: githubtest.OpCreatePull,
			make: func(ctx context.Context, k *kit) error {
				k.SetBranch(100, "fix/7", githubtest.SHA("fix"))
				_, _, err := k.client.EnsurePull(ctx, k.repo, PullSpec{Branch: "fix/7", Base: "main", Title: "Fix"})
				return err
			},
			have: func(k *kit) int { return len(k.Pulls(100)) - 1 },
		},
	}
}

// TestO15EffectsHappenOnceWhateverBecomesOfTheirAnswers loses the answer of
// each creation in each way, before and after the effect. A creation whose
// answer was lost is found; one that did not happen is unknown, and the next
// attempt makes it.
func TestO15EffectsHappenOnceWhateverBecomesOfTheirAnswers(t *testing.T) {
	t.Parallel()
	after := []githubtest.FaultKind{
		githubtest.DropAfter, githubtest.ErrorAfter, githubtest.TimeoutAfter, githubtest.EmptyAfter, githubtest.GarbageAfter,
	}
	before := []githubtest.FaultKind{githubtest.DropBefore, githubtest.ErrorBefore, githubtest.TimeoutBefore}
	for name, c := range creations() {
		for _, fault := range append(after, before...) {
			t.Run(name+", "+string(fault), func(t *testing.T) {
				t.Parallel()
				k := newKit(t, func(_ *githubtest.Options, o *Options) { o.Timeout = 2 * time.Second })
				k.Fail(githubtest.Fault{Op: c.op, Kind: fault})
				err := c.make(t.Context(), k)
				if fault == githubtest.DropBefore || fault == githubtest.ErrorBefore || fault == githubtest.TimeoutBefore {
					require.ErrorIs(t, err, ErrUnknown)
					require.Equal(t, 1, k.Requests(c.op), "what is unknown is not tried again")
					require.Zero(t, c.have(k))
					err = c.make(t.Context(), k)
				}
				require.NoError(t, err)
				require.Equal(t, 1, c.have(k))
				require.Equal(t, 1, k.Count(c.op))
				require.NoError(t, c.make(t.Context(), k), "again")
				require.Equal(t, 1, k.Count(c.op))
			})
		}
	}
}

// TestO15WhatCannotBeFoundYetIsNotMadeAgain is an answer that is lost while
// the lists fail too: the caller hears unknown, and nothing is sent twice.
func TestO15WhatCannotBeFoundYetIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.Fail(githubtest.Fault{Op: githubtest.OpCreateCheck, Kind: githubtest.DropAfter})
	k.Fail(githubtest.Fault{Op: githubtest.OpListChecks, Kind: githubtest.ErrorBefore, Skip: 1, Times: -1})
	_, err := k.client.EnsureCheckRun(t.Context(), k.repo, k.check("t1"))
	require.ErrorIs(t, err, ErrUnknown)
	require.NotErrorIs(t, err, ErrTransient)
	require.Equal(t, 1, k.Count(githubtest.OpCreateCheck))
	k.Heal()
	_, err = k.client.EnsureCheckRun(t.Context(), k.repo, k.check("t1"))
	require.NoError(t, err)
	require.Len(t, k.Checks(100), 1)
}

// TestO18A401OnACommentIsARefusal is one 401: a new token, the same request
// once more, one comment.
func TestO18A401OnACommentIsARefusal(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.Fail(githubtest.Fault{Op: githubtest.OpCreateComment, Kind: githubtest.Unauthorized})
	got, err := k.client.EnsureComment(t.Context(), k.thread(7), "hello")
	require.NoError(t, err)
	require.NotZero(t, got.ID)
	require.Len(t, k.Comments(100, 7), 1)
	require.Equal(t, 2, k.Requests(githubtest.OpCreateComment))

	k.Fail(githubtest.Fault{Op: githubtest.OpCreateCheck, Kind: githubtest.Unauthorized, Times: 2})
	_, err = k.client.EnsureCheckRun(t.Context(), k.repo, k.check("t1"))
	require.ErrorIs(t, err, ErrUnauthorized)
	require.ErrorIs(t, err, ErrTransient)
	require.NotErrorIs(t, err, ErrUnknown)
	require.Empty(t, k.Checks(100))
}

// TestO16ALimitOnACreationIsARefusal: nothing happened, nothing is repeated,
// the installation is parked, and later it happens once.
func TestO16ALimitOnACreationIsARefusal(t *testing.T) {
	t.Parallel()
	for name, c := range creations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			k.Fail(githubtest.Fault{Op: c.op, Kind: githubtest.SecondaryLimit, RetryAfter: 30 * time.Second})
			require.ErrorIs(t, c.make(t.Context(), k), ErrRateLimited)
			require.Equal(t, 1, k.Requests(c.op))
			n := k.Requests("")
			require.ErrorIs(t, c.make(t.Context(), k), ErrRateLimited)
			require.Equal(t, n, k.Requests(""), "a parked installation costs no request")
			k.clock.Advance(30 * time.Second)
			require.NoError(t, c.make(t.Context(), k))
			require.Equal(t, 1, c.have(k))
		})
	}
}

// TestDT3TwoProcessesMakeOneOfEach runs two clients at once on one thread and
// one branch, as two processes would.
func TestDT3TwoProcessesMakeOneOfEach(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.SetBranch(100, "fix/7", githubtest.SHA("fix"))
	other := k.another(t, Options{})
	var all sync.WaitGroup
	for i := range 8 {
		c := k.client
		if i%2 == 1 {
			c = other
		}
		all.Go(func() {
			_, err := c.EnsureComment(t.Context(), k.thread(7), "hello")
			if err != nil {
				t.Error(err)
			}
			_, _, err = c.EnsurePull(t.Context(), k.repo, PullSpec{Branch: "fix/7", Base: "main", Title: "Fix"})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, k.Comments(100, 7), 1)
	require.Equal(t, 1, k.Count(githubtest.OpCreatePull))
}

// TestOneProcessMakesOneCommentAtOnce: within a process nobody even tries twice.
func TestOneProcessMakesOneCommentAtOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	held, looked := make(chan struct{}), make(chan struct{})
	k.Fail(githubtest.Fault{Op: githubtest.OpListComments, Kind: githubtest.Hold, Until: looked, Held: func() { close(held) }})
	var all sync.WaitGroup
	put := func() {
		if _, err := k.client.EnsureComment(t.Context(), k.thread(7), "hello"); err != nil {
			t.Error(err)
		}
	}
	all.Go(put)
	<-held
	for range 7 {
		all.Go(put)
	}
	require.Eventually(t, func() bool { return k.client.threads.waiting(k.thread(7).String()) == 8 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 1, k.Requests(githubtest.OpListComments), "the others wait")
	close(looked)
	all.Wait()
	require.Equal(t, 1, k.Count(githubtest.OpCreateComment))
	require.Zero(t, k.client.threads.waiting(k.thread(7).String()))
}

// TestTwoProcessesThatBothCreatedTheCommentKeepTheOlder lets two processes
// see an empty thread before either creates.
func TestTwoProcessesThatBothCreatedTheCommentKeepTheOlder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	held, looked := make(chan struct{}, 2), make(chan struct{})
	k.Fail(githubtest.Fault{
		Op: githubtest.OpListComments, Kind: githubtest.Hold, Times: 2, Until: looked, Held: func() { held <- struct{}{} },
	})
	other := k.another(t, Options{})
	var all sync.WaitGroup
	for _, c := range []*Client{k.client, other} {
		all.Go(func() {
			if _, err := c.EnsureComment(t.Context(), k.thread(7), "hello"); err != nil {
				t.Error(err)
			}
		})
	}
	<-held
	<-held
	close(looked)
	all.Wait()
	require.Equal(t, 2, k.Count(githubtest.OpCreateComment))
	require.Equal(t, 1, k.Count(githubtest.OpDeleteComment))
	require.Len(t, k.Comments(100, 7), 1)
}
