package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
)

// killServer kills and restarts the one server every 1.5 to 4 seconds.
func (s *soak) killServer(ctx, over context.Context) error {
	began := time.Now()
	for pauseBetween(over, 1500*time.Millisecond, 4*time.Second) {
		if err := s.killAndStart(ctx, s.doors[0]); err != nil {
			return err
		}
		s.progress(began, fmt.Sprintf("%d kills", s.kills))
	}
	return nil
}

func (s *soak) killAndStart(ctx context.Context, p *soakServer) error {
	if err := p.kill(); err != nil {
		return err
	}
	s.kills++
	return p.start(ctx)
}

// progress tells a person how far the soak is.
func (s *soak) progress(began time.Time, did string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.cli.err, "soak: %2.0f s, %s, %d accepted, %d ended\n", time.Since(began).Seconds(), did, len(s.accepted), len(s.ended))
}

// pauseBetween waits for a random time between least and most, false if ctx
// ended first.
func pauseBetween(ctx context.Context, least, most time.Duration) bool {
	return pauseFor(ctx, least+time.Duration(rand.Int64N(int64(most-least))))
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
func (s *soak) client(ctx, over context.Context, number int) error {
	gap := time.Duration(s.o.clients) * time.Second / time.Duration(s.o.rate)
	for n := number; over.Err() == nil; n++ {
		h, err := soakWebhook()
		if err != nil {
			return err
		}
		s.untilAccepted(ctx, h, n)
		if n%4 == 3 {
			s.again(ctx, h, n+1)
		}
		pauseFor(over, time.Duration(rand.Int64N(int64(2*gap)+1)))
	}
	return nil
}

// soakWebhook makes a delivery that becomes a task.
func soakWebhook() (*hook, error) {
	cfg := &config.Config{Familiars: []config.Familiar{{ID: "soak", BotUsername: "soak[bot]", TriggerLabels: []string{"soak"}}}}
	tree, err := loadPayload("issues.labeled", nil, newVocabulary(cfg, time.Now()))
	if err != nil {
		return nil, err
	}
	body, err := encode(tree)
	return &hook{event: "issues.labeled", id: freshID(), secret: soakSecret, body: body}, err
}

// untilAccepted sends to one door after the other.
func (s *soak) untilAccepted(ctx context.Context, h *hook, door int) {
	s.mu.Lock()
	s.sent[h.id] = true
	s.mu.Unlock()
	for ; ctx.Err() == nil; door++ {
		if got, ok := s.post(ctx, h, door); ok {
			s.mu.Lock()
			s.accepted[h.id] = got.Task
			s.mu.Unlock()
			return
		}
		pauseFor(ctx, 50*time.Millisecond)
	}
}

// again delivers what was accepted once more; the answer, if any, must name
// the same task.
func (s *soak) again(ctx context.Context, h *hook, door int) {
	got, ok := s.post(ctx, h, door)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dups++
	if ok && got.Task != s.accepted[h.id] {
		s.accepted[h.id+" again"] = got.Task // shows up as lost or twice
	}
}

// post sends once; a server that is down or starting is not accepted.
func (s *soak) post(ctx context.Context, h *hook, door int) (hookAnswer, bool) {
	ctx, cancel := context.WithTimeout(ctx, githubPatience)
	defer cancel()
	began := time.Now()
	ans, err := s.doors[door%len(s.doors)].client.Load().deliver(ctx, h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	s.answers.note(h.id, ans, err, began)
	if err != nil || ans.status != http.StatusOK {
		return hookAnswer{}, false
	}
	return readHook(ans), true
}

// watcher notes when the list first shows a task as ended: no run may begin
// after that.
func (s *soak) watcher(ctx, over context.Context) error {
	for pauseFor(over, 250*time.Millisecond) {
		list, err := s.doors[0].list(ctx)
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
