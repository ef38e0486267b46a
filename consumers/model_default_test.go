//go:build !ci

package consumers

// modelChecks is how many sequences a plain `go test` tries.
const modelChecks = 60
