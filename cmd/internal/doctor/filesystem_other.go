//go:build !linux

package doctor

// filesystem cannot tell the kind of filesystem here.
func filesystem(string) string { return "" }
