package githubapp

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gofri/go-github-ratelimit/v2/github_ratelimit/github_secondary_ratelimit"
)

// How long a secondary limit parks for if GitHub names no time.
const (
	firstPark   = time.Minute
	longestPark = time.Hour
)

// headerLimit is how many requests an hour has.
const headerLimit = "X-RateLimit-Limit"

// writeGap is the time between two writes of one installation.
const writeGap = time.Second

// limits knows which installations are parked, and how much is left to each.
type limits struct {
	now func() time.Time

	mu    sync.Mutex
	parks map[int64]*park
	rates map[int64]rate
}

type park struct {
	scope   Scope
	until   time.Time
	strikes int // secondary limits in a row
}

type rate struct {
	limit     int64
	remaining int64
	reset     time.Time
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, parks: map[int64]*park{}, rates: map[int64]rate{}}
}

// check returns the limit that an installation is parked by, nil if none.
func (l *limits) check(installation int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.parks[installation]; p != nil && l.now().Before(p.until) {
		return &RateLimitError{Scope: p.scope, Installation: installation, Until: p.until}
	}
	return nil
}

// park parks an installation. Concurrent calls that run into one limit count
// as one strike. A row of strikes is also over after an hour without any.
func (l *limits) park(installation int64, e *RateLimitError) *RateLimitError {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for k, p := range l.parks {
		if now.Sub(p.until) > longestPark {
			delete(l.parks, k)
		}
	}
	p := l.parks[installation]
	if p == nil {
		p = &park{}
		l.parks[installation] = p
	}
	parked := now.Before(p.until)
	if e.Scope == Secondary && !parked {
		p.strikes++
	}
	if e.Until.IsZero() {
		e.Until = now.Add(min(firstPark<<max(0, min(p.strikes-1, 10)), longestPark))
	}
	if parked && !e.Until.After(p.until) {
		e.Until, e.Scope = p.until, p.scope
	}
	p.scope, p.until, e.Installation = e.Scope, e.Until, installation
	return e
}

// passed takes note of an answer that was no limit. One to a write ends the
// row of strikes: reads may pass while writes are limited. It may have been
// the last answer of the hour.
func (l *limits) passed(installation int64, h http.Header, wrote bool) *RateLimitError {
	l.observe(installation, h)
	now := l.now()
	if h.Get(github_secondary_ratelimit.HeaderXRateLimitRemaining) == "0" {
		if at := reset(h, now); !at.IsZero() {
			return l.park(installation, &RateLimitError{Scope: Primary, Until: at})
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.parks[installation]; wrote && p != nil && !now.Before(p.until) {
		delete(l.parks, installation)
	}
	return nil
}

// observe keeps what is left of an installation's primary limit.
func (l *limits) observe(installation int64, h http.Header) {
	name := github_secondary_ratelimit.HeaderXRateLimitRemaining
	if h.Get(name) == "" {
		return
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rates[installation] = rate{
		limit: seconds(h, headerLimit), remaining: seconds(h, name),
		reset: time.Unix(seconds(h, github_secondary_ratelimit.HeaderXRateLimitReset), 0),
	}
	for k, r := range l.rates {
		if !r.reset.After(now) {
			delete(l.rates, k)
		}
	}
}

// lanes let the writes of an installation through one at a time.
type lanes struct {
	now   func() time.Time
	sleep func(context.Context, time.Duration) error

	mu sync.Mutex
	of map[int64]*lane
}

type lane struct {
	turn chan struct{}
	next time.Time // owned by the holder of turn
}

// enter waits for the turn and for writeGap after the last write; leave ends
// the turn and must be called.
func (l *lanes) enter(ctx context.Context, installation int64) (leave func(), err error) {
	l.mu.Lock()
	k := l.of[installation]
	if k == nil {
		k = &lane{turn: make(chan struct{}, 1)}
		l.of[installation] = k
	}
	l.mu.Unlock()
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if wait := k.next.Sub(l.now()); wait > 0 {
		if err := l.sleep(ctx, wait); err != nil {
			<-k.turn
			return nil, err
		}
	}
	return func() {
		k.next = l.now().Add(writeGap)
		<-k.turn
	}, nil
}

// sleep waits by the machine's clock.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
