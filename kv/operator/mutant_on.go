//go:build mutants

package operator

import "os"

// mutant reports whether the fault of this id is to be made.
func mutant(id string) bool { return os.Getenv("BELAY_MUTANT") == id }
