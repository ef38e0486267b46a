package consumers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
)

// TestG34AnyOKForTheGUIDWins whatever the order, over restarts and whatever
// page it is on.
func TestG34AnyOKForTheGUIDWins(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	again := func(d *githubtest.Delivery) { d.Redelivery = true }
	r.sent("early", 200, 90*time.Minute)
	r.mem.take("early")
	for i := range 150 {
		r.sent(fmt.Sprint("other", i), 200, 80*time.Minute, func(d *githubtest.Delivery) { d.Event = "star" })
	}
	r.sent("late", 502, 70*time.Minute)
	r.sent("late", 0, 60*time.Minute, again)
	r.sent("late", 200, 50*time.Minute, again)
	r.sent("early", 502, 40*time.Minute, again)
	r.mem.take("late")
	p := r.process()
	r.pass(p)
	require.Zero(t, r.asked())
	require.Equal(t, 0.0, r.metric("pending", ""))

	// A failed redelivery of what arrived before the cursor, for another process.
	p = r.process()
	r.clock.Advance(time.Hour)
	r.sent("early", 502, 10*time.Minute, again)
	lists := r.gh.Requests(githubtest.OpDeliveries)
	r.pass(p)
	require.Zero(t, r.asked())
	require.Equal(t, lists+1, r.gh.Requests(githubtest.OpDeliveries), "paging stops at the cursor")
	require.Zero(t, r.gh.Requests(githubtest.OpDelivery))
}

// TestG33OnlyRoutedEventsAreAskedFor of thousands, without reading a body.
func TestG33OnlyRoutedEventsAreAskedFor(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	for i := range 7000 {
		r.sent(fmt.Sprint("g", i), 502, time.Duration(7000-i)*20*time.Second, func(d *githubtest.Delivery) {
			switch { // 270 are routed, the others fail in one of the coordinates
			case i%25 == 0 && i < 270*25:
			case i%3 == 0:
				d.Event = "workflow_job"
			case i%3 == 1:
				d.Action = "opened"
			default:
				d.InstallationID = 8
			}
		})
	}
	p := r.process()
	for err := errMore; errors.Is(err, errMore); r.settled() {
		if err = p.Pass(t.Context()); err != nil {
			require.ErrorIs(t, err, errMore)
		}
	}
	require.Equal(t, 270, r.asked())
	require.Zero(t, r.gh.Requests(githubtest.OpDelivery), "no body is needed")
	require.LessOrEqual(t, r.gh.Requests(githubtest.OpDeliveries), 70+4*2, "70 pages once, then the news")
	for i := range 270 {
		require.True(t, r.mem.has(fmt.Sprint("g", i*25)))
	}
	r.pass(p)
	require.Equal(t, 270, r.asked())
	require.Equal(t, 0.0, r.metric("pending", ""))
	require.Equal(t, 0.0, r.metric("gap_seconds", ""))
	require.Equal(t, 270.0, r.metric("requests_total", askAccepted))
	require.Contains(t, r.logs.String(), `"count":270`)
}

// TestG33AGapOlderThanGitHubKeepsIsLoud.
func TestG33AGapOlderThanGitHubKeepsIsLoud(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	p := r.process()
	r.pass(p)
	r.clock.Advance(71 * time.Hour)
	r.pass(p)
	require.Equal(t, 0.0, r.metric("gaps_total", ""), "what is still listed is no gap")
	r.clock.Advance(73 * time.Hour)
	r.pass(p)
	require.Equal(t, 1.0, r.metric("gaps_total", ""))
	require.Contains(t, r.logs.String(), "deliveries that failed while nobody looked are lost")
	r.pass(p)
	require.Equal(t, 1.0, r.metric("gaps_total", ""), "once a gap")
}

// TestDT55ADeliveryIsAskedForThreeTimesAtMost, ever more rarely, over
// restarts; then it is given up, by name.
func TestDT55ADeliveryIsAskedForThreeTimesAtMost(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	r.status.Store(http.StatusServiceUnavailable)
	r.sent("doomed", 502, 5*time.Minute)
	for i, pause := range []time.Duration{10 * time.Minute, 6 * time.Hour, 10 * time.Minute} {
		p := r.process()
		r.pass(p)
		require.Equal(t, i+1, r.asked())
		require.Equal(t, 1.0, r.metric("pending", string(verdictFailed)))
		r.clock.Advance(pause - time.Minute)
		r.pass(p)
		require.Equal(t, i+1, r.asked(), "before its pause is over")
		r.clock.Advance(time.Minute)
	}
	require.Greater(t, r.metric("gap_seconds", ""), 6*3600.0)
	p := r.process()
	r.pass(p)
	require.Equal(t, 3, r.asked())
	require.Equal(t, 1.0, r.metric("given_up_total", gaveUpTries))
	require.Equal(t, 1.0, r.metric("lost", ""))
	require.Equal(t, 0.0, r.metric("pending", ""))
	require.Contains(t, r.logs.String(), `"github_delivery_ids":["doomed"]`)
	r.clock.Advance(time.Hour)
	r.pass(p)
	require.Equal(t, 3, r.asked(), "given up is given up")

	r.status.Store(0) // a person has it delivered
	require.NoError(t, r.client.Redeliver(t.Context(), r.gh.Deliveries()[0].ID))
	r.settled()
	r.pass(p)
	require.Equal(t, 0.0, r.metric("lost", ""), "it arrived after all")
}

