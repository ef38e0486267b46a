//go:build !linux

package doctor

// filesystem cannot tell the kind of filesystem here.
func filesystem(string) string { return "" }

// full cannot tell how full a disk is here.
func full(string) int { return 0 }
