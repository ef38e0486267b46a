// Package view is the read model: it watches bucket STATE and keeps a compact
// index from which lists, counts and scheduling are answered without a scan
// of the bucket. It decides nothing: every change is a compare-and-set on the
// record itself, and a stale view costs a lost race, never a wrong state.
package view