// TestDT56WhatIsUnderWayIsLeftAlone, and seen once it is not any more.
func TestDT56WhatIsUnderWayIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	r.sent("young", 502, 20*time.Second)
	r.sent("younger", 200, 10*time.Second, func(d *githubtest.Delivery) { d.Event = "star" })
	p := r.process()
	r.pass(p)
	require.Zero(t, r.asked())
	r.clock.Advance(time.Minute)
	r.pass(p)
	require.Equal(t, 1, r.asked())
}

// TestDT57WhatSomebodyElseAnsweredIsFound, and asked for only once a later
// delivery came here: else it would go to somebody else again.
func TestDT57WhatSomebodyElseAnsweredIsFound(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	r.sent("astray", 200, 30*time.Minute)
	r.sent("before", 200, 40*24*time.Hour)
	p := r.process()
	r.pass(p)
	require.Zero(t, r.asked())
	require.Equal(t, 1.0, r.metric("pending", string(verdictMissing)))
	r.clock.Advance(time.Hour)
	r.sent("here", 200, 5*time.Minute)
	r.mem.take("here")
	p = r.process()
	r.pass(p)
	require.Equal(t, 1, r.asked())
	require.True(t, r.mem.has("astray"))
	r.pass(p)
	require.Equal(t, 0.0, r.metric("pending", ""))
	require.Equal(t, 1, r.asked())
}

// TestDT57TheLogKnowsNothingOfBeforeItBegan: that is no reason to ask.
func TestDT57TheLogKnowsNothingOfBeforeItBegan(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	r.mem.began = r.clock.Now().Add(-time.Hour)
	r.sent("old", 200, 2*time.Hour)
	r.sent("old failure", 502, 2*time.Hour)
	r.sent("here", 200, 10*time.Minute)
	r.mem.take("here")
	p := r.process()
	r.pass(p)
	require.Equal(t, 1, r.asked())
	require.False(t, r.mem.has("old"))
	require.True(t, r.mem.has("old failure"))
}

// TestDT55ALimitParksThePollerAndNothingElse: a walk that it interrupts goes
// on at its page.
func TestDT55ALimitParksThePollerAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests} {
		r := newRedeliverRig(t)
		for i := range 350 {
			r.sent(fmt.Sprint("g", i), 502, time.Hour, func(d *githubtest.Delivery) {
				if i > 0 {
					d.Event = "star"
				}
			})
		}
		r.gh.Fail(githubtest.Fault{Op: githubtest.OpDeliveries, Skip: 0, Kind: githubtest.SecondaryLimit, Status: status, RetryAfter: 5 * time.Minute})
		p := r.process()
		err := p.Pass(t.Context())
		require.ErrorIs(t, err, githubapp.ErrRateLimited)
		require.InDelta(t, 5*60, p.after(err, 1).Seconds(), 5)
		err = p.Pass(t.Context())
		require.ErrorIs(t, err, githubapp.ErrRateLimited)
		require.Equal(t, 1, r.gh.Requests(githubtest.OpDeliveries), "github is left alone meanwhile")
		require.Equal(t, 1.0, r.metric("polls_total", pollLimited))
		r.clock.Advance(6 * time.Minute)
		r.pass(p)
		require.Equal(t, 1, r.asked())
		require.Equal(t, 5, r.gh.Requests(githubtest.OpDeliveries))
	}
}

// TestDT55ALimitedRequestIsNotOneOfTheThree.
func TestDT55ALimitedRequestIsNotOneOfTheThree(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	r.sent("g1", 502, time.Hour)
	p := r.process()
	for range 5 {
		r.gh.Fail(githubtest.Fault{Op: githubtest.OpRedeliver, Kind: githubtest.SecondaryLimit, RetryAfter: time.Minute})
		require.ErrorIs(t, p.Pass(t.Context()), githubapp.ErrRateLimited)
		r.clock.Advance(2 * time.Minute)
	}
	r.pass(p)
	require.True(t, r.mem.has("g1"))
	require.Equal(t, 5.0, r.metric("requests_total", askLimited))
}

