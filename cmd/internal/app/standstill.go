package app

import (
	"context"
	"fmt"
	"time"
)

// standstillBeats is for how many beats more than readiness allows the store
// may take no write although its disk does.
const standstillBeats = 4

// watchStandstill ends the process when the embedded nats-server has stopped to
// write and would not begin again: after a write error, such as of a full disk,
// a stream takes nothing more until the server's restart, though there is room
// again (J16). While the disk itself takes no write, a restart would help
// nobody, and the process stays to answer 503 and what can be read.
func (a *App) watchStandstill(context.Context) error {
	if a.ns == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); a.standstill(ctx) }()
	a.cleanups.push("watch for a standstill", func(context.Context) error { cancel(); <-done; return nil })
	return nil
}

func (a *App) standstill(ctx context.Context) {
	beat := beatEvery(a.o.BeatEvery)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for still := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		age := a.o.Now().Sub(a.worker.Load().Progress().LastBeat)
		if age <= stalledAfter*beat || a.ns.DiskTakesWrites() != nil {
			still = 0
			continue
		}
		if still++; still >= standstillBeats {
			a.failed <- fmt.Errorf("the embedded nats-server has taken no write for %s, and the disk of storage.dir takes them: "+
				"it does not recover from a write error by itself; next: start belay again, as its supervisor does", age.Round(time.Second))
			return
		}
	}
}
