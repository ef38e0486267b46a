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
	cluster     bool
	natsServer  string
}

// soak is one soak: a folder, processes that are killed, what was seen.
type soak struct {
	o       soakOptions
	cli     *cli
	dir     string
	program string        // belay
	servers []*soakServer // its processes
	doors   []*soakServer // those of them that take webhooks and answer the API
	cluster *soakCluster  // nil: the one server has NATS in itself

	receiver *soakReceiver

	mu       sync.Mutex
	accepted map[string]string    // delivery id → task id
	sent     map[string]bool      // delivery ids that were tried
	ended    map[string]time.Time // task id → when the list first showed it ended
	posts    int
	dups     int
	kills    int // of processes of belay
	answers  soakAnswers
}

func (c *cli) soak(ctx context.Context, o soakOptions) (err error) {
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "belay-soak-"); err != nil {
			return fmt.Errorf("make a temporary folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find my own program: %w", err)
	}
	s, err := c.newSoak(ctx, o, dir, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.start(ctx); err != nil {
		return err
	}
	wreck := s.killServer
	if s.cluster != nil {
		wreck = s.killNodes
	}
	over, stop := context.WithTimeout(ctx, o.duration)
	defer stop()
	if err := s.storm(ctx, over, wreck); err != nil {
		return err
	}
	return s.settle(ctx)
}

// newSoak prepares a soak in a folder; close ends it.
func (c *cli) newSoak(ctx context.Context, o soakOptions, dir, program string) (*soak, error) {
	s := &soak{o: o, cli: c, dir: dir, program: program, accepted: map[string]string{}, sent: map[string]bool{}, ended: map[string]time.Time{}}
	if err := os.MkdirAll(filepath.Join(dir, "locks"), 0o700); err != nil {
		return nil, fmt.Errorf("make folder of locks: %w", err)
	}
	var err error
	if s.receiver, err = newSoakReceiver(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// start starts what is to be soaked: one server, or a cluster and a fleet.
func (s *soak) start(ctx context.Context) error {
	if s.o.cluster {
		return s.startCluster(ctx, s.clusterOptions())
	}
	conf := filepath.Join(s.dir, "nats.conf")
	if err := os.WriteFile(conf, []byte("host: 127.0.0.1\nport: -1\njetstream { sync_interval: always }\n"), 0o600); err != nil {
		return fmt.Errorf("write nats.conf: %w", err)
	}
	server, err := s.newServer("server", "", fmt.Sprintf("config = %q", conf))
	if err != nil {
		return err
	}
	s.doors = []*soakServer{server}
	return server.start(ctx)
}

// close kills what runs.
func (s *soak) close() error {
	var err error
	for _, p := range s.servers {
		err = errors.Join(err, p.kill())
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.Close())
	}
	return errors.Join(err, s.receiver.close())
}

// storm sends webhooks until over, while wreck ends processes and brings them
// back. A webhook that was not accepted by then is sent until it is.
func (s *soak) storm(ctx, over context.Context, wreck func(ctx, over context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over, stop := context.WithCancel(over)
	defer stop()
	context.AfterFunc(ctx, stop)
	errs := make(chan error, s.o.clients+2)
	var wg sync.WaitGroup
	run := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				errs <- err
				cancel()
			}
		})
	}
	run(func() error { defer stop(); return wreck(ctx, over) })
	run(func() error { return s.watcher(ctx, over) })
	for n := range s.o.clients {
		run(func() error { return s.client(ctx, over, n) })
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
		list, err := s.doors[0].list(ctx)
		if err != nil {
			return fmt.Errorf("read the list at the end: %w", err)
		}
		open := 0
		for _, t := range list {
			if t.open() {
				open++
			}
		}
		replies, err := s.doors[0].replies(ctx)
		if err != nil {
			return fmt.Errorf("read the outbox at the end: %w", err)
		}
		if len(list) >= len(s.accepted) && open == 0 && repliesLeft(list, replies) == 0 {
			return errors.Join(s.reportCluster(), s.report(list), s.reportReplies(list, replies))
		}
		if time.Since(shown) > 5*time.Second {
			shown = time.Now()
			fmt.Fprintf(s.cli.err, "soak: waiting for %d of %d tasks, %d replies\n", open, len(list), repliesLeft(list, replies))
		}
		select {
		case <-ctx.Done():
			return errors.Join(s.reportCluster(), s.report(list), s.reportReplies(list, replies))
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
		s.posts, s.dups, len(s.accepted), s.kills, len(list), runs)
	fmt.Fprintf(s.cli.out, "lost %d, extra %d, twice %d, overlapping %d, after end %d, open %d, failed %d\n",
		len(a.lost), len(a.extra), len(a.twice), len(a.overlapping), len(a.afterEnd), len(a.open), len(a.failed))
	if n := a.violations(); n > 0 {
		return fmt.Errorf("soak found %d violations: %s", n, a.first())
	}
	if s.kills == 0 && (s.cluster == nil || len(s.cluster.led) == 0) && s.o.duration >= 10*time.Second {
		return errors.New("soak killed nothing: it proved nothing")
	}
	return nil
}

// notes is the file in which runs note their start and end.
func (s *soak) notes() string { return filepath.Join(s.dir, "notes.jsonl") }
