//go:build ci

package consumers

// modelChecks is how many sequences .ci/run tries.
const modelChecks = 2400
