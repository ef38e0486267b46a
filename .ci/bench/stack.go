package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/streams"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"

	belay "github.com/belay-run/belay"
)

// stack is belay from the log to the worker in this process, put together as
// cmd/internal/app does it, with a runner of the benchmark's.
type stack struct {
	*store
	log    *kv.DeliveryLog
	tasks  *kv.TaskStore
	view   *view.View
	admit  *consumers.AdmitLoop
	worker *consumers.Worker
	// ahead is how far the read model's clock is in the future.
	ahead atomic.Int64

	stopView func()
}

// runFunc is a task's work.
type runFunc func(job executor.Job)

// Run implements consumers.Runner: every task completes.
func (f runFunc) Run(_ context.Context, job executor.Job) executor.Report {
	f(job)
	return executor.Report{
		Class: executor.Done, Outcome: task.OutcomeCompleted,
		Result: task.Result{State: task.Completed, Status: task.ResultSuccess, Summary: "Retried the upload."},
	}
}

func startStack(ctx context.Context, dir, syncInterval string, slots int, run runFunc) (*stack, error) {
	st, err := openStore(ctx, dir, syncInterval)
	if err != nil {
		return nil, err
	}
	s := &stack{store: st, stopView: func() {}}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.store.close())
	}
	if err := s.work(ctx, slots, run); err != nil {
		s.stopView()
		return nil, errors.Join(err, s.store.close())
	}
	return s, nil
}

// open binds to the stores and waits for the read model.
func (s *stack) open(ctx context.Context) error {
	var err error
	if s.log, err = kv.OpenDeliveryLog(ctx, s.js); err != nil {
		return err
	}
	if s.tasks, err = kv.OpenTaskStore(ctx, s.js); err != nil {
		return err
	}
	s.view = view.New(slog.New(slog.DiscardHandler), s.now)
	vctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.view.Run(vctx, s.js) }()
	s.stopView = func() { cancel(); <-done }
	for !s.view.Synced() {
		select {
		case <-ctx.Done():
			s.stopView()
			return fmt.Errorf("wait for the read model: %w", ctx.Err())
		case <-s.view.Changed():
		}
	}
	return nil
}

func (s *stack) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

func (s *stack) work(ctx context.Context, slots int, run runFunc) error {
	quiet, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	restore := func(ctx context.Context, _, _ string) error {
		set, err := streams.Load(belay.StreamsJSON)
		if err == nil {
			_, err = streams.Reconcile(ctx, s.js, set, streams.Options{})
		}
		return err
	}
	adm := consumers.NewAdmitter(consumers.AdmitterOptions{
		Store: s.tasks, View: s.view, Familiars: func() []string { return []string{"cody"} },
		Replay: 96 * time.Hour, Now: time.Now, Logger: quiet,
	})
	var err error
	s.worker, err = consumers.NewWorker(consumers.Options{
		Store: s.tasks, View: s.view, JS: s.js, Runner: run, Admitter: adm, Restore: restore,
		Familiar: func(id string) (executor.Familiar, bool) { return executor.Familiar{ID: id}, true },
		Logger:   quiet, Now: time.Now, Registerer: reg, Name: "bench", Boot: consumers.NewBoot(), Alone: true,
		Concurrency: slots, MaxRetries: 2, Timeout: time.Minute, DrainTimeout: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	if err := s.worker.Start(ctx); err != nil {
		return err
	}
	s.admit = consumers.NewAdmitLoop(s.js, adm, restore, reg)
	s.admit.Start()
	return nil
}

// close stops everything in the order of the app.
func (s *stack) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := errors.Join(s.admit.Stop(ctx), s.worker.Stop(ctx))
	s.stopView()
	return errors.Join(err, s.store.close())
}

// count is how many tasks have ended, by the read model.
func (s *stack) count() int { return s.view.Counts()[task.Completed] }

// watched waits until done reports true, and gives up when nothing changes.
func watched(ctx context.Context, done func() bool, progress func() int) error {
	var last atomic.Int64
	changed := time.Now()
	for !done() {
		if n := int64(progress()); n != last.Swap(n) {
			changed = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Since(changed) > 30*time.Second:
			return fmt.Errorf("no progress for 30 s at %d", last.Load())
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}
