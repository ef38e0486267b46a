package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
)

// metric is the sum of a metric's series.
func metric(t testing.TB, r *Relay, name string) (sum float64) {
	t.Helper()
	all, err := r.o.Registerer.(*prometheus.Registry).Gather()
	require.NoError(t, err)
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}

// OB-19, OB-32, OB-56: two relays, each with its own connection, meet before
// the claim's CAS; one POST.
func TestOB19TwoRelaysRaceOnOneRecord(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	rx := newReceiver(t, nil)
	var meet sync.WaitGroup
	meet.Add(2)
	var races atomic.Int32
	var relays []*Relay
	rigs := []*rig{newRig(t, env), newRig(t, env)}
	for _, g := range rigs {
		g.callback("ci", rx.URL)
		var once sync.Once
		g.store.SetHooks(&kv.Hooks{Before: func(_ context.Context, op, _ string) error {
			if op == "update" {
				once.Do(func() { races.Add(1); meet.Done(); meet.Wait() })
			}
			return nil
		}})
		relays = append(relays, g.start())
	}
	rigs[0].put("r", "callback:ci")
	rigs[0].reaches("r", outbox.Delivered)
	natstest.Eventually(t, "both to come to an end", func() bool {
		return metric(t, relays[0], "belay_outbox_claims_total")+metric(t, relays[1], "belay_outbox_claims_total") >= 2
	})
	require.EqualValues(t, 2, races.Load(), "both were before the CAS")
	require.Equal(t, 1, rx.times("r"))
}

// OB-35, O01: what a dead process left underived is derived and sent.
func TestO01OB35SweepAtTheStart(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	rx := newReceiver(t, nil)
	g.callback("ci", rx.URL)
	rec := g.ended("d1")
	id := outbox.DerivedID(string(rec.ID), 1)
	g.put("old", "callback:ci")
	g.start()
	g.reaches(id, outbox.Delivered)
	g.reaches("old", outbox.Delivered)
	require.Equal(t, 1, rx.times(id))
	require.Empty(t, g.view.Underived(9))
}

func TestOB35FailingPassGoesOn(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	ch := g.play("c", nil)
	passes := make(chan struct{}, 100)
	r := g.start(func(o *Options) {
		o.SweepEvery = 5 * time.Millisecond
		o.Derive = func(context.Context) error { passes <- struct{}{}; return errors.New("no store") }
	})
	for range 3 {
		<-passes
	}
	g.put("r", "c")
	g.reaches("r", outbox.Delivered)
	require.Equal(t, 1, ch.times("r"))
	require.GreaterOrEqual(t, testutil.ToFloat64(r.m.sweeps.WithLabelValues("failed")), 2.0)
}

// OB-33, OB-10: a sweep sends pending ones, and no others ever.
func TestOB10OB33SweepAndReplaySendNothingElse(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	ch := g.play("c", nil)
	for _, s := range outbox.Statuses {
		id := outbox.ID(s)
		g.put(id, "c", of("t", 1), toward(string(s)))
		if s != outbox.Pending {
			_, _, err := g.store.Claim(t.Context(), id, "b")
			require.NoError(t, err)
		}
		var err error
		switch s {
		case outbox.Delivered:
			_, err = g.store.MarkDelivered(t.Context(), id)
		case outbox.Failed:
			_, err = g.store.MarkFailed(t.Context(), id, "no")
		}
		require.NoError(t, err)
	}
	r := g.start()
	g.reaches("pending", outbox.Delivered)
	require.NoError(t, r.Sweep(t.Context()))
	replay(t, g)
	_, err := g.store.PurgeTask(t.Context(), "t")
	require.NoError(t, err)
	require.NoError(t, r.Sweep(t.Context()))
	replay(t, g) // of nothing but the marks of purged records
	g.put("last", "c")
	g.reaches("last", outbox.Delivered)
	require.Equal(t, []outbox.ID{"pending", "last"}, ch.order())
}

// O09: a deleted consumer is made again and sends resume.
func TestO09ConsumerIsMadeAgain(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	g.play("c", nil)
	g.start()
	for i := range 3 {
		require.NoError(t, g.js.DeleteConsumer(t.Context(), kv.StreamState, kv.ConsumerRelay))
		id := outbox.ID(fmt.Sprint("r", i))
		g.put(id, "c")
		g.reaches(id, outbox.Delivered)
		natstest.Eventually(t, "the consumer to be there again", func() bool {
			_, err := g.js.Consumer(context.Background(), kv.StreamState, kv.ConsumerRelay)
			return err == nil
		})
	}
}

// Where several processes send, the one that gets the message does not wait:
// here the clock stands still, so that the others' grace never ends.
func TestMessageWakesOneProcessAtOnce(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	g.play("c", nil)
	frozen := g.now()
	r := g.start(func(o *Options) { o.Alone, o.Now = false, func() time.Time { return frozen } })
	g.put("r", "c")
	g.reaches("r", outbox.Delivered)
	require.Equal(t, 1.0, testutil.ToFloat64(r.m.messages.WithLabelValues("pending")))
}

// Without its message a record is found by the view, after the grace that
// several processes leave each other.
func TestRecordIsSentWithoutItsMessage(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	ch := g.play("c", nil)
	g.put("r", "c")
	eaten := eatMessages(t, g.js)
	require.Equal(t, 1, eaten)
	g.start(func(o *Options) { o.Alone = false })
	g.reaches("r", outbox.Delivered)
	require.Equal(t, 1, ch.times("r"))
}

