package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
)

// killer kills and restarts the server every 1.5 to 4 seconds.
func (s *soak) killer(ctx context.Context, over time.Time) error {
	began := time.Now()
	for {
		wait := 1500*time.Millisecond + time.Duration(rand.Int64N(int64(2500*time.Millisecond)))
		if !pauseFor(ctx, wait) || time.Now().After(over) {
			return nil
		}
		if err := s.server.kill(); err != nil {
			return err
		}
		s.server.kills++
		if err := s.server.start(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		fmt.Fprintf(s.cli.err, "soak: %2.0f s, %d kills, %d accepted, %d ended\n",
			time.Since(began).Seconds(), s.server.kills, len(s.accepted), len(s.ended))
		s.mu.Unlock()
	}
}

// pauseFor waits, false if ctx ended first.
func pauseFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// client sends webhooks until the time is over. One that was not accepted is
// sent again under its id until it is, as GitHub's redelivery would.
func (s *soak) client(ctx context.Context, over time.Time) error {
	gap := time.Duration(s.o.clients) * time.Second / time.Duration(s.o.rate)
	cfg := &config.Config{Familiars: []config.Familiar{{ID: "soak", BotUsername: "soak[bot]", TriggerLabels: []string{"soak"}}}}
	for n := 0; time.Now().Before(over); n++ {
		tree, err := loadPayload("issues.labeled", nil, newVocabulary(cfg, time.Now()))
		if err != nil {
			return err
		}
		h := &hook{event: "issues.labeled", id: freshID(), secret: soakSecret}
		if h.body, err = encode(tree); err != nil {
			return err
		}
		if err := s.untilAccepted(ctx, h); err != nil {
			return err
		}
		if n%4 == 3 {
			s.again(ctx, h)
		}
		if !pauseFor(ctx, time.Duration(rand.Int64N(int64(2*gap)+1))) {
			return nil
		}
	}
	return nil
}

func (s *soak) untilAccepted(ctx context.Context, h *hook) error {
	s.mu.Lock()
	s.sent[h.id] = true
	s.mu.Unlock()
	for ctx.Err() == nil {
		if got, ok := s.post(ctx, h); ok {
			s.mu.Lock()
			s.accepted[h.id] = got.Task
			s.mu.Unlock()
			return nil
		}
		pauseFor(ctx, 50*time.Millisecond)
	}
	return nil
}

// again delivers what was accepted once more; the answer, if any, must name
// the same task.
func (s *soak) again(ctx context.Context, h *hook) {
	got, ok := s.post(ctx, h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dups++
	if ok && got.Task != s.accepted[h.id] {
		s.accepted[h.id+" again"] = got.Task // shows up as lost or twice
	}
}

// post sends once; a server that is down or starting is not accepted.
func (s *soak) post(ctx context.Context, h *hook) (hookAnswer, bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.mu.Lock()
	s.posts++
	s.mu.Unlock()
	ans, err := s.server.client.Load().deliver(ctx, h)
	if err != nil || ans.status != http.StatusOK {
		return hookAnswer{}, false
	}
	return readHook(ans), true
}

// watcher notes when the list first shows a task as ended: no run may begin
// after that.
func (s *soak) watcher(ctx context.Context, over time.Time) error {
	for time.Now().Before(over) && pauseFor(ctx, 250*time.Millisecond) {
		list, err := s.server.list(ctx)
		if err != nil {
			continue // killed just now
		}
		now := time.Now()
		s.mu.Lock()
		for _, t := range list {
			if _, known := s.ended[t.ID]; !known && !t.open() {
				s.ended[t.ID] = now
			}
		}
		s.mu.Unlock()
	}
	return nil
}
