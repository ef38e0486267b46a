package main

import (
	"fmt"
	"net/http"
	"time"
)

// githubPatience is how long GitHub waits for the answer to a webhook.
const githubPatience = 10 * time.Second

// soakAnswers are what the doors of a fleet answered. They are never killed,
// so each webhook gets 200, or 503 when the store could not take it, and in
// time; what was refused is sent again.
type soakAnswers struct {
	refused  int           // 503
	slowest  time.Duration // until any answer
	lastTook time.Time     // when a webhook was accepted last
	longest  time.Duration // without an accepted one
	wrong    []string      // answers that must not be
}

// note takes one answer, which may be none.
func (a *soakAnswers) note(id string, ans answer, err error, began time.Time) {
	now := time.Now()
	a.slowest = max(a.slowest, now.Sub(began))
	switch {
	case err != nil:
		a.wrong = append(a.wrong, fmt.Sprintf("delivery %s: no answer after %s: %v", id, now.Sub(began).Round(time.Millisecond), err))
	case ans.status == http.StatusOK:
		if !a.lastTook.IsZero() {
			a.longest = max(a.longest, now.Sub(a.lastTook))
		}
		a.lastTook = now
	case ans.status == http.StatusServiceUnavailable:
		a.refused++
	default:
		a.wrong = append(a.wrong, fmt.Sprintf("delivery %s: status %d: %s", id, ans.status, ans.body))
	}
}
