//go:build race

package consumers

import "time"

const (
	// beat is slower where everything is.
	beat          = time.Second
	parallelTests = "4"
)
