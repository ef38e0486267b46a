package kv

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belay-run/belay/kv/task"
)

const (
	// maxTallies bounds the callers counted in one minute; the others share one.
	maxTallies = 1000
	// maxWhats bounds the things told apart of one caller in one minute.
	maxWhats = 20
	// others stands for what is over a bound.
	others = "other"
)

// tally counts requests per kind, caller and minute.
type tally struct {
	mu     sync.Mutex
	minute time.Time
	counts map[tallyKey]map[string]int
}

type tallyKey struct {
	kind, caller string
	installation int64
}

// add counts a request and returns the entries to store now: those of a minute
// that is over, and the first denial of a caller.
func (t *tally) add(now time.Time, k tallyKey, what string) []AuditEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.over(now)
	whats, known := t.counts[k]
	if !known && len(t.counts) >= maxTallies {
		k.caller, k.installation = others, 0
		whats, known = t.counts[k]
	}
	if !known {
		whats = map[string]int{}
		t.counts[k] = whats
		if k.kind == AuditDenied {
			return append(out, AuditEntry{At: task.At(now), Kind: k.kind, Caller: k.caller, Detail: what, Count: 1})
		}
	}
	if _, known := whats[what]; !known && len(whats) >= maxWhats {
		what = others
	}
	whats[what]++
	return out
}

// flush returns the entries of the minutes before now, or all for the zero time.
func (t *tally) flush(now time.Time) []AuditEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over(now)
}

func (t *tally) over(now time.Time) []AuditEntry {
	minute := now.Truncate(time.Minute)
	if t.counts != nil && minute.Equal(t.minute) {
		return nil
	}
	var out []AuditEntry
	for k, whats := range t.counts {
		if len(whats) > 0 {
			out = append(out, summary(k, t.minute, whats))
		}
	}
	slices.SortFunc(out, func(a, b AuditEntry) int { return strings.Compare(a.Kind+" "+a.Caller, b.Kind+" "+b.Caller) })
	t.minute, t.counts = minute, map[tallyKey]map[string]int{}
	return out
}

// summary is the entry of one caller's minute: `deliveries 2, tasks 40`.
func summary(k tallyKey, minute time.Time, whats map[string]int) AuditEntry {
	e := AuditEntry{At: task.At(minute), Kind: k.kind, Caller: k.caller, InstallationID: k.installation}
	parts := make([]string, 0, len(whats))
	for _, what := range slices.Sorted(maps.Keys(whats)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, whats[what]))
		e.Count += whats[what]
	}
	e.Detail = strings.Join(parts, ", ")
	return e
}
