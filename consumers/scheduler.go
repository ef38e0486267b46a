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

// pick chooses among the candidates; own is the token's task, "" without a
// token. Without a token only tasks that have waited are taken.
func (s *scheduler) pick(now time.Time, by map[int64][]view.Candidate, c crowd, token bool, own task.ID) (view.Candidate, bool) {
	turns := s.turns(by)
	for _, inst := range turns {
		var ripe []view.Candidate
		for _, cand := range by[inst] {
			if now.Sub(cand.Since) >= s.wait(c, cand.ID) && len(ripe) < c.k() {
				ripe = append(ripe, cand)
			}
		}
		if len(ripe) > 0 {
			s.last = inst
			return ripe[s.rand.IntN(len(ripe))], true
		}
	}
	if !token {
		return view.Candidate{}, false
	}
	for _, inst := range turns {
		for _, cand := range by[inst] {
			if cand.ID == own {
				s.last = inst
				return cand, true
			}
		}
	}
	if len(turns) == 0 {
		return view.Candidate{}, false
	}
	s.last = turns[0]
	return by[turns[0]][0], true
}

// turns orders the installations with eligible work, the one after the last
// served first.
func (s *scheduler) turns(by map[int64][]view.Candidate) []int64 {
	out := make([]int64, 0, len(by))
	for inst, cands := range by {
		if len(cands) > 0 {
			out = append(out, inst)
		}
	}
	slices.Sort(out)
	i, _ := slices.BinarySearch(out, s.last+1)
	return append(slices.Clone(out[i:]), out[:i]...)
}
