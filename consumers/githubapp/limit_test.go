package githubapp

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// TestX07WritesOfOneInstallationAreASecondApart has 100 tasks comment at once.
func TestX07WritesOfOneInstallationAreASecondApart(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for n := range 100 {
		k.AddIssue(100, githubtest.Issue{Number: 1000 + n, Title: "x"})
	}
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			if _, err := k.client.EnsureComment(t.Context(), k.thread(1000+n), "hello"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	writes := k.Mutations()
	require.Len(t, writes, 100)
	for i := 1; i < len(writes); i++ {
		require.GreaterOrEqual(t, writes[i].At.Sub(writes[i-1].At), writeGap)
	}
}

// other is a second installation with a repository of its own.
func (k *kit) other() Repo {
	k.AddInstallation(20, "umbrella")
	k.AddRepo(20, githubtest.Repo{ID: 200, Owner: "umbrella", Name: "web"})
	return Repo{Installation: 20, ID: 200, Owner: "umbrella", Name: "web"}
}

// TestX07ALimitParksItsInstallationOnly by a 403 with Retry-After.
func TestX07ALimitParksItsInstallationOnly(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	other := k.other()
	k.Fail(githubtest.Fault{Op: githubtest.OpRef, Kind: githubtest.SecondaryLimit, RetryAfter: 90 * time.Second})
	start := k.clock.Now()
	_, err := k.client.BranchHead(t.Context(), k.repo, "main")
	var limit *RateLimitError
	require.ErrorAs(t, err, &limit)
	require.Equal(t, &RateLimitError{Scope: Secondary, Installation: 10, Until: start.Add(90 * time.Second), Status: 403}, limit)
	require.Empty(t, k.clock.slept, "nobody sleeps on a limit")

	until, reason := k.client.Parked(10)
	require.Equal(t, limit.Until, until)
	require.Contains(t, reason, "secondary")
	require.NotContains(t, reason, "10 ", "no installation in what people see")
	until, reason = k.client.Parked(20)
	require.Zero(t, until)
	require.Empty(t, reason)
	_, err = k.client.BranchHead(t.Context(), other, "main")
	require.NoError(t, err, "another installation goes on")

	parked, _ := k.gauge(t, "belay_github_parked_installations", "secondary")
	require.Equal(t, 1.0, parked)
	end, _ := k.gauge(t, "belay_github_parked_until_timestamp_seconds", "secondary")
	require.Equal(t, float64(limit.Until.Unix()), end)
	k.clock.Advance(90 * time.Second)
	_, err = k.client.BranchHead(t.Context(), k.repo, "main")
	require.NoError(t, err)
	parked, _ = k.gauge(t, "belay_github_parked_installations", "secondary")
	require.Zero(t, parked)
}

// TestX08ASecondaryLimitWithoutATimeIsAMinuteAndDoubles, and starts anew
// after a write succeeded, but not after a read.
func TestX08ASecondaryLimitWithoutATimeIsAMinuteAndDoubles(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 429} {
		k := newKit(t)
		hit := func() time.Duration {
			k.Fail(githubtest.Fault{Op: githubtest.OpRef, Kind: githubtest.SecondaryLimit, Status: status})
			start := k.clock.Now()
			_, err := k.client.BranchHead(t.Context(), k.repo, "main")
			var limit *RateLimitError
			require.ErrorAs(t, err, &limit)
			return limit.Until.Sub(start)
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			require.Equal(t, want*time.Minute, hit())
			k.clock.Advance(want * time.Minute)
			_, err := k.client.DefaultBranch(t.Context(), k.repo)
			require.NoError(t, err)
		}
		_, err := k.client.EnsureComment(t.Context(), k.thread(7), "hello")
		require.NoError(t, err)
		require.Equal(t, time.Minute, hit())
	}
}

