package relay

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

func TestOB6OB8OB28OB29OB30Verdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers  []Answer
		status   outbox.Status
		attempts int
		tries    int
		err      string
	}{
		"accepted at once":     {[]Answer{{Verdict: Delivered}}, outbox.Delivered, 1, 1, ""},
		"accepted at last":     {[]Answer{{Verdict: Refused, Reason: "503"}, {Verdict: Refused, Reason: "503"}, {Verdict: Delivered}}, outbox.Delivered, 3, 3, ""},
		"O05 refused":          {[]Answer{{Verdict: Refused, Reason: "500 a"}, {Verdict: Refused, Reason: "500 b"}, {Verdict: Refused, Reason: "500 c"}}, outbox.Failed, 3, 3, "500 c"},
		"O18 final":            {[]Answer{{Verdict: Final, Reason: "401"}}, outbox.Failed, 1, 1, "401"},
		"refused, then final":  {[]Answer{{Verdict: Refused, Reason: "503"}, {Verdict: Final, Reason: "400"}}, outbox.Failed, 2, 2, "400"},
		"O07 unrenderable":     {[]Answer{{Verdict: Unrenderable, Reason: "no body"}}, outbox.Failed, 0, 1, "render: no body"},
		"OB39 unknown":         {[]Answer{{Verdict: Unknown, Reason: "no answer"}}, outbox.Delivering, 1, 1, "no answer"},
		"no verdict":           {[]Answer{{}}, outbox.Delivering, 1, 1, ""},
		"refused, then silent": {[]Answer{{Verdict: Refused, Reason: "503"}, {Verdict: Unknown, Reason: "no answer"}}, outbox.Delivering, 2, 2, "no answer"},
		"asks for too long":    {[]Answer{{Verdict: Refused, Reason: "503", RetryAfter: 10 * time.Minute}}, outbox.Failed, 1, 1, "asked to wait 10m0s, at most 5m0s is waited: 503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, natstest.New(t))
			var n atomic.Int32
			ch := g.play("c", func(context.Context, Message) Answer { return c.answers[n.Add(1)-1] })
			type end struct {
				rec outbox.Record
				v   Verdict
			}
			ends := make(chan end, 1)
			g.start(func(o *Options) { o.Finished = func(r outbox.Record, v Verdict) { ends <- end{r, v} } })
			g.put("r", "c")
			told := <-ends
			require.Equal(t, g.find("r"), told.rec, "OB-40")
			require.Equal(t, c.status, told.rec.Status)
			require.Equal(t, c.attempts, told.rec.Attempts)
			require.Equal(t, c.err, told.rec.LastError)
			require.Len(t, ch.order(), c.tries)
		})
	}
}

func TestOB31UnregisteredChannelFailsWithoutSpin(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	g.start()
	g.put("r", "callback:gone")
	r := g.reaches("r", outbox.Failed)
	require.Equal(t, `channel "callback:gone" is not registered`, r.LastError)
	require.Zero(t, r.Attempts)
}

func TestOB28DefaultWaits(t *testing.T) {
	t.Parallel()
	o := newRig(t, natstest.New(t)).options()
	o.Waits = nil
	require.NoError(t, o.complete())
	require.Equal(t, []time.Duration{0, time.Second, 5 * time.Second}, o.Waits)
	require.Equal(t, 5*time.Minute, o.MaxRetryAfter)
	require.Equal(t, time.Minute, o.SweepEvery)
	for _, broken := range []func(*Options){func(o *Options) { o.Store = nil }, func(o *Options) { o.Boot = "" }, func(o *Options) { o.Channel = nil }} {
		bad := o
		broken(&bad)
		_, err := New(bad)
		require.Error(t, err)
	}
}

// O13: the wait that the recipient asks for is kept inside the claim, and
// shown by the record, which is not unknown meanwhile.
func TestO13RetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	var n atomic.Int32
	g.play("c", func(context.Context, Message) Answer {
		if n.Add(1) == 1 {
			return Answer{Verdict: Refused, Reason: "503", RetryAfter: 2 * time.Minute}
		}
		return Answer{Verdict: Delivered}
	})
	r := g.start()
	g.put("r", "c")
	natstest.Eventually(t, "the wait to be written down", func() bool { return !g.find("r").NotBefore.IsZero() })
	rec := g.find("r")
	require.InDelta(t, 120, rec.NotBefore.Sub(rec.UpdatedAt.Time).Seconds(), 1)
	require.False(t, rec.Unknown(g.now().Add(3*time.Minute)))
	require.True(t, rec.Unknown(g.now().Add(5*time.Minute)))
	// A stop does not wait for so long: nothing was delivered, and it says so.
	require.NoError(t, r.Stop(t.Context()))
	rec = g.find("r")
	require.Equal(t, outbox.Failed, rec.Status)
	require.Equal(t, "stopped before the next try; 503", rec.LastError)
	require.EqualValues(t, 1, n.Load())
}

