package ingest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/belay-run/belay/kv/view"
)

// wireUsage is what one familiar did for one repository (REQUIREMENTS §API):
// each task once, however many attempts it took.
type wireUsage struct {
	InstallationID int64   `json:"installationId"`
	Repo           string  `json:"repo"`
	FamiliarID     string  `json:"familiarId"`
	Tasks          int     `json:"tasks"`
	Completed      int     `json:"completed"`
	Failed         int     `json:"failed"`
	RuntimeSecs    float64 `json:"runtimeSecs"`
}

type wireUsageList struct {
	OK         bool        `json:"ok"`
	Usage      []wireUsage `json:"usage"`
	NextCursor string      `json:"nextCursor,omitempty"`
}

// maxDays is the largest number of days that usage is asked for.
const maxDays = 3650

// listUsage answers what was done in a window of days, all by default.
func (s *Server) listUsage(w http.ResponseWriter, r *http.Request, c Caller) error {
	q, err := parseList(r, c.Scope, nil)
	if err != nil {
		return err
	}
	since, until, err := s.window(r)
	if err != nil {
		return err
	}
	out := wireUsageList{OK: true, Usage: []wireUsage{}}
	if inst, ok := q.within(c.Scope); ok {
		page, err := s.o.Usage.Usage(view.UsageQuery{
			Installation: inst, Repos: c.Scope.Repos, Repo: q.repo, Since: since, Until: until, Limit: q.limit, Cursor: q.cursor,
		})
		if err != nil {
			return err
		}
		for _, u := range page.Rows {
			out.Usage = append(out.Usage, wireUsage{
				InstallationID: u.InstallationID, Repo: u.Repo, FamiliarID: u.FamiliarID,
				Tasks: u.Tasks, Completed: u.Completed, Failed: u.Failed, RuntimeSecs: u.Runtime.Seconds(),
			})
		}
		out.NextCursor = q.next(page.Next)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// window reads since and until, or days: the last so many, today's included.
// All are days in UTC; zero times are open ends.
func (s *Server) window(r *http.Request) (since, until time.Time, err error) {
	v := r.URL.Query()
	for _, p := range []struct {
		name string
		to   *time.Time
	}{{"since", &since}, {"until", &until}} {
		if text := v.Get(p.name); text != "" {
			if *p.to, err = time.Parse(time.DateOnly, text); err != nil {
				return since, until, badParameter(p.name, "a day in UTC, such as 2026-05-31")
			}
		}
	}
	if !until.IsZero() && until.Before(since) {
		return since, until, badParameter("until", "since or a later day")
	}
	text := v.Get("days")
	if text == "" {
		return since, until, nil
	}
	days, err := strconv.Atoi(text)
	switch {
	case err != nil || days < 1 || days > maxDays:
		return since, until, badParameter("days", "a number from 1 to "+strconv.Itoa(maxDays))
	case !since.IsZero() || !until.IsZero():
		return since, until, badParameter("days", "left out with since or until")
	}
	return s.o.Now().UTC().AddDate(0, 0, 1-days), time.Time{}, nil
}
