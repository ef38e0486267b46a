package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqLife is asynq on redis. Completed tasks are retained, as belay's are,
// and ids are unique, as deliveries' are.
type asynqLife struct {
	client *asynq.Client
	server *asynq.Server
	redis  *redis.Client
}

const asynqKind = "fix_issue"

func openAsynqLife(addr string) (life, error) {
	opt := asynq.RedisClientOpt{Addr: addr, PoolSize: 2 * slots}
	l := &asynqLife{
		client: asynq.NewClient(opt),
		redis:  redis.NewClient(&redis.Options{Addr: addr}),
		// The default is to look once a second when all queues were empty.
		server: asynq.NewServer(opt, asynq.Config{Concurrency: slots, TaskCheckInterval: 5 * time.Millisecond, LogLevel: asynq.ErrorLevel}),
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc(asynqKind, func(context.Context, *asynq.Task) error { return nil })
	if err := l.server.Start(mux); err != nil {
		return nil, fmt.Errorf("start asynq: %w", err)
	}
	return l, nil
}

func (l *asynqLife) close() error {
	l.server.Shutdown()
	return errors.Join(l.client.Close(), l.redis.Close())
}

func (l *asynqLife) all(ctx context.Context, from, to int) error {
	err := produce(from, to, func(i int) error {
		d := delivery(i, 100)
		data, err := json.Marshal(&d)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		_, err = l.client.EnqueueContext(ctx, asynq.NewTask(asynqKind, data), asynq.TaskID(string(d.ID)), asynq.Retention(time.Hour))
		return err
	})
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	ended := func() int { return int(l.redis.ZCard(ctx, "asynq:{default}:completed").Val()) }
	return watched(ctx, func() bool { return ended() >= to }, ended)
}
