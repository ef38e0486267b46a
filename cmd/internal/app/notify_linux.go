package app

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// monotonic is when a reload began, which Type=notify-reload wants to know.
func monotonic() string {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return "MONOTONIC_USEC=0"
	}
	return fmt.Sprintf("MONOTONIC_USEC=%d", t.Nano()/1000)
}
