//go:build !linux

package app

// monotonic has no one to be told to: systemd is Linux's.
func monotonic() string { return "MONOTONIC_USEC=0" }
