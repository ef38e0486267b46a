package githubtest

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"
)

// SHA makes a commit's name out of a text, for tests.
func SHA(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// maxOutput is the longest summary or text of a check run.
const maxOutput = 65535

// Check is a check run.
type Check struct {
	ID         int64
	Name       string
	HeadSHA    string
	ExternalID string
	DetailsURL string
	Status     string
	Conclusion string
	Title      string
	Summary    string
	// History is every state it was in, as status or status:conclusion.
	History []string
}

type check struct {
	Check
	app       int64
	completed time.Time
}

type checkOutput struct {
	Title   string `json:"title"`
	Summary string `json:"summary"`
	Text    string `json:"text"`
}

type checkInput struct {
	Name       *string      `json:"name"`
	HeadSHA    string       `json:"head_sha"`
	ExternalID *string      `json:"external_id"`
	DetailsURL *string      `json:"details_url"`
	Status     string       `json:"status"`
	Conclusion string       `json:"conclusion"`
	Output     *checkOutput `json:"output"`
}

// Checks lists the check runs of a repository, oldest first.
func (s *Server) Checks(repo int64) []Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Check
	for _, c := range s.repos[repo].checks {
		k := c.Check
		k.History = slices.Clone(k.History)
		out = append(out, k)
	}
	return out
}

// AddForeignCheck makes a check run of another App, with any external id.
func (s *Server) AddForeignCheck(repo int64, head, externalID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID++
	s.repos[repo].checks = append(s.repos[repo].checks, &check{
		app: 1, Check: Check{ID: s.nextID, Name: "other", HeadSHA: head, ExternalID: externalID, Status: "completed", Conclusion: "success"},
	})
}

func (s *Server) createCheck(c *call) {
	var in checkInput
	if !decode(c.w, c.r, &in) {
		return
	}
	if in.Name == nil || *in.Name == "" || in.HeadSHA == "" {
		fail(c.w, http.StatusUnprocessableEntity, "Invalid request.\n\n\"name\", \"head_sha\" weren't supplied.", "")
		return
	}
	if !c.repo.commits[in.HeadSHA] {
		fail(c.w, http.StatusUnprocessableEntity, "No commit found for SHA: "+in.HeadSHA, "")
		return
	}
	s.nextID++
	k := &check{app: s.o.AppID, Check: Check{ID: s.nextID, HeadSHA: in.HeadSHA, Status: "queued"}}
	if k.apply(c.w, in, s.o.Now()) {
		c.repo.checks = append(c.repo.checks, k)
		reply(c.w, http.StatusCreated, s.checkJSON(c.repo, k))
	}
}

func (s *Server) updateCheck(c *call) {
	k := c.repo.check(id(c.r, "id"))
	var in checkInput
	if k == nil || k.app != s.o.AppID {
		notFound(c.w)
		return
	}
	if decode(c.w, c.r, &in) && k.apply(c.w, in, s.o.Now()) {
		reply(c.w, http.StatusOK, s.checkJSON(c.repo, k))
	}
}

// apply checks an input and writes it into the check run.
func (k *check) apply(w http.ResponseWriter, in checkInput, now time.Time) bool {
	if o := in.Output; o != nil {
		for _, text := range []string{o.Summary, o.Text} {
			if n := utf8.RuneCountInString(text); n > maxOutput || len(text) > maxOutput {
				fail(w, http.StatusUnprocessableEntity, fmt.Sprintf("Invalid request.\n\nOnly 65535 characters are allowed; %d were supplied.", n), "")
				return false
			}
		}
		if o.Title == "" || o.Summary == "" {
			fail(w, http.StatusUnprocessableEntity, "Invalid request.\n\n\"title\", \"summary\" weren't supplied.", "")
			return false
		}
	}
	if in.Conclusion != "" {
		in.Status = "completed"
	}
	conclusions := []string{"success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"}
	switch {
	case in.Status == "completed" && !slices.Contains(conclusions, in.Conclusion):
		fail(w, http.StatusUnprocessableEntity, "Invalid request.\n\nMissing conclusion.", "")
		return false
	case in.Status != "" && !slices.Contains([]string{"queued", "in_progress", "completed"}, in.Status):
		fail(w, http.StatusUnprocessableEntity, "Invalid request.\n\nUnknown status.", "")
		return false
	}
	k.write(in, now)
	return true
}

func (k *check) write(in checkInput, now time.Time) {
	for to, from := range map[*string]*string{&k.Name: in.Name, &k.ExternalID: in.ExternalID, &k.DetailsURL: in.DetailsURL} {
		if from != nil {
			*to = *from
		}
	}
	if in.Output != nil {
		k.Title, k.Summary = in.Output.Title, in.Output.Summary
	}
	if in.Status != "" {
		k.Status, k.Conclusion, k.completed = in.Status, in.Conclusion, time.Time{}
		if in.Status == "completed" {
			k.completed = now
		}
	}
	state := k.Status
	if k.Conclusion != "" {
		state += ":" + k.Conclusion
	}
	k.History = append(k.History, state)
}

func (r *repository) check(id int64) *check {
	for _, k := range r.checks {
		if k.ID == id {
			return k
		}
	}
	return nil
}

func (s *Server) getCheck(c *call) {
	k := c.repo.check(id(c.r, "id"))
	if k == nil {
		notFound(c.w)
		return
	}
	reply(c.w, http.StatusOK, s.checkJSON(c.repo, k))
}

// listChecks lists a commit's check runs, newest first; filter=latest, the
// default, keeps the newest of each name and App.
func (s *Server) listChecks(c *call) {
	sha := c.repo.resolve(c.r.PathValue("ref"))
	if sha == "" {
		fail(c.w, http.StatusUnprocessableEntity, "No commit found for SHA: "+c.r.PathValue("ref"), "")
		return
	}
	q := c.r.URL.Query()
	var all []object
	seen := map[string]bool{}
	for _, k := range slices.Backward(c.repo.checks) {
		key := fmt.Sprint(k.app, " ", k.Name)
		if k.HeadSHA != sha || q.Get("filter") != "all" && seen[key] ||
			q.Get("check_name") != "" && q.Get("check_name") != k.Name ||
			q.Get("status") != "" && q.Get("status") != k.Status ||
			q.Get("app_id") != "" && q.Get("app_id") != fmt.Sprint(k.app) {
			continue
		}
		seen[key] = true
		all = append(all, s.checkJSON(c.repo, k))
	}
	reply(c.w, http.StatusOK, object{"total_count": len(all), "check_runs": page(c.w, c.r, s.url+s.prefix, all)})
}

func (s *Server) checkJSON(r *repository, k *check) object {
	out := object{
		"id": k.ID, "name": k.Name, "head_sha": k.HeadSHA, "external_id": k.ExternalID, "status": k.Status, "conclusion": nil,
		"details_url": k.DetailsURL, "html_url": fmt.Sprintf("%s/%s/runs/%d", s.url, r.full(), k.ID),
		"completed_at": date(k.completed), "app": object{"id": k.app}, "output": object{"title": k.Title, "summary": k.Summary},
	}
	if k.app == s.o.AppID {
		out["app"] = s.appJSON()
	}
	if k.Conclusion != "" {
		out["conclusion"] = k.Conclusion
	}
	return out
}
