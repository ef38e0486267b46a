package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv/outbox"
)

// Throughput is how many replies a second leave, beside what plain POSTs give.
type Throughput struct {
	Replies     int `json:"replies"`     // in each round
	Body        int `json:"body"`        // bytes of each
	Concurrency int `json:"concurrency"` // requests at once
	// Relay and Bare are per second, a round each, in the order they ran.
	Relay []float64 `json:"relay"`
	Bare  []float64 `json:"bare"`
	// Disk is how many synced writes a second the disk took by turns with
	// them. A reply needs two: its claim, and its end.
	Disk []float64 `json:"disk"`
	// Ratio is all of the relay's over all of the bare ones.
	Ratio float64 `json:"ratio"`
}

// MeasureThroughput lets the relay send n replies that are queued, and a plain
// client post the same body n times, in turns.
func MeasureThroughput(ctx context.Context, dir string, rounds, n int, say func(string)) (t Throughput, err error) {
	body, err := payload()
	if err != nil {
		return t, err
	}
	t = Throughput{Replies: n, Body: len(body), Concurrency: concurrency}
	rx, err := newReceiver(ctx, nil)
	if err != nil {
		return t, err
	}
	defer func() { err = first(err, rx.close()) }()
	r, err := newRig(ctx, filepath.Join(dir, "throughput"))
	if err != nil {
		return t, err
	}
	defer func() { err = first(err, r.close()) }()
	if err := r.callback("bench", rx.url, 0); err != nil {
		return t, err
	}
	var bare, sent time.Duration
	for round := range rounds {
		say(fmt.Sprintf("throughput, round %d of %d: %d plain POSTs", round+1, rounds, n))
		took, err := posts(ctx, rx.url, body, n)
		if err != nil {
			return t, err
		}
		bare, t.Bare = bare+took, append(t.Bare, rate(n, took))
		disk, err := syncedWrites(dir, len(body))
		if err != nil {
			return t, err
		}
		t.Disk = append(t.Disk, disk)
		say(fmt.Sprintf("throughput, round %d of %d: queue %d replies", round+1, rounds, n))
		if err := r.fill(ctx, fmt.Sprintf("r%d-", round), n, "bench", rx.url, body); err != nil {
			return t, err
		}
		if took, err = r.sendAll(ctx, n, func(done int) {
			say(fmt.Sprintf("throughput, round %d of %d: %d of %d replies sent", round+1, rounds, done, n))
		}); err != nil {
			return t, err
		}
		sent, t.Relay = sent+took, append(t.Relay, rate(n, took))
	}
	t.Ratio = bare.Seconds() / sent.Seconds()
	return t, nil
}

// sendAll starts the relay and waits until it has delivered n records.
func (r *rig) sendAll(ctx context.Context, n int, progress func(done int)) (took time.Duration, err error) {
	var done atomic.Int64
	all := make(chan struct{})
	bad := make(chan error, 1)
	began := time.Now()
	rl, err := r.relay(func(rec outbox.Record, v relay.Verdict) {
		if v != relay.Delivered {
			select {
			case bad <- fmt.Errorf("reply %s is %s: %s", rec.ID, v, rec.LastError):
			default:
			}
		}
		if done.Add(1) == int64(n) {
			close(all)
		}
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = first(err, rl.Stop(context.WithoutCancel(ctx))) }()
	show := time.NewTicker(2 * time.Second)
	defer show.Stop()
	for {
		select {
		case <-all:
			return time.Since(began), nil
		case err := <-bad:
			return 0, err
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-show.C:
			progress(int(done.Load()))
		}
	}
}

// posts is the loop without a relay: the same body, as many at once.
func posts(ctx context.Context, url string, body []byte, n int) (time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}, Timeout: patience}
	defer client.CloseIdleConnections()
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, concurrency)
	var wg sync.WaitGroup
	began := time.Now()
	for range concurrency {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := post(ctx, client, url, body); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	close(errs)
	return took, <-errs
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// first keeps the error that came first.
func first(err, later error) error {
	if err != nil {
		return err
	}
	return later
}
