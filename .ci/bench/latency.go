package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/task"
)

const childBelay = "child-belay"

// latent is how long tasks waited for their start at a steady rate.
type latent struct {
	Round int    `json:"round"`
	Sync  string `json:"sync_interval"`
	Load  string `json:"load_average"`
	// FromAccepted counts from the moment the log had acknowledged the
	// delivery, FromReceived from the moment it was handed to the log.
	FromAccepted quantiles `json:"from_accepted"`
	FromReceived quantiles `json:"from_received"`
}

// latencyJob tells the process under measurement what to do.
type latencyJob struct {
	Dir     string
	Sync    string
	Rate    int
	Span    time.Duration
	Profile string
}

// latencyCommand measures accept → start at a rate far below the limit.
func latencyCommand(ctx context.Context, args []string) error {
	job := latencyJob{}
	o, err := parse("latency", args, func(fs *flag.FlagSet) {
		fs.IntVar(&job.Rate, "rate", 100, "deliveries a second")
		fs.DurationVar(&job.Span, "duration", 10*time.Second, "length of one measurement")
	})
	if err != nil {
		return err
	}
	if o.quick {
		job.Span = 500 * time.Millisecond
	}
	var all []latent
	for round := range o.rounds {
		for _, job.Sync = range []string{syncAlways, syncDefault} {
			m, err := measureLatency(ctx, o, job)
			if err != nil {
				return err
			}
			m.Round, m.Sync = round, job.Sync
			fmt.Printf("  round %d  sync %-6s  from accepted p50 %.2f ms, p99 %.2f ms; from received p50 %.2f ms, p99 %.2f ms; load %s\n",
				round+1, m.Sync, m.FromAccepted.P50, m.FromAccepted.P99, m.FromReceived.P50, m.FromReceived.P99, m.Load)
			all = append(all, m)
		}
	}
	for _, sync := range []string{syncAlways, syncDefault} {
		of := func(m latent) bool { return m.Sync == sync }
		target("accept → start, sync "+sync+": p50 ms", pick(all, of, func(m latent) float64 { return m.FromAccepted.P50 }), 2, false)
		target("accept → start, sync "+sync+": p99 ms", pick(all, of, func(m latent) float64 { return m.FromAccepted.P99 }), 10, false)
	}
	return o.writeJSON("latency", all)
}

func measureLatency(ctx context.Context, o *options, job latencyJob) (latent, error) {
	m := latent{Load: loadAverage()}
	dir, done, err := o.temp("latency")
	if err != nil {
		return m, err
	}
	defer done()
	job.Dir, job.Profile = dir, o.profileFile("latency-"+job.Sync)
	c, err := startChild(ctx, childBelay, job)
	if err != nil {
		return m, err
	}
	if err := c.read(&m); err != nil {
		return m, err
	}
	return m, c.stop(nil)
}

// starts remembers when each task was received, accepted and started.
type starts struct {
	mu                          sync.Mutex
	received, accepted, started map[task.ID]time.Time
}

func (s *starts) note(in map[task.ID]time.Time, id task.ID, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in[id] = at
}

// belayChild accepts deliveries at the rate and times their starts.
func belayChild(ctx context.Context, args []string) error {
	job, err := told[latencyJob](args)
	if err != nil {
		return err
	}
	times := &starts{received: map[task.ID]time.Time{}, accepted: map[task.ID]time.Time{}, started: map[task.ID]time.Time{}}
	s, err := startStack(ctx, job.Dir, job.Sync, 64, func(j executor.Job) { times.note(times.started, j.Task.ID, time.Now()) })
	if err != nil {
		return err
	}
	stop, err := profiled(job.Profile)
	if err == nil {
		err = errors.Join(job.accept(ctx, s, times), stop())
	}
	if err = errors.Join(err, s.close()); err != nil {
		return err
	}
	m := latent{Load: loadAverage()}
	var fromAccepted, fromReceived []time.Duration
	for id, at := range times.started {
		// A start may come before the acceptance has returned.
		fromAccepted = append(fromAccepted, max(0, at.Sub(times.accepted[id])))
		fromReceived = append(fromReceived, at.Sub(times.received[id]))
	}
	m.FromAccepted, m.FromReceived = quantilesOf(fromAccepted), quantilesOf(fromReceived)
	return say(m)
}

func (j latencyJob) accept(ctx context.Context, s *stack, times *starts) error {
	tick := time.NewTicker(time.Second / time.Duration(j.Rate))
	defer tick.Stop()
	n := int(j.Span.Seconds() * float64(j.Rate))
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		wg.Go(func() {
			d := delivery(i, 100)
			times.note(times.received, d.Task.ID, time.Now())
			_, errs[i] = s.log.Accept(ctx, d)
			times.note(times.accepted, d.Task.ID, time.Now())
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return watched(ctx, func() bool { return s.count() == n }, s.count)
}
