package view

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	bucketName   = "STATE"
	bucketStream = "KV_STATE"
	// reopenWait is the pause between two attempts to open the watch.
	reopenWait = 250 * time.Millisecond
	// maxSilence is after how long without a change the bucket is read in
	// full: markers of purges expire after an hour and are not missed so.
	maxSilence = 30 * time.Minute
)

// Reopen makes the watch start again from the last revision that was seen.
// Call it from the connection's reconnect handler: after a server's crash the
// old watch stays silent for about 20 s (DESIGN §10).
func (v *View) Reopen() {
	select {
	case v.reopen <- struct{}{}:
	default:
	}
}

// Synced reports whether the view has caught up at least once and holds the
// bucket as it was then.
func (v *View) Synced() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.synced
}

// Revision is the newest revision that the watch has shown.
func (v *View) Revision() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.rev
}

// CatchUp waits until the view shows what the bucket holds now, or ctx ends.
func (v *View) CatchUp(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, bucketStream)
	if err != nil {
		return fmt.Errorf("inspect bucket: %w", err)
	}
	last := s.CachedInfo().State.LastSeq
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		if v.Revision() >= last {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("read model is at %d of %d: %w", v.Revision(), last, ctx.Err())
		case <-look.C:
		}
	}
}

// Run watches the bucket until ctx ends. Whatever breaks the watch, it is
// opened again; a broken watch delays, it never decides.
func (v *View) Run(ctx context.Context, js jetstream.JetStream) {
	for ctx.Err() == nil {
		err := v.watch(ctx, js)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			v.log.Warn("watch of the bucket ended, opening it again", "class", "watch", "bucket", bucketName, "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(reopenWait):
			}
		}
	}
}

// watch runs one watch; nil means that Reopen was called.
func (v *View) watch(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, full, err := v.resume(ctx, js)
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, bucketName)
	if err != nil {
		return fmt.Errorf("open bucket: %w", err)
	}
	var opts []jetstream.WatchOpt
	if !full {
		opts = append(opts, jetstream.ResumeFromRevision(from))
	}
	w, err := kv.WatchAll(ctx, opts...)
	if err != nil {
		return fmt.Errorf("open watch: %w", err)
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.reopen:
			return nil
		case e, open := <-w.Updates():
			if !open {
				return fmt.Errorf("watch closed")
			}
			v.take(e, full)
		}
	}
}

func (v *View) take(e jetstream.KeyValueEntry, full bool) {
	if e == nil {
		v.caughtUp(full)
		return
	}
	v.apply(update{
		key: e.Key(), value: e.Value(), rev: e.Revision(),
		deleted: e.Operation() != jetstream.KeyValuePut,
	})
	v.Wake()
}

// resume decides from where to watch: in full the first time, when a full
// replay was cut short, when too much may have expired unseen, and when the
// stream is another one or ends below what was seen (it was wiped or
// restored); else from the last revision seen.
func (v *View) resume(ctx context.Context, js jetstream.JetStream) (from uint64, full bool, err error) {
	ictx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := js.Stream(ictx, bucketStream)
	if err != nil {
		return 0, false, fmt.Errorf("inspect bucket: %w", err)
	}
	info := s.CachedInfo()
	v.mu.Lock()
	defer v.mu.Unlock()
	restored := info.State.LastSeq < v.rev || !v.created.IsZero() && !v.created.Equal(info.Created)
	v.created = info.Created
	if restored {
		v.forgetRevisions()
	}
	if !restored && v.synced && !v.replaying && v.now().Sub(v.heard) <= maxSilence {
		return v.rev, false, nil
	}
	v.gen++
	v.replaying = true
	return 0, true, nil
}

// forgetRevisions lets a replay of a stream that went back overwrite all.
func (v *View) forgetRevisions() {
	v.rev = 0
	for _, e := range v.tasks {
		e.rev = 0
	}
	for _, w := range v.workers {
		w.rev = 0
	}
	for _, l := range v.loads {
		l.rev = 0
	}
	v.replies.forgetRevisions()
	v.handed, v.handedSize = map[uuid.UUID]handed{}, 0
}

// caughtUp ends a replay: what a full one did not show again is gone. Workers
// are not: the missed beats tell of them.
func (v *View) caughtUp(full bool) {
	v.mu.Lock()
	if full {
		for _, e := range v.tasks {
			if e.gen != v.gen {
				v.remove(e)
			}
		}
		old := func(_ string, gen uint32) bool { return gen != v.gen }
		maps.DeleteFunc(v.poison, old)
		maps.DeleteFunc(v.paused, old)
		maps.DeleteFunc(v.uninstalled, old)
		maps.DeleteFunc(v.tombs, func(_ uuid.UUID, t tomb) bool { return t.gen != v.gen })
		v.replies.caughtUp(v.gen)
		v.forgetHanded()
		v.forgetSlots()
		v.replaying = false
	}
	v.synced = true
	v.heard = v.now()
	v.mu.Unlock()
	v.Wake()
}
