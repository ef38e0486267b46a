package view

import (
	"slices"
	"unique"

	"github.com/belay-run/belay/kv/task"
)

// group names tasks of which only the newest should run, for all familiars:
// the reviews of a pull request, or those of a rule's group.
type group struct {
	inst, repoID int64
	number       int32
	rule         unique.Handle[string]
}

// group is the one that a task is in, false for none.
func (e *entry) group() (group, bool) {
	switch {
	case e.kind() == task.ReviewPullRequest:
		return group{inst: e.inst, repoID: e.repoID, number: e.number}, true
	case e.result != nil && e.result.rule != unique.Handle[string]{}:
		return group{inst: e.inst, repoID: e.repoID, rule: e.result.rule}, true
	}
	return group{}, false
}

func (v *View) join(e *entry) {
	if g, ok := e.group(); ok {
		v.groups[g] = append(v.groups[g], e)
	}
}

func (v *View) leave(e *entry) {
	g, ok := e.group()
	if !ok {
		return
	}
	left := slices.DeleteFunc(v.groups[g], func(o *entry) bool { return o == e })
	if len(left) == 0 {
		delete(v.groups, g)
		return
	}
	v.groups[g] = left
}

// hasSibling reports whether another task under the supersede key of e is in
// a state.
func (v *View) hasSibling(e *entry, s task.State) bool {
	g, ok := e.group()
	return ok && slices.ContainsFunc(v.groups[g], func(o *entry) bool {
		return o != e && o.state() == s && o.familiar == e.familiar
	})
}

// QueuedReviews returns the queued reviews of one pull request, all familiars.
func (v *View) QueuedReviews(installation, repoID int64, number int) []task.ID {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []task.ID
	for _, e := range v.groups[group{inst: installation, repoID: repoID, number: int32(number)}] {
		if e.state() == task.Queued {
			out = append(out, task.ID(e.id.String()))
		}
	}
	return out
}
