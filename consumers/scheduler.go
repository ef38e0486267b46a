package consumers

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// grace is the base of G, the time for which a new task is left to the
// process that holds its token (DESIGN §7 rule 12).
const grace = 100 * time.Millisecond

// scheduler picks which task runs next. It is pure but for its turn: round
// robin over installations (every task costs one, so a deficit is never
// carried over), within one of them the oldest, or among several processes
// one of the K oldest at random.
type scheduler struct {
	boot task.BootID
	rand *rand.Rand
	// last is the installation that was served last.
	last int64
}

// crowd says how many processes pick from the same queue.
type crowd struct{ workers int }

// k is how many of the oldest tasks of an installation one picks among.
func (c crowd) k() int {
	if c.workers <= 1 {
		return 1
	}
	return 4 * c.workers
}

// wait is how long a task must have been eligible here before a process
// without its token takes it: spread by a hash, so that idle processes do
// not all race for one new task.
func (s *scheduler) wait(c crowd, id task.ID) time.Duration {
	if c.workers <= 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.boot))
	_, _ = h.Write([]byte(id))
	return grace + time.Duration(h.Sum32()%100)*time.Millisecond
}

// queues is what the scheduler picks from: the installations with due tasks,
// in any order, and the oldest candidates of each.
type queues struct {
	waiting []int64
	oldest  func(installation int64) []view.Candidate
}

// pick chooses among the candidates; own is the token's task, "" without a
// token. Without a token only tasks that have waited are taken. It looks at
// no more installations than it must.
func (s *scheduler) pick(now time.Time, q queues, c crowd, token bool, own task.ID) (view.Candidate, bool) {
	var first, mine *view.Candidate
	for _, inst := range s.turns(q.waiting) {
		cands := q.oldest(inst)
		var ripe []view.Candidate
		for i, cand := range cands {
			if now.Sub(cand.Since) >= s.wait(c, cand.ID) && len(ripe) < c.k() {
				ripe = append(ripe, cand)
			}
			if cand.ID == own && mine == nil {
				mine = &cands[i]
			}
		}
		if len(ripe) > 0 {
			return s.serve(ripe[s.rand.IntN(len(ripe))]), true
		}
		if first == nil && len(cands) > 0 {
			first = &cands[0]
		}
	}
	switch {
	case !token || first == nil:
		return view.Candidate{}, false
	case mine != nil && own != "":
		return s.serve(*mine), true
	}
	return s.serve(*first), true
}

// serve notes whose turn it was.
func (s *scheduler) serve(c view.Candidate) view.Candidate {
	s.last = c.InstallationID
	return c
}

// turns orders the installations, the one after the last served first.
func (s *scheduler) turns(waiting []int64) []int64 {
	out := slices.Clone(waiting)
	slices.Sort(out)
	i, _ := slices.BinarySearch(out, s.last+1)
	return append(slices.Clone(out[i:]), out[:i]...)
}
