package view

import (
	"slices"

	"github.com/belay-run/belay/kv/task"
)

// pull names a pull request, for all familiars.
type pull struct {
	inst, repoID int64
	number       int32
}

func (e *entry) pull() pull { return pull{e.inst, e.repoID, e.number} }

func (v *View) addReview(e *entry) {
	if e.kind() == task.ReviewPullRequest {
		v.pulls[e.pull()] = append(v.pulls[e.pull()], e)
	}
}

func (v *View) dropReview(e *entry) {
	if e.kind() != task.ReviewPullRequest {
		return
	}
	p := e.pull()
	left := slices.DeleteFunc(v.pulls[p], func(o *entry) bool { return o == e })
	if len(left) == 0 {
		delete(v.pulls, p)
		return
	}
	v.pulls[p] = left
}

// hasSibling reports whether another review under the supersede key of e is
// in a state.
func (v *View) hasSibling(e *entry, s task.State) bool {
	return e.kind() == task.ReviewPullRequest && slices.ContainsFunc(v.pulls[e.pull()], func(o *entry) bool {
		return o != e && o.state() == s && o.familiar == e.familiar
	})
}

// QueuedReviews returns the queued reviews of one pull request, all familiars.
func (v *View) QueuedReviews(installation, repoID int64, number int) []task.ID {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []task.ID
	for _, e := range v.pulls[pull{installation, repoID, int32(number)}] {
		if e.state() == task.Queued {
			out = append(out, task.ID(e.id.String()))
		}
	}
	return out
}
