package githubtest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Mutation is a request that changed something, or would have if it had not
// been refused. Whether the client ever heard of it is another matter.
type Mutation struct {
	Op           string // the route
	Path         string
	Repo         string // owner/name
	Installation int64
	// Token names the permissions of the token that made it, sorted, such as
	// "checks:write contents:read issues:write metadata:read".
	Token  string
	Status int // of the effect: 2xx happened, 4xx was refused
	At     time.Time
}

// Mutations lists what happened, oldest first, refusals included.
func (s *Server) Mutations() []Mutation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mutations)
}

// Count counts the effects that happened by a route.
func (s *Server) Count(op string) int {
	n := 0
	for _, m := range s.Mutations() {
		if m.Op == op && m.Status < 300 {
			n++
		}
	}
	return n
}

// Requests counts the requests of a route, whatever became of them; "" is all.
func (s *Server) Requests(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op == "" {
		return len(s.requests)
	}
	n := 0
	for _, r := range s.requests {
		if r == op {
			n++
		}
	}
	return n
}

func (s *Server) record(c *call) {
	if c.r.Method == http.MethodGet {
		return
	}
	status := http.StatusOK
	if a, ok := c.w.(*answer); ok {
		status = max(a.status, http.StatusOK)
	}
	s.mutations = append(s.mutations, Mutation{
		Op: c.r.Pattern, Path: c.r.URL.Path, Repo: c.repo.full(), Installation: c.grant.installation.id,
		Token: canonical(c.grant.permissions), Status: status, At: s.o.Now(),
	})
}

func canonical(permissions map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(permissions)) {
		out = append(out, name+":"+permissions[name])
	}
	return strings.Join(out, " ")
}
