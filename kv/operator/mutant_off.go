//go:build !mutants

package operator

// mutant reports whether a known fault is to be made, so that the tests can be
// proven to find it. It is compiled in with the build tag mutants only.
func mutant(string) bool { return false }
