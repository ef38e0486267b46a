package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// soakDrain is how long the rest of the work may take once nothing is killed.
const soakDrain = 3 * time.Minute

// soakOptions are the flags of `belay bench soak`.
type soakOptions struct {
	duration    time.Duration
	rate        int
	clients     int
	concurrency int
	keep        string
}

// soak is one soak: a folder, a server that is killed, what was seen.
type soak struct {
	o      soakOptions
	cli    *cli
	dir    string
	server *soakServer

	receiver *soakReceiver

	mu       sync.Mutex
	accepted map[string]string    // delivery id → task id
	sent     map[string]bool      // delivery ids that were tried
	ended    map[string]time.Time // task id → when the list first showed it ended
	posts    int
	dups     int
}

func (c *cli) soak(ctx context.Context, o soakOptions) (err error) {
	s := &soak{o: o, cli: c, accepted: map[string]string{}, sent: map[string]bool{}, ended: map[string]time.Time{}}
	if s.dir = o.keep; s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "belay-soak-"); err != nil {
			return fmt.Errorf("make a temporary folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	}
	if s.receiver, err = newSoakReceiver(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.receiver.close()) }()
	if s.server, err = newSoakServer(s.dir, s.receiver.url, o.concurrency); err != nil {
		return err
	}
	if err := s.server.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.server.kill()) }()
	if err := s.storm(ctx); err != nil {
		return err
	}
	return s.settle(ctx)
}

// storm sends and kills for the duration.
func (s *soak) storm(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := time.Now().Add(s.o.duration)
	errs := make(chan error, s.o.clients+2)
	var wg sync.WaitGroup
	run := func(f func(context.Context, time.Time) error) {
		wg.Go(func() {
			if err := f(ctx, over); err != nil {
				errs <- err
				cancel()
			}
		})
	}
	run(s.killer)
	run(s.watcher)
	for range s.o.clients {
		run(s.client)
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// settle waits until nothing is queued or running, then audits.
func (s *soak) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, soakDrain)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	shown := time.Now()
	for {
		list, err := s.server.list(ctx)
		if err != nil {
			return fmt.Errorf("read the list at the end: %w", err)
		}
		open := 0
		for _, t := range list {
			if t.open() {
				open++
			}
		}
		replies, err := s.server.replies(ctx)
		if err != nil {
			return fmt.Errorf("read the outbox at the end: %w", err)
		}
		if len(list) >= len(s.accepted) && open == 0 && repliesLeft(list, replies) == 0 {
			return errors.Join(s.report(list), s.reportReplies(list, replies))
		}
		if time.Since(shown) > 5*time.Second {
			shown = time.Now()
			fmt.Fprintf(s.cli.err, "soak: waiting for %d of %d tasks, %d replies\n", open, len(list), repliesLeft(list, replies))
		}
		select {
		case <-ctx.Done():
			return errors.Join(s.report(list), s.reportReplies(list, replies))
		case <-tick.C:
		}
	}
}

// report prints the audit and fails if it found anything.
func (s *soak) report(list []soakItem) error {
	notes, err := readNotes(s.notes())
	if err != nil {
		return err
	}
	a := audit(s.accepted, s.sent, list, notes, s.ended)
	runs := 0
	for _, n := range notes {
		if n.Event == noteStart {
			runs++
		}
	}
	fmt.Fprintf(s.cli.out, "%d webhooks sent (%d of them again), %d accepted, %d kills, %d tasks, %d runs\n",
		s.posts, s.dups, len(s.accepted), s.server.kills, len(list), runs)
	fmt.Fprintf(s.cli.out, "lost %d, extra %d, twice %d, overlapping %d, after end %d, open %d, failed %d\n",
		len(a.lost), len(a.extra), len(a.twice), len(a.overlapping), len(a.afterEnd), len(a.open), len(a.failed))
	if n := a.violations(); n > 0 {
		return fmt.Errorf("soak found %d violations: %s", n, a.first())
	}
	if s.server.kills == 0 && s.o.duration >= 10*time.Second {
		return errors.New("soak killed nothing: it proved nothing")
	}
	return nil
}

// notes is the file in which runs note their start and end.
func (s *soak) notes() string { return filepath.Join(s.dir, "notes.jsonl") }
