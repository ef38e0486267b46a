package app

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/kv"
)

// reachMissed is how many looks in a row may fail before another server is
// tried. Three in five of a beat apart they last longer than a cluster takes to
// elect a leader, which another server would not have sooner.
const reachMissed = 4

// reach looks whether the servers of an external NATS can be worked with by way
// of the one that this process is connected to. A connection can be well while
// that server is frozen, or cut off from the others of its cluster; the client
// would stay with it. The same look tells whether the watch of the bucket, whose
// consumer may live on a server that died, still shows what is written.
type reach struct {
	app    *App
	every  time.Duration
	moved  prometheus.Counter
	reopen prometheus.Counter

	missed int
	last   uint64 // sequence that the bucket had at the last look
	told   uint64 // up to which the watch was opened again
}

// startReach begins to look, until the connection is given up.
func (a *App) startReach() {
	if a.o.Config.Embedded() {
		return
	}
	r := &reach{
		app: a, every: beatEvery(a.o.BeatEvery) * 3 / 5,
		moved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belay_nats_moves_total", Help: "Times a NATS server that answered nothing was left for another.",
		}),
		reopen: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belay_view_reopened_total", Help: "Times the watch of the bucket was opened again because it lagged behind what is written.",
		}),
	}
	a.reg.MustRegister(r.moved, r.reopen)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	a.cleanups.push("reach", func(context.Context) error { cancel(); <-done; return nil })
}

func (r *reach) run(ctx context.Context) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.look(ctx)
		}
	}
}

// look asks for the bucket's state, which its leader answers.
func (r *reach) look(ctx context.Context) {
	if !r.app.nc.IsConnected() { // it looks for another by itself
		r.missed = 0
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.every)
	defer cancel()
	s, err := r.app.js.Stream(ctx, kv.StreamState)
	if err == nil {
		err = led(s.CachedInfo())
	}
	switch {
	case err == nil:
		r.missed = 0
		r.compare(s.CachedInfo().State.LastSeq)
		return
	case errors.Is(err, jetstream.ErrStreamNotFound): // an answer, before the streams are made
		r.missed = 0
		return
	}
	if r.missed++; r.missed < reachMissed {
		return
	}
	r.missed = 0
	r.moved.Inc()
	r.app.log.Warn("the NATS server gets no answer for us, trying another", "class", "reach", "server", r.app.nc.ConnectedUrlRedacted(), "err", err)
	if err := r.app.nc.ForceReconnect(); err != nil {
		r.app.log.Warn("cannot leave the NATS server", "class", "reach", "err", err)
	}
}

// led is an error where nobody leads a stream: any server that holds a copy says
// so, and one that is cut off says nothing else.
func led(s *jetstream.StreamInfo) error {
	if s.Cluster != nil && s.Cluster.Leader == "" {
		return errors.New("stream " + s.Config.Name + " has no leader")
	}
	return nil
}

// compare opens the watch again if it does not show by now what the bucket held
// at the last look; once for each state, as the message that made it may have
// expired before the watch came to it.
func (r *reach) compare(seq uint64) {
	v := r.app.view
	if seen := v.Revision(); v.Synced() && seen < r.last && r.told < r.last {
		r.told = r.last
		r.reopen.Inc()
		r.app.log.Warn("watch is behind the bucket, opening it again", "class", "reach", "bucket", r.last, "seen", seen)
		v.Reopen()
	}
	r.last = seq
}
