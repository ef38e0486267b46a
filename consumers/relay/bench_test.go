package relay

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
)

// BenchmarkThroughput sends to a fast local receiver over a store that syncs
// every write. The records are there before; an op is one of them delivered.
func BenchmarkThroughput(b *testing.B) {
	g := newRig(b, natstest.New(b, natstest.WithSyncAlways()))
	var got sync.WaitGroup
	got.Add(b.N)
	rx := newReceiver(b, nil)
	g.callback("ci", rx.URL)
	fill(g, "r", b.N, "callback:ci", "fast")
	b.ResetTimer()
	g.start(func(o *Options) { o.Finished = func(outbox.Record, Verdict) { got.Done() } })
	got.Wait()
	b.StopTimer()
	require.Equal(b, b.N, rx.total())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
}

// fill puts n pending records, many at once.
func fill(g *rig, prefix string, n int, channel, to string) {
	g.t.Helper()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			g.put(outbox.ID(fmt.Sprintf("%s%d", prefix, i)), channel, toward(to))
		})
	}
	wg.Wait()
	natstest.Eventually(g.t, "the view to know them all", func() bool { return g.view.OutboxCounts().ByStatus[outbox.Pending] >= n })
}

// BenchmarkDeadRecipient measures what the others wait, from creation to the
// POST at their receiver, without and with 1,000 records queued for a
// recipient that accepts and never answers; the two runs alternate. An op is
// one record of the others, 20 ms apart.
func BenchmarkDeadRecipient(b *testing.B) {
	const queued = 1000
	g := [2]*rig{newRig(b, natstest.New(b, natstest.WithSyncAlways())), newRig(b, natstest.New(b, natstest.WithSyncAlways()))}
	release := make(chan struct{})
	dead := newReceiver(b, func(http.ResponseWriter, *http.Request) { <-release })
	b.Cleanup(func() { close(release) }) // before the receiver is closed, which waits
	var mu sync.Mutex
	arrived := map[string]chan time.Time{}
	rx := newReceiver(b, func(_ http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		arrived[req.Header.Get(HeaderID)] <- time.Now()
	})
	for _, r := range g {
		r.callback("dead", dead.URL, func(o *CallbackOptions) { o.Timeout = 10 * time.Second })
		r.callback("ci", rx.URL)
	}
	fill(g[1], "dead", queued, "callback:dead", "dead")
	for _, r := range g {
		r.start()
	}
	natstest.Eventually(b, "the dead one to be tried", func() bool { return dead.total() > 0 })
	var took [2][]time.Duration
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	b.ResetTimer()
	for i := range 2 * b.N {
		<-pace.C
		side := i % 2
		id := fmt.Sprint("live", i)
		at := make(chan time.Time, 1)
		mu.Lock()
		arrived[id] = at
		mu.Unlock()
		began := time.Now()
		g[side].put(outbox.ID(id), "callback:ci", toward(fmt.Sprint("live", i%7)))
		select {
		case end := <-at:
			took[side] = append(took[side], end.Sub(began))
		case <-time.After(30 * time.Second):
			b.Fatalf("%s never arrived", id)
		}
	}
	b.StopTimer()
	for side, name := range []string{"alone", "beside-dead"} {
		slices.Sort(took[side])
		b.ReportMetric(float64(took[side][len(took[side])*99/100].Microseconds())/1000, "p99-ms-"+name)
		b.ReportMetric(float64(took[side][len(took[side])/2].Microseconds())/1000, "p50-ms-"+name)
	}
}