// O13, O10: 410 disables the channel, visibly; what is pending stays so.
func TestO13GoneDisablesTheChannel(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	var gone atomic.Bool
	gone.Store(true)
	ch := g.play("callback:ci", func(context.Context, Message) Answer {
		if gone.Load() {
			return Answer{Verdict: Gone, Reason: "HTTP 410 Gone"}
		}
		return Answer{Verdict: Delivered}
	})
	g.play("callback:other", nil)
	told := make(chan string, 1)
	r := g.start(func(o *Options) { o.Disabled = func(channel, reason string) { told <- channel + " " + reason } })
	g.put("r", "callback:ci")
	require.Equal(t, "HTTP 410 Gone", g.reaches("r", outbox.Failed).LastError)
	require.Equal(t, "callback:ci HTTP 410 Gone", <-told)
	require.Len(t, r.Disabled(), 1)
	require.Equal(t, 1.0, metric(t, r, "belay_outbox_disabled_channels"))
	g.put("waits", "callback:ci")
	g.put("goes", "callback:other")
	g.reaches("goes", outbox.Delivered)
	g.seen("waits", outbox.Pending)
	g.offset.Store(int64(time.Hour))
	require.GreaterOrEqual(t, metric(t, r, "belay_outbox_oldest_pending_seconds"), 3600.0)
	require.Zero(t, ch.times("waits"))
	gone.Store(false)
	r.Enable("callback:ci")
	g.reaches("waits", outbox.Delivered)
	require.Empty(t, r.Disabled())
}

// An idempotent channel is sent again instead of unknown: inside the claim,
// and after the lease of one that died.
func TestIdempotentChannelsAreSentAgain(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	var n atomic.Int32
	edit := g.play("github:check", func(context.Context, Message) Answer {
		if n.Add(1) == 1 {
			return Answer{Verdict: Unknown, Reason: "no answer"}
		}
		return Answer{Verdict: Delivered}
	})
	edit.idempotent = true
	post := g.play("callback:ci", nil)
	for _, id := range []outbox.ID{"edit", "post"} {
		g.put(id, map[outbox.ID]string{"edit": "github:check", "post": "callback:ci"}[id])
		_, won, err := g.store.Claim(t.Context(), id, "dead")
		require.NoError(t, err)
		require.True(t, won)
	}
	r := g.start()
	g.put("live", "github:check")
	require.Equal(t, 2, g.reaches("live", outbox.Delivered).Attempts)
	require.NoError(t, r.Sweep(t.Context()))
	require.Zero(t, edit.times("edit"), "OB-33: its lease is not over")
	g.offset.Store(int64(outbox.Lease) + int64(time.Second))
	natstest.Eventually(t, "the lapsed claim to be taken over", func() bool {
		require.NoError(t, r.Sweep(t.Context()))
		return g.find("edit").Status == outbox.Delivered
	})
	require.Zero(t, post.times("post"), "OB-33: what is not idempotent never")
	require.Equal(t, outbox.Delivering, g.find("post").Status)
}

// A recipient of an idempotent channel that is away, or limits us, for longer
// than a claim holds its seat gets it later; the bound is on the tries.
func TestO16IdempotentChannelsOutlastALimit(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]Answer{
		"away":    {Verdict: Refused, Reason: "502"},
		"limited": {Verdict: Refused, Reason: "rate limit", RetryAfter: 40 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, natstest.New(t))
			var back atomic.Bool
			edit := g.play("github:check", func(context.Context, Message) Answer {
				if back.Load() {
					return Answer{Verdict: Delivered}
				}
				return a
			})
			edit.idempotent = true
			r := g.start()
			g.put("edit", "github:check")
			natstest.Eventually(t, "it to be put off", func() bool {
				return g.find("edit").Attempts > 0 && r.Progress().InFlight == 0
			})
			rec := g.find("edit")
			require.Equal(t, outbox.Delivering, rec.Status)
			require.Equal(t, a.Reason, rec.LastError)
			back.Store(true)
			tries := edit.times("edit")
			g.offset.Store(int64(outbox.Lease) - int64(10*time.Second) + int64(a.RetryAfter))
			require.NoError(t, r.Sweep(t.Context()))
			require.Equal(t, tries, edit.times("edit"), "the limit is kept")
			g.offset.Add(int64(20 * time.Second))
			natstest.Eventually(t, "it to be taken up again", func() bool {
				require.NoError(t, r.Sweep(t.Context()))
				return g.find("edit").Status == outbox.Delivered
			})
		})
	}
}

// OB-51: neither secrets nor tokens reach the record.
func TestOB51ReasonsAreRedacted(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	token := "ghs_" + strings.Repeat("A1", 20)
	g.play("c", func(context.Context, Message) Answer { return Answer{Verdict: Final, Reason: "bad token " + token} })
	g.play("p", func(context.Context, Message) Answer { panic("lost " + token) })
	g.start()
	g.put("r", "c")
	require.Equal(t, "bad token [redacted-token]", g.reaches("r", outbox.Failed).LastError)
	g.put("p", "p")
	natstest.Eventually(t, "the panic to be noted", func() bool { return g.find("p").Attempts == 1 })
	require.Contains(t, g.find("p").LastError, "channel panicked: lost [redacted-token]", "a panic is no answer")
	require.NotContains(t, g.find("p").LastError, token)
}

