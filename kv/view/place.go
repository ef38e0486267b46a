package view

import (
	"slices"
	"strings"
)

// Installations returns the ids of those that have listed tasks, in order.
func (v *View) Installations() []int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []int64
	for s := range v.lists {
		if s.kind == 'i' {
			out = append(out, s.num)
		}
	}
	slices.Sort(out)
	return out
}

// Account returns the owner of the repository that the installation's newest
// listed task is about, "" if it has none.
func (v *View) Account(installation int64) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.lists[scope{kind: 'i', num: installation}]
	if t == nil {
		return ""
	}
	e, _ := t.Min()
	owner, _, _ := strings.Cut(e.repo.Value(), "/")
	return owner
}
