package relay

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// recipient is a way out and who is at its end.
type recipient struct{ channel, to string }

// seat counts the sends to one recipient. The limit falls to one when a try
// does not succeed and doubles when one does, so that a recipient that is dead
// takes one of the relay's sends and not all of its own.
type seat struct{ taken, limit int }

// seats bound the sends in flight and know which channels are disabled.
type seats struct {
	mu       sync.Mutex
	total    int
	max, per int
	by       map[recipient]*seat
	disabled map[string]Disabled
}

func newSeats(limit, per int) *seats {
	return &seats{max: limit, per: per, by: map[recipient]*seat{}, disabled: map[string]Disabled{}}
}

// room is how many more sends a recipient may have now.
func (s *seats) room(channel, to string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, off := s.disabled[channel]; off {
		return 0
	}
	free := s.max - s.total
	if t := s.by[recipient{channel, to}]; t != nil {
		return min(free, t.limit-t.taken)
	}
	return min(free, s.per)
}

// take occupies a seat, false if there is none.
func (s *seats) take(to recipient) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.by[to]
	if t == nil {
		t = &seat{limit: s.per}
		s.by[to] = t
	}
	if s.total >= s.max || t.taken >= t.limit {
		return false
	}
	t.taken++
	s.total++
	return true
}

// judge moves a recipient's limit by the outcome of a try.
func (s *seats) judge(to recipient, v Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.by[to]
	if t == nil {
		return
	}
	switch v {
	case Delivered:
		t.limit = min(s.per, 2*t.limit)
	case Refused, Unknown:
		t.limit = 1
	}
}

func (s *seats) release(to recipient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.by[to]
	t.taken--
	s.total--
	if t.taken == 0 && t.limit == s.per {
		delete(s.by, to)
	}
}

func (s *seats) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Disabled is a channel that its recipient wants nothing more through.
type Disabled struct {
	Channel string
	Reason  string
	Since   time.Time
}

// disable reports whether the channel was enabled until now.
func (s *seats) disable(d Disabled) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, off := s.disabled[d.Channel]; off {
		return false
	}
	s.disabled[d.Channel] = d
	return true
}

// Disabled lists the channels that this process has stopped to use because
// their recipient answered 410. Their records stay pending, so nothing is lost
// while somebody looks; Enable or a restart goes on.
func (r *Relay) Disabled() []Disabled {
	r.seats.mu.Lock()
	defer r.seats.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.seats.disabled), func(a, b Disabled) int { return strings.Compare(a.Channel, b.Channel) })
}

// Enable uses a channel again, for instance when its configuration changed.
func (r *Relay) Enable(channel string) {
	r.seats.mu.Lock()
	delete(r.seats.disabled, channel)
	r.seats.mu.Unlock()
	r.wakeUp()
}
