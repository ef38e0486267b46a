package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belay-run/belay/kv/task"
)

// sqliteLife is a durable task store on SQLite: deliveries and tasks are
// inserted together, claims take the oldest queued one, and each state is
// written with its attempt.
type sqliteLife struct {
	db    *sql.DB
	tx    func(ctx context.Context, f func(*sql.Tx) error) error
	added chan struct{}
	ended atomic.Int64
	stop  func()
}

func openSQLiteLife(ctx context.Context, dir, synchronous string, grouped bool) (life, error) {
	db, err := openSQLite(ctx, filepath.Join(dir, "tasks.db"), synchronous)
	if err != nil {
		return nil, err
	}
	l := &sqliteLife{db: db, added: make(chan struct{}, slots), stop: func() {}}
	l.tx = single(db)
	if grouped {
		l.tx, l.stop = group(db)
	}
	return l, nil
}

func (l *sqliteLife) close() error {
	l.stop()
	return l.db.Close()
}

func (l *sqliteLife) all(ctx context.Context, from, to int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, slots)
	var wg sync.WaitGroup
	for i := range slots {
		wg.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				if err := l.work(ctx); ctx.Err() == nil {
					errs[i] = err
				}
			}
		})
	}
	err := produce(from, to, func(i int) error { return l.add(ctx, delivery(i, 100)) })
	if err == nil {
		err = watched(ctx, func() bool { return l.ended.Load() >= int64(to) }, func() int { return int(l.ended.Load()) })
	}
	cancel()
	wg.Wait()
	return errors.Join(append(errs, err)...)
}

func (l *sqliteLife) add(ctx context.Context, d task.Delivery) error {
	rows, err := rowsOf(&d)
	if err != nil {
		return err
	}
	err = l.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, insertDelivery, rows.delivery...); err != nil {
			return fmt.Errorf("insert delivery: %w", err)
		}
		if _, err := tx.ExecContext(ctx, insertTask, rows.task...); err != nil {
			return fmt.Errorf("insert task: %w", err)
		}
		return nil
	})
	select {
	case l.added <- struct{}{}:
	default:
	}
	return err
}

// work claims one task and ends it; without one it waits for the next.
func (l *sqliteLife) work(ctx context.Context) error {
	var id, kind string
	var attempt int
	err := l.tx(ctx, func(tx *sql.Tx) error {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		err := tx.QueryRowContext(ctx, claimTask, now).Scan(&id, &attempt, &kind)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, insertAttempt, id, attempt, now)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if id == "" {
		select {
		case <-l.added:
		case <-ctx.Done():
		}
		return nil
	}
	err = l.tx(ctx, func(tx *sql.Tx) error {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		if _, err := tx.ExecContext(ctx, finishTask, "Retried the upload.", now, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, finishAttempt, now, id, attempt)
		return err
	})
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	l.ended.Add(1)
	return nil
}

// single gives every step a transaction of its own, one at a time.
func single(db *sql.DB) func(context.Context, func(*sql.Tx) error) error {
	var mu sync.Mutex
	return func(ctx context.Context, f func(*sql.Tx) error) error {
		mu.Lock()
		defer mu.Unlock()
		return transact(ctx, db, f)
	}
}

func transact(ctx context.Context, db *sql.DB, fs ...func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil) // IMMEDIATE, by the connection's settings
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, f := range fs {
		if err := f(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// maxGroup bounds the steps of one shared transaction.
const maxGroup = 256

type groupedStep struct {
	f    func(*sql.Tx) error
	done chan error
}

// group runs the steps that wait at the same time in one transaction. A step
// that fails takes the others with it: in the benchmark none does.
func group(db *sql.DB) (do func(context.Context, func(*sql.Tx) error) error, stop func()) {
	queue, gone := make(chan groupedStep, maxGroup), make(chan struct{})
	go func() {
		defer close(gone)
		for first := range queue {
			batch := []groupedStep{first}
			for more := true; more && len(batch) < maxGroup; {
				select {
				case s, open := <-queue:
					if more = open; open {
						batch = append(batch, s)
					}
				default:
					more = false
				}
			}
			fs := make([]func(*sql.Tx) error, len(batch))
			for i, s := range batch {
				fs[i] = s.f
			}
			err := transact(context.Background(), db, fs...)
			for _, s := range batch {
				s.done <- err
			}
		}
	}()
	do = func(_ context.Context, f func(*sql.Tx) error) error {
		s := groupedStep{f, make(chan error, 1)}
		queue <- s
		return <-s.done
	}
	return do, func() { close(queue); <-gone }
}