// The store is away when the outcome is known: it is written when it is back.
func TestOutcomeWaitsForTheStore(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	ch := g.play("c", nil)
	var down atomic.Bool
	var failed atomic.Int32
	g.store.SetHooks(&kv.Hooks{Before: func(context.Context, string, string) error {
		if down.Load() && failed.Add(1) < 5 {
			return errors.Join(kv.ErrFull, errors.New("no room"))
		}
		return nil
	}})
	g.start(func(o *Options) { o.Hooks = &Hooks{Answered: func(outbox.ID, Answer) { down.Store(true) }} })
	g.put("r", "c")
	natstest.Eventually(t, "the store to be back", func() bool { return failed.Load() >= 5 })
	g.reaches("r", outbox.Delivered)
	require.Equal(t, 1, ch.times("r"))
}

// A record that is purged while its holder waits for the next try is not sent.
func TestOB54PurgedRecordIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	ch := g.play("c", func(context.Context, Message) Answer { return Answer{Verdict: Refused, Reason: "503"} })
	var updates atomic.Int32
	var once sync.Once
	waiting, purged := make(chan struct{}), make(chan struct{})
	g.store.SetHooks(&kv.Hooks{
		Before: func(_ context.Context, op, _ string) error {
			if op == "get" && updates.Load() == 2 { // the claim and the first try are written down
				once.Do(func() { close(waiting); <-purged })
			}
			return nil
		},
		After: func(_ context.Context, op, _ string) error {
			if op == "update" {
				updates.Add(1)
			}
			return nil
		},
	})
	r := g.start()
	g.put("r", "c", of("t", 1))
	<-waiting
	other, err := kv.OpenOutboxStore(t.Context(), g.js, g.now)
	require.NoError(t, err)
	n, err := other.PurgeTask(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	close(purged)
	natstest.Eventually(t, "the delivery to end", func() bool { return r.Progress().InFlight == 0 })
	require.Equal(t, 1, ch.times("r"))
}

// A claim that was held up until its lease may soon be over is renewed before
// anything is sent; one that was resolved meanwhile is not sent at all.
func TestHeldUpClaimIsNotSent(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	ch := g.play("c", nil)
	var once sync.Once
	resume := make(chan struct{})
	stalled := make(chan struct{})
	r := g.start(func(o *Options) {
		o.Hooks = &Hooks{Claimed: func(outbox.ID) { once.Do(func() { close(stalled); <-resume }) }}
	})
	g.put("r", "c")
	<-stalled
	g.offset.Store(int64(outbox.Lease) + int64(time.Second))
	_, _, err := g.store.Resolve(t.Context(), "r", outbox.ResolveFailed, "not there", "ann")
	require.NoError(t, err)
	close(resume)
	natstest.Eventually(t, "the delivery to end", func() bool { return r.Progress().InFlight == 0 })
	require.Zero(t, ch.times("r"))
	require.Equal(t, outbox.Failed, g.find("r").Status)
}

// OB-37: whatever happens to a delivery, the task stays as it ended.
func TestOB37OB38FailureLeavesTheTaskAlone(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	rec := g.ended("d1")
	g.play("callback:ci", func(context.Context, Message) Answer { return Answer{Verdict: Final, Reason: "no"} })
	g.start()
	id := outbox.DerivedID(string(rec.ID), 1)
	g.reaches(id, outbox.Failed)
	after, _, err := g.tasks.Get(t.Context(), rec.InstallationID, rec.ID)
	require.NoError(t, err)
	require.Equal(t, rec, after)
}

// ended writes a terminal task with one intent, as a process does that is
// killed before it derives the record.
func (g *rig) ended(delivery string) task.Record {
	g.t.Helper()
	at := task.At(time.Now())
	rec := task.Record{
		V: task.Version, ID: kv.TaskID("default", delivery), Source: "default", DeliveryID: task.DeliveryID(delivery), InstallationID: 7,
		Repo: "acme/api", FamiliarID: "cody", Kind: task.Kind{Name: task.FixIssue, IssueNumber: 1}, State: task.Completed, Title: "T",
		CloneURL: "https://github.com/acme/api.git", CreatedAt: at, UpdatedAt: at,
	}
	in, err := CallbackIntent(rec, 1, "ci", "to")
	require.NoError(g.t, err)
	rec.Intents = []task.Intent{in}
	_, err = g.tasks.Create(context.Background(), rec)
	require.NoError(g.t, err)
	natstest.Eventually(g.t, "the view to see the intents", func() bool { return len(g.view.Underived(9)) > 0 })
	return rec
}
