package task

import "slices"

// Slot is a place under an installation's cap, held by one attempt of a task
// by one process.
type Slot struct {
	Task    ID     `json:"task"`
	Attempt int    `json:"attempt"`
	Boot    BootID `json:"boot"`
}

// Slots is the value of slots.<installation>: who holds a place, over all
// processes. It is changed by compare-and-set alone.
type Slots struct {
	V       int    `json:"v"`
	Entries []Slot `json:"entries"`
}

// Next gives the places of drop back, then one to each of want, in order, as
// long as fewer than limit are held. outside are attempts that run without a
// place, from before there was a cap: they count too. got says who of want has
// a place; changed, whether there is anything to write. s is left as it is.
//
// An entry of an earlier attempt of a wanted task is left over: that attempt
// has ended, or there would be no later one.
func (s Slots) Next(drop, want, outside []Slot, limit int) (next Slots, got []bool, changed bool) {
	next = Slots{V: Version, Entries: make([]Slot, 0, len(s.Entries)+len(want))}
	for _, e := range s.Entries {
		over := func(w Slot) bool { return w.Task == e.Task && w.Attempt > e.Attempt }
		if !slices.Contains(drop, e) && !slices.ContainsFunc(want, over) {
			next.Entries = append(next.Entries, e)
		}
	}
	changed = len(next.Entries) != len(s.Entries)
	got = make([]bool, len(want))
	for i, w := range want {
		switch {
		case slices.Contains(next.Entries, w):
			got[i] = true
		case len(next.Entries)+next.beside(outside, w) < limit:
			next.Entries = append(next.Entries, w)
			got[i], changed = true, true
		}
	}
	return next, got, changed
}

// beside counts the attempts that have no entry, but for the one that wants it.
func (s Slots) beside(outside []Slot, want Slot) int {
	n := 0
	for _, o := range outside {
		same := func(e Slot) bool { return e.Task == o.Task && e.Attempt == o.Attempt }
		if !same(want) && !slices.ContainsFunc(s.Entries, same) {
			n++
		}
	}
	return n
}
