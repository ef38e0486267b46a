package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/task"
)

const childMemory = "child-memory"

// memoryJob says how many tasks to run and keep.
type memoryJob struct {
	Dir   string
	Tasks int
}

// memorized is what the retained tasks cost.
type memorized struct {
	Round   int     `json:"round"`
	Tasks   int     `json:"tasks"`
	PerTask float64 `json:"heap_bytes_per_task"`
	RSS     float64 `json:"rss_mib"`
	// PerTomb is what is left of a task after its retention: a tombstone.
	PerTomb float64 `json:"heap_bytes_per_tombstone"`
	usage
}

// memoryCommand measures the heap of a process before and after it has run
// many tasks and kept them: server, log, bucket and read model together.
func memoryCommand(ctx context.Context, args []string) error {
	var job memoryJob
	o, err := parse("memory", args, func(fs *flag.FlagSet) {
		fs.IntVar(&job.Tasks, "tasks", 100_000, "tasks to run and keep; 1000000 is the size of the target")
	})
	if err != nil {
		return err
	}
	if o.quick {
		job.Tasks = 500
	} else if o.rounds > 1 {
		o.rounds = 1 // bytes hardly differ between rounds
	}
	var all []memorized
	for round := range o.rounds {
		dir, done, err := o.temp("memory")
		if err != nil {
			return err
		}
		job.Dir = dir
		m := memorized{Round: round}
		c, err := startChild(ctx, childMemory, job)
		if err == nil {
			if err = c.read(&m); err == nil {
				err = c.stop(nil)
			}
		}
		done()
		if err != nil {
			return err
		}
		fmt.Printf("  round %d  %d tasks: %.0f bytes of heap each, %.0f MiB resident; %.0f bytes each after retention\n",
			round+1, m.Tasks, m.PerTask, m.RSS, m.PerTomb)
		all = append(all, m)
	}
	if !o.quick {
		target("heap bytes a retained task", pick(all, func(memorized) bool { return true }, func(m memorized) float64 { return m.PerTask }), 1229, false)
	}
	return o.writeJSON("memory", all)
}

func memoryChild(ctx context.Context, args []string) error {
	job, err := told[memoryJob](args)
	if err != nil {
		return err
	}
	s, err := startStack(ctx, job.Dir, syncDefault, 64, func(executor.Job) {})
	if err != nil {
		return err
	}
	// Some tasks first: pools and buffers are no task's cost.
	const warm = 100
	err = enqueueAll(ctx, s, 0, warm)
	before := heap()
	if err == nil {
		err = enqueueAll(ctx, s, warm, warm+job.Tasks)
	}
	per := func() float64 { return float64(heap()-before) / float64(job.Tasks) }
	m := memorized{Tasks: job.Tasks, PerTask: per(), RSS: float64(statusKB(os.Getpid(), "VmRSS:")) / 1024}
	fmt.Fprintf(os.Stderr, "  %d tasks: %.0f bytes of heap each\n", job.Tasks, m.PerTask)
	if err == nil {
		err = retire(ctx, s)
		m.PerTomb = settled(ctx, per)
	}
	if err = errors.Join(err, s.close()); err != nil {
		return err
	}
	m.usage = ownUsage()
	return say(m)
}

// settled looks until the server has let go of the blocks that it wrote last.
func settled(ctx context.Context, per func() float64) float64 {
	last := per()
	for range 10 {
		select {
		case <-ctx.Done():
			return last
		case <-time.After(6 * time.Second):
		}
		now := per()
		if now > 0.98*last {
			return now
		}
		last = now
	}
	return last
}

const day = 24 * time.Hour

// retire lets the retention of all tasks and deliveries pass.
func retire(ctx context.Context, s *stack) error {
	s.ahead.Store(int64(100 * day))
	keep := consumers.NewRetention(consumers.RetentionOptions{
		Store: s.tasks, Log: s.log, View: s.view, Tasks: 30 * day, Deliveries: 90 * day, Dedupe: 365 * day,
		Now: s.now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err := keep.Pass(ctx); err != nil {
		return err
	}
	left := func() int { return -s.view.Counts()[task.Completed] }
	return watched(ctx, func() bool { return left() == 0 }, left)
}

// heap is what is in use once garbage is gone.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// producers is how many goroutines enqueue at once.
const producers = 64

// enqueueAll accepts the deliveries from..to-1 and waits until all tasks that
// were ever accepted have ended.
func enqueueAll(ctx context.Context, s *stack, from, to int) error {
	err := produce(from, to, func(i int) error {
		_, err := s.log.Accept(ctx, delivery(i, 100))
		return err
	})
	if err != nil {
		return err
	}
	return watched(ctx, func() bool { return s.count() >= to }, s.count)
}

// produce calls enqueue for from..to-1 from all producers, until one fails.
func produce(from, to int, enqueue func(i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(from))
	errs := make([]error, producers)
	for p := range producers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < to && errs[p] == nil; i = int(next.Add(1)) - 1 {
				errs[p] = enqueue(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
