package ingest

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/belay-run/belay/kv"
)

// wireRouting is what would make tasks for one installation.
type wireRouting struct {
	InstallationID int64    `json:"installationId"`
	Account        string   `json:"account"`
	Familiars      []string `json:"familiars"`
	Triggers       []string `json:"triggers"`
	// Repos says which repositories make tasks.
	Repos wireRepos `json:"repos"`
	// Listed is whether the configuration names the installation.
	Listed bool `json:"listed"`
}

// wireRepos are the only repositories that make tasks, null for all, and those
// that never do: owner/name, or owner/*.
type wireRepos struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

type wireRoutingList struct {
	OK         bool          `json:"ok"`
	Routing    []wireRouting `json:"routing"`
	NextCursor string        `json:"nextCursor,omitempty"`
}

// listRouting answers for each installation that is listed or has tasks, by
// id. A tenant gets its own, and of its repositories only those that it sees.
func (s *Server) listRouting(w http.ResponseWriter, r *http.Request, c Caller) error {
	q, err := parseList(r, c.Scope, nil)
	if err != nil {
		return err
	}
	if q.repo != "" {
		return badParameter("repo", "left out: installations are listed as a whole")
	}
	after := int64(-1)
	if q.cursor != "" {
		if after, err = strconv.ParseInt(q.cursor, 10, 64); err != nil {
			return kv.ErrCursor
		}
	}
	out := wireRoutingList{OK: true, Routing: []wireRouting{}}
	for _, id := range s.installations(&q, c.Scope) {
		if id <= after {
			continue
		}
		if len(out.Routing) == q.limit {
			out.NextCursor = q.next(strconv.FormatInt(out.Routing[q.limit-1].InstallationID, 10))
			break
		}
		out.Routing = append(out.Routing, s.routingOf(id, c.Scope))
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// installations are those that a query is about, in order. Whoever names one
// gets an answer for that one, whether it has tasks or not.
func (s *Server) installations(q *listQuery, sc Scope) []int64 {
	one, ok := q.within(sc)
	switch {
	case !ok:
		return nil
	case one != nil:
		return []int64{*one}
	}
	ids := append(s.o.Config().Listed(), s.o.Places.Installations()...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (s *Server) routingOf(id int64, sc Scope) wireRouting {
	c := s.o.Config()
	sum := c.Summary(id)
	out := wireRouting{
		InstallationID: id, Account: s.o.Places.Account(id), Familiars: sum.Familiars, Triggers: sum.Triggers, Listed: sum.Listed,
		Repos: wireRepos{Allow: sum.Allow, Deny: append([]string{}, sum.Deny...)},
	}
	if sc.Repos != nil {
		out.Repos = wireRepos{Allow: []string{}, Deny: []string{}}
		for _, repo := range sc.Repos {
			if c.Permits(id, repo) {
				out.Repos.Allow = append(out.Repos.Allow, repo)
			}
		}
	}
	return out
}
