package bench

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv/outbox"
)

const (
	// pace is the time between two samples.
	pace = 20 * time.Millisecond
	// others is how many recipients the samples go to, one after the other.
	others = 7
	// DeadTimeout is what a recipient gets that never answers.
	DeadTimeout = 10 * time.Second
)

// Wait is how long recipients waited, in milliseconds from a reply's creation
// to its request's arrival.
type Wait struct {
	P50 float64 `json:"p50Ms"`
	P99 float64 `json:"p99Ms"`
	Max float64 `json:"maxMs"`
}

// Dead is what recipients wait without and beside a dead one.
type Dead struct {
	Queued  int  `json:"queued"`  // replies for the dead one
	Samples int  `json:"samples"` // on each side
	Alone   Wait `json:"alone"`
	Beside  Wait `json:"beside"`
	// Tried is how many requests the dead one had got by the end.
	Tried int `json:"tried"`
}

// deadRun is one measurement.
type deadRun struct {
	sides [2]*rig // alone, beside
	body  []byte

	mu      sync.Mutex
	arrived map[string]chan time.Time // by record
	tried   int
}

// MeasureDead creates replies one by one in two outboxes in turns. One of them
// also holds `queued` replies for a recipient that accepts and never answers.
func MeasureDead(ctx context.Context, dir string, queued, samples int, say func(string)) (d Dead, err error) {
	run := &deadRun{arrived: map[string]chan time.Time{}}
	d = Dead{Queued: queued, Samples: samples}
	if run.body, err = payload(); err != nil {
		return d, err
	}
	release := make(chan struct{})
	dead, err := newReceiver(ctx, func(http.ResponseWriter, *http.Request) {
		run.mu.Lock()
		run.tried++
		run.mu.Unlock()
		<-release
	})
	if err != nil {
		return d, err
	}
	defer func() { close(release); err = first(err, dead.close()) }()
	live, err := newReceiver(ctx, run.arrive)
	if err != nil {
		return d, err
	}
	defer func() { err = first(err, live.close()) }()
	stop, err := run.open(ctx, dir, dead.url, live.url, func() error {
		say(fmt.Sprintf("dead recipient: queue %d replies for it", queued))
		return run.sides[1].fill(ctx, "dead", queued, "dead", dead.url, run.body)
	})
	defer func() { err = first(err, stop()) }()
	if err != nil {
		return d, err
	}
	if err := until(ctx, "the dead recipient to be tried", func() bool { return run.tries() > 0 }); err != nil {
		return d, err
	}
	waits, err := run.sample(ctx, samples, live.url, say)
	if err != nil {
		return d, err
	}
	d.Alone, d.Beside, d.Tried = percentiles(waits[0]), percentiles(waits[1]), run.tries()
	return d, nil
}

// open starts both sides, with fill before the relays; stop undoes it.
func (run *deadRun) open(ctx context.Context, dir, deadURL, liveURL string, fill func() error) (stop func() error, err error) {
	var undo []func() error
	stop = func() error {
		var err error
		for i := len(undo) - 1; i >= 0; i-- {
			err = first(err, undo[i]())
		}
		return err
	}
	for i, name := range []string{"alone", "beside"} {
		r, err := newRig(ctx, filepath.Join(dir, name))
		if err != nil {
			return stop, err
		}
		run.sides[i], undo = r, append(undo, r.close)
		if err := r.callback("dead", deadURL, DeadTimeout); err != nil {
			return stop, err
		}
		if err := r.callback("bench", liveURL, 0); err != nil {
			return stop, err
		}
	}
	if err := fill(); err != nil {
		return stop, err
	}
	for _, r := range run.sides {
		rl, err := r.relay(nil)
		if err != nil {
			return stop, err
		}
		undo = append(undo, func() error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // what the dead one holds need not be waited for
			_ = rl.Stop(ctx)
			return nil
		})
	}
	return stop, nil
}

// arrive notes when a reply came.
func (run *deadRun) arrive(_ http.ResponseWriter, r *http.Request) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if at := run.arrived[r.Header.Get(relay.HeaderID)]; at != nil {
		at <- time.Now()
	}
}

func (run *deadRun) tries() int {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.tried
}

// sample creates replies on both sides in turns and waits for each.
func (run *deadRun) sample(ctx context.Context, samples int, url string, say func(string)) (waits [2][]time.Duration, err error) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	shown := time.Now()
	for i := range 2 * samples {
		if i == 0 || time.Since(shown) > 5*time.Second {
			shown = time.Now()
			say(fmt.Sprintf("dead recipient: %d of %d samples, %d requests to the dead one", i, 2*samples, run.tries()))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return waits, ctx.Err()
		}
		took, err := run.one(ctx, i, url)
		if err != nil {
			return waits, err
		}
		waits[i%2] = append(waits[i%2], took)
	}
	return waits, nil
}

func (run *deadRun) one(ctx context.Context, i int, url string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id := fmt.Sprintf("live%d", i)
	at := make(chan time.Time, 1)
	run.mu.Lock()
	run.arrived[id] = at
	run.mu.Unlock()
	began := time.Now()
	if err := run.sides[i%2].put(ctx, outbox.ID(id), "bench", fmt.Sprintf("%s#%d", url, i/2%others), run.body); err != nil {
		return 0, fmt.Errorf("create reply: %w", err)
	}
	select {
	case end := <-at:
		return end.Sub(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for reply %s: %w", id, ctx.Err())
	}
}

// percentiles of waits, of which there is at least one.
func percentiles(waits []time.Duration) Wait {
	slices.Sort(waits)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	at := func(percent int) float64 { return ms(waits[(len(waits)-1)*percent/100]) }
	return Wait{P50: at(50), P99: at(99), Max: at(100)}
}