func eatMessages(t *testing.T, js jetstream.JetStream) (n int) {
	t.Helper()
	c, err := js.Consumer(t.Context(), kv.StreamState, kv.ConsumerRelay)
	require.NoError(t, err)
	batch, err := c.FetchNoWait(100)
	require.NoError(t, err)
	for m := range batch.Messages() {
		require.NoError(t, m.DoubleAck(t.Context()))
		n++
	}
	return n
}

// OB-34: records of one lane go out one after the other.
func TestOB34OrderWithinATaskAndRecipient(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	var busy, overlaps atomic.Int32
	ch := g.play("c", func(context.Context, Message) Answer {
		if busy.Add(1) > 1 {
			overlaps.Add(1)
		}
		defer busy.Add(-1)
		return Answer{Verdict: Delivered}
	})
	var want []outbox.ID
	for n := 12; n >= 1; n-- {
		want = append([]outbox.ID{outbox.DerivedID("t", n)}, want...)
		g.put(outbox.DerivedID("t", n), "c", of("t", n))
	}
	natstest.Eventually(t, "the view to know them all", func() bool { return g.view.OutboxCounts().ByStatus[outbox.Pending] == 12 })
	g.start()
	g.reaches("t-12", outbox.Delivered)
	require.Equal(t, want, ch.order())
	require.Zero(t, overlaps.Load())
}

// O12, OB-36: a recipient that accepts and never answers holds its seat until
// the timeout, delays nobody else, and does not hold up Start.
func TestO12OB36DeadRecipientDelaysNobody(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	release := make(chan struct{})
	dead := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	alive := newReceiver(t, nil)
	g.callback("dead", dead.URL, func(o *CallbackOptions) { o.Timeout = 300 * time.Millisecond })
	g.callback("alive", alive.URL)
	for i := range 40 {
		g.put(outbox.ID(fmt.Sprint("dead", i)), "callback:dead", toward("dead"))
	}
	natstest.Eventually(t, "the view to know them all", func() bool { return g.view.OutboxCounts().ByStatus[outbox.Pending] == 40 })
	r := g.start(func(o *Options) { o.Concurrency, o.PerRecipient = 8, 4 })
	natstest.Eventually(t, "the dead one to be tried", func() bool { return dead.total() > 0 })
	for i := range 20 {
		id := outbox.ID(fmt.Sprint("alive", i))
		g.put(id, "callback:alive", toward("alive"))
		g.reaches(id, outbox.Delivered)
		require.LessOrEqual(t, r.Progress().InFlight, 5)
	}
	natstest.Eventually(t, "seats to be freed and taken again", func() bool { return dead.total() > 5 })
	unknown := 0
	for i := range 40 {
		id := outbox.ID(fmt.Sprint("dead", i))
		require.LessOrEqual(t, dead.times(id), 1, "never again")
		if rec := g.find(id); rec.Status == outbox.Delivering && strings.Contains(rec.LastError, "no answer after the request was written") {
			unknown++
		}
	}
	require.Positive(t, unknown)
}

// A relay that is stopped leaves no goroutine, whatever it does, however often
// it is told.
func TestStartStopFromTenGoroutines(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	g.play("c", func(ctx context.Context, _ Message) Answer { <-ctx.Done(); return Answer{} })
	g.put("r", "c")
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			r, err := New(g.options())
			if err != nil {
				t.Error(err)
				return
			}
			r.Start()
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_ = r.Stop(ctx)
			_ = r.Stop(ctx)
		})
	}
	wg.Wait()
}

func TestStopWaitsForWhatIsBeingSent(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	started, release := make(chan struct{}), make(chan struct{})
	g.play("c", func(context.Context, Message) Answer { close(started); <-release; return Answer{Verdict: Delivered} })
	r := g.start()
	g.put("r", "c")
	<-started
	ended := make(chan error)
	go func() { ended <- r.Stop(context.Background()) }()
	natstest.Eventually(t, "the stop to begin", func() bool { return r.pull.Err() != nil })
	g.put("next", "c")
	close(release)
	require.NoError(t, <-ended)
	require.Equal(t, outbox.Delivered, g.find("r").Status)
	require.Equal(t, outbox.Pending, g.find("next").Status, "nothing new is begun")
}

// A stop that cannot wait gives up; what was being sent is unknown.
func TestStopGivesUp(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	started := make(chan struct{})
	g.play("c", func(ctx context.Context, _ Message) Answer {
		close(started)
		<-ctx.Done()
		return Answer{Verdict: Unknown, Reason: "no answer"}
	})
	r := g.start()
	g.put("r", "c")
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.Stop(ctx), context.Canceled)
	require.Equal(t, outbox.Delivering, g.find("r").Status)
	require.Equal(t, "no answer", g.find("r").LastError)
}

func TestFlush(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	ch := g.play("c", nil)
	r := g.start()
	for i := range 20 {
		g.put(outbox.ID(fmt.Sprint(i)), "c")
	}
	g.seen("19", outbox.Delivered)
	require.NoError(t, r.Flush(t.Context()))
	require.Len(t, ch.order(), 20)
	hold := make(chan struct{})
	defer close(hold)
	g.play("c", func(context.Context, Message) Answer { <-hold; return Answer{} })
	g.put("slow", "c")
	natstest.Eventually(t, "it to be sent", func() bool { return r.Progress().InFlight == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.Flush(ctx), context.Canceled)
}

func TestMetricsAreNamedAndLabelledFromClosedLists(t *testing.T) {
	t.Parallel()
	g := newRig(t, natstest.New(t))
	r := g.start()
	problems, err := testutil.GatherAndLint(r.o.Registerer.(*prometheus.Registry))
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, "callback", kind("callback:a customer's name"))
	require.Equal(t, "github", kind("github:comment"))
	require.Equal(t, "other", kind("x"))
}