// TestDT55WhatGitHubForgotIsGivenUp by name, and keeps nothing else waiting.
func TestDT55WhatGitHubForgotIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	r.sent("gone", 502, 2*time.Hour)
	r.sent("odd", 502, 90*time.Minute)
	r.sent("good", 502, time.Hour)
	r.gh.Fail(githubtest.Fault{Op: githubtest.OpRedeliver, Kind: githubtest.ErrorBefore, Status: http.StatusNotFound})
	r.gh.Fail(githubtest.Fault{Op: githubtest.OpRedeliver, Kind: githubtest.ErrorBefore, Status: http.StatusUnprocessableEntity})
	p := r.process()
	r.pass(p)
	require.True(t, r.mem.has("good"))
	require.Equal(t, 1.0, r.metric("given_up_total", gaveUpGone))
	require.Contains(t, r.logs.String(), `"github_delivery_ids":["gone"]`)
	require.Equal(t, 1.0, r.metric("requests_total", askInvalid))
}

// TestG32AKillAtAnyStepSkipsNothingAndAsksNotForEver: the process dies before
// or after each write to the store and each request to GitHub, the next one
// goes on.
func TestG32AKillAtAnyStepSkipsNothingAndAsksNotForEver(t *testing.T) {
	t.Parallel()
	steps := killedAt(t, 0, false)
	require.Greater(t, steps, 12)
	for n := 1; n <= steps; n++ {
		killedAt(t, n, false)
		killedAt(t, n, true)
	}
}

// killedAt kills a process at its nth step, 0 for never, and has others go on
// until all arrived. It returns the steps of the first one.
func killedAt(t *testing.T, nth int, after bool) int {
	r := newRedeliverRig(t)
	for i := range 3 {
		r.sent(fmt.Sprint("g", i), 502, time.Duration(10+i)*time.Minute)
	}
	killed := errors.New("killed")
	n, dead := 0, false
	step := func() error {
		if n++; n == nth {
			dead = true
		}
		if dead {
			return killed
		}
		return nil
	}
	hooks := &kv.Hooks{}
	if after {
		hooks.After = func(context.Context, string, string) error { return step() }
	} else {
		hooks.Before = func(context.Context, string, string) error { return step() }
	}
	p := r.process(func(o *RedelivererOptions) {
		o.Store.SetHooks(hooks)
		o.GitHub = killedLog{r.client, step, after}
	})
	for range 2 {
		if err := p.Pass(t.Context()); err != nil {
			require.ErrorIs(t, err, killed)
			break
		}
		r.settled()
	}
	first := n
	what := fmt.Sprintf("killed at step %d of %d, after it: %v", nth, first, after)
	for range 4 {
		r.settled()
		r.clock.Advance(11 * time.Minute)
		r.pass(r.process())
	}
	for i := range 3 {
		require.True(t, r.mem.has(fmt.Sprint("g", i)), what)
	}
	require.LessOrEqual(t, r.asked(), 3+1, "%s: at most the one whose answer was lost comes twice", what)
	require.Equal(t, 0.0, r.metric("pending", ""), what)
	require.Equal(t, 0.0, r.metric("lost", ""), what)
	return first
}

// killedLog dies at requests to GitHub.
type killedLog struct {
	HookLog
	step  func() error
	after bool
}

func (k killedLog) Redeliver(ctx context.Context, id int64) error {
	if !k.after {
		if err := k.step(); err != nil {
			return err
		}
	}
	if err := k.HookLog.Redeliver(ctx, id); err != nil || !k.after {
		return err
	}
	return k.step()
}

// TestDT55TwoProcessesAskOnce: even when both lead for a while, a try is
// claimed by one of them.
func TestDT55TwoProcessesAskOnce(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	for i := range 20 {
		r.sent(fmt.Sprint("g", i), 502, time.Hour)
	}
	var all sync.WaitGroup
	for range 2 {
		p := r.process()
		all.Go(func() {
			for range 3 {
				if err := p.Pass(t.Context()); err != nil && !errors.Is(err, kv.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r.settled()
	require.Equal(t, 20, r.asked())
}

// TestDT55ItPollsByItselfAndStops.
func TestDT55ItPollsByItselfAndStops(t *testing.T) {
	t.Parallel()
	r := newRedeliverRig(t)
	r.sent("g1", 502, time.Hour)
	p := r.process(func(o *RedelivererOptions) { o.Every = 10 * time.Millisecond })
	p.Start()
	natstest.Eventually(t, "the delivery to arrive", func() bool { return r.mem.has("g1") })
	natstest.Eventually(t, "the record to go", func() bool { return r.metric("pending", "") == 0 })
	require.Greater(t, r.metric("last_poll_timestamp_seconds", ""), 1e9)
	require.NoError(t, p.Stop(t.Context()))
	require.Equal(t, -1.0, r.metric("last_poll_timestamp_seconds", ""), "a process that does not lead shows nothing stale")
}
