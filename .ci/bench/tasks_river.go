package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/belay-run/belay/kv/task"
)

// riverLife is River on PostgreSQL.
type riverLife struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	cancel func() // of the subscription
	ended  atomic.Int64
}

// riverArgs is a job's payload: the delivery, as belay stores it.
type riverArgs struct {
	Delivery task.Delivery `json:"delivery"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "fix_issue" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
}

// Work implements river.Worker.
func (*riverWorker) Work(context.Context, *river.Job[riverArgs]) error { return nil }

func openRiverLife(ctx context.Context, url string) (life, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to postgres: %w", err)
	}
	l := &riverLife{pool: pool}
	if err := l.start(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return l, nil
}

func (l *riverLife) start(ctx context.Context) error {
	driver := riverpgxv5.New(l.pool)
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return fmt.Errorf("make river's tables: %w", err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{})
	l.client, err = river.NewClient(driver, &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
		Workers: workers, Logger: slog.New(slog.DiscardHandler),
		// The default of 100 ms between fetches would bound it to 640 tasks/s;
		// fetching every millisecond took twice the processor for no more tasks.
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
	})
	if err != nil {
		return fmt.Errorf("make river client: %w", err)
	}
	events, cancel := l.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 1 << 17, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	l.cancel = cancel
	go func() {
		for range events {
			l.ended.Add(1)
		}
	}()
	return l.client.Start(ctx)
}

func (l *riverLife) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := l.client.Stop(ctx)
	l.cancel()
	l.pool.Close()
	return err
}

func (l *riverLife) all(ctx context.Context, from, to int) error {
	err := produce(from, to, func(i int) error {
		_, err := l.client.Insert(ctx, riverArgs{delivery(i, 100)}, nil)
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("insert: %w", err))
	}
	return watched(ctx, func() bool { return l.ended.Load() >= int64(to) }, func() int { return int(l.ended.Load()) })
}
