package redact

// scanner is the state between two pieces of one text.
type scanner struct {
	cover   int         // how many of the next bytes a secret covers
	run     [kinds]bool // runs that go on after cover
	running bool        // any of run
	inside  bool        // the last byte was covered, its Marker is out
	found   bool        // a Marker was put out
}

// scan appends the redacted form of b to out as far as it is decided, and
// returns how much of b that was: all of it if final.
func (s *scanner) scan(v *values, out, b []byte, final bool) ([]byte, int) {
	i := 0
	for i < len(b) {
		if s.cover == 0 && !s.running {
			j := i
			for j < len(b) && !v.start[b[j]] {
				j++
			}
			if j > i {
				out, s.inside = append(out, b[i:j]...), false
				i = j
				continue
			}
		}
		covered, wait := s.step(v, b[i:], final)
		if wait {
			break
		}
		if !covered {
			out = append(out, b[i])
		} else if !s.inside {
			out, s.found = append(out, Marker...), true
		}
		s.inside = covered
		i++
	}
	return out, i
}

// step decides on b[0]. It changes nothing if it has to wait.
func (s *scanner) step(v *values, b []byte, final bool) (covered, wait bool) {
	run := s.run
	if s.cover == 0 && s.running {
		for k := range kinds {
			if !run[k] {
				continue
			}
			ok, wait := k.goesOn(b, final)
			if wait {
				return false, true
			}
			run[k] = ok
			covered = covered || ok
		}
	}
	cover := s.cover
	if v.start[b[0]] {
		n, wait := v.longest(b, final)
		if wait {
			return false, true
		}
		cover = max(cover, n)
		for i := range patternsAt[b[0]] {
			p := &patternsAt[b[0]][i]
			ok, wait := p.match(b, final)
			if wait {
				return false, true
			}
			if ok {
				cover = max(cover, len(p.prefix)+p.least)
				run[p.kind] = true
			}
		}
	}
	if cover > 0 {
		covered = true
		cover--
	}
	s.cover, s.run = cover, run
	s.running = run != [kinds]bool{}
	return covered, false
}