// TestX08TheResetCountsIfThatIsAllThereIs without Retry-After and remaining.
func TestX08TheResetCountsIfThatIsAllThereIs(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	at := k.clock.Now().Add(17 * time.Minute)
	k.Fail(githubtest.Fault{Op: githubtest.OpRef, Kind: githubtest.SecondaryLimit, Reset: at})
	_, err := k.client.BranchHead(t.Context(), k.repo, "main")
	require.ErrorIs(t, err, ErrRateLimited)
	until, _ := k.client.Parked(10)
	require.True(t, at.Equal(until))
}

// TestX08ManyAnswersOfOneLimitAreOneStrike: calls under way at once meet one
// limit, which does not double for each.
func TestX08ManyAnswersOfOneLimitAreOneStrike(t *testing.T) {
	t.Parallel()
	c := &clock{at: time.Unix(1e9, 0)}
	l := newLimits(c.Now)
	for range 5 {
		l.park(1, &RateLimitError{Scope: Secondary})
	}
	var limit *RateLimitError
	require.True(t, errors.As(l.check(1), &limit))
	require.Equal(t, c.Now().Add(time.Minute), limit.Until)
	l.park(1, &RateLimitError{Scope: Primary, Until: c.Now().Add(time.Second)})
	require.True(t, errors.As(l.check(1), &limit))
	require.Equal(t, Secondary, limit.Scope, "the longer one stays")
}

// TestX09NothingRemainingParksUntilTheReset, whether GitHub refuses or
// answers with the last request there is.
func TestX09NothingRemainingParksUntilTheReset(t *testing.T) {
	t.Parallel()
	for kind, refused := range map[githubtest.FaultKind]bool{githubtest.PrimaryLimit: true, githubtest.Exhausted: false} {
		k := newKit(t)
		other := k.other()
		at := k.clock.Now().Add(20 * time.Minute)
		k.Fail(githubtest.Fault{Op: githubtest.OpRef, Kind: kind, Reset: at})
		_, err := k.client.BranchHead(t.Context(), k.repo, "main")
		require.Equal(t, refused, err != nil, "%v", err)
		n := k.Requests("")
		_, err = k.client.BranchHead(t.Context(), k.repo, "main")
		var limit *RateLimitError
		require.ErrorAs(t, err, &limit)
		require.Equal(t, Primary, limit.Scope)
		require.True(t, at.Equal(limit.Until))
		require.Contains(t, limit.Reason(), at.UTC().Format(time.RFC3339))
		require.Equal(t, n, k.Requests(""))
		_, err = k.client.BranchHead(t.Context(), other, "main")
		require.NoError(t, err)

		left, ok := k.gauge(t, "belay_github_rate_limit_remaining")
		require.True(t, ok)
		require.Zero(t, left, "the App's gauge is the one with fewest left")
		end, _ := k.gauge(t, "belay_github_rate_limit_reset_timestamp_seconds")
		require.Equal(t, float64(at.Unix()), end)
		k.clock.Advance(20 * time.Minute)
		_, err = k.client.BranchHead(t.Context(), k.repo, "main")
		require.NoError(t, err)
	}
}

// TestX09TheStandInCountsRequests: a real budget runs out.
func TestX09TheStandInCountsRequests(t *testing.T) {
	t.Parallel()
	k := newKit(t, func(o *githubtest.Options, _ *Options) { o.RateLimit = 3 })
	for i := range 3 {
		_, err := k.client.BranchHead(t.Context(), k.repo, "main")
		require.NoError(t, err, fmt.Sprint(i))
	}
	_, err := k.client.BranchHead(t.Context(), k.repo, "main")
	require.ErrorIs(t, err, ErrRateLimited)
	require.Equal(t, 3, k.Requests(githubtest.OpRef))
}

// TestX01MetricsHaveNoLabelOfAnybody lists all labels.
func TestX01MetricsHaveNoLabelOfAnybody(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	_, err := k.client.BranchHead(t.Context(), k.repo, "main")
	require.NoError(t, err)
	n, ok := k.gauge(t, "belay_github_requests_total", "read", "ok")
	require.True(t, ok)
	require.Equal(t, 1.0, n)
	families, err := k.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				require.Contains(t, []string{"effect", "outcome", "scope"}, l.GetName())
			}
		}
	}
}
