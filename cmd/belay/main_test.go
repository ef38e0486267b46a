package main

import (
	"os"
	"testing"

	"github.com/belay-run/belay/consumers/executor"
)

// asBelay is the variable that makes the test binary belay itself, so that
// tests have its real processes without a build.
const asBelay = "TEST_AS_BELAY"

func TestMain(m *testing.M) {
	executor.Supervise()
	if os.Getenv(asBelay) != "" {
		_ = os.Unsetenv(asBelay)
		os.Exit(run())
	}
	os.Exit(m.Run())
}
