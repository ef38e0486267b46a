package natstest

import (
	"testing"
	"time"
)

const (
	// patience is how long Eventually waits. It is long because it is only
	// spent by tests that fail.
	patience = 20 * time.Second
	// poll is how often Eventually looks.
	poll = 2 * time.Millisecond
)

// Eventually waits until cond holds, and fails the test when it does not come
// to hold within 20 s. what completes "waited in vain for …". cond runs in the
// test's goroutine.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
