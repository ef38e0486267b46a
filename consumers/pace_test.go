//go:build !race

package consumers

import "time"

const (
	// beat is the time between the beats of a process under test.
	beat = 250 * time.Millisecond
	// parallelTests is more than the cores: most tests wait for beats.
	parallelTests = "8"
)
