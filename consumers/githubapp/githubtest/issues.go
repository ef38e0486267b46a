package githubtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Issue is an issue.
type Issue struct {
	Number int
	Title  string
	Body   string
	Login  string
	State  string // "" is open
	Labels []string
}

// hiddenIssue is the state of an issue that lists do not show yet.
const hiddenIssue = "hidden"

// issue is an issue or, if pull is set, a pull request.
type issue struct {
	Issue
	pull             *Pull
	created, updated time.Time
}

// AddIssue makes an issue; number 0 takes the next one. It returns the number.
func (s *Server) AddIssue(repo int64, i Issue) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issue(s.repos[repo], i, nil).Number
}

// Issues lists the issues of a repository without the pull requests.
func (s *Server) Issues(repo int64) []Issue {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Issue
	for _, i := range s.repos[repo].issues {
		if i.pull == nil {
			out = append(out, i.Issue)
		}
	}
	return out
}

// SetIssueState opens or closes an issue; "hidden" keeps it out of lists.
func (s *Server) SetIssueState(repo int64, number int, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[repo].issue(number).State = state
}

// Hide makes lists of issues read empty, as those of GitHub may for a while
// after one was made, or ends that.
func (s *Server) Hide(repo int64, hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[repo].hidden = hidden
}

func (s *Server) issue(r *repository, i Issue, p *Pull) *issue {
	if i.Number == 0 || r.issue(i.Number) != nil {
		i.Number = 1
		for _, old := range r.issues {
			i.Number = max(i.Number, old.Number+1)
		}
	}
	if i.State == "" {
		i.State = "open"
	}
	now := s.o.Now()
	k := &issue{Issue: i, pull: p, created: now, updated: now}
	r.issues = append(r.issues, k)
	return k
}

func (r *repository) issue(number int) *issue {
	for _, i := range r.issues {
		if i.Number == number {
			return i
		}
	}
	return nil
}

func (s *Server) createIssue(c *call) {
	var in struct {
		Title  string
		Body   string
		Labels []string
	}
	if !decode(c.w, c.r, &in) {
		return
	}
	if in.Title == "" {
		invalid(c.w, "Issue", "title", "missing_field", "")
		return
	}
	if badBody(c.w, "Issue", in.Body) {
		return
	}
	i := s.issue(c.repo, Issue{Title: in.Title, Body: in.Body, Labels: in.Labels, Login: s.Login()}, nil)
	reply(c.w, http.StatusCreated, s.issueJSON(c.repo, i))
}

func (s *Server) getIssue(c *call) {
	if i := c.repo.issue(int(id(c.r, "number"))); i != nil {
		reply(c.w, http.StatusOK, s.issueJSON(c.repo, i))
		return
	}
	notFound(c.w)
}

// listIssues lists newest first, pull requests among them, as GitHub does.
func (s *Server) listIssues(c *call) {
	q := c.r.URL.Query()
	since, _ := time.Parse(time.RFC3339, q.Get("since"))
	state := q.Get("state")
	if state == "" {
		state = "open"
	}
	all := []object{}
	if c.repo.hidden {
		reply(c.w, http.StatusOK, all)
		return
	}
	for _, i := range slices.Backward(c.repo.issues) {
		if i.State == hiddenIssue || state != "all" && i.State != state || q.Get("creator") != "" && !strings.EqualFold(q.Get("creator"), i.Login) || i.updated.Before(since) {
			continue
		}
		if want := q.Get("labels"); want != "" && !hasAll(i.Labels, strings.Split(want, ",")) {
			continue
		}
		all = append(all, s.issueJSON(c.repo, i))
	}
	reply(c.w, http.StatusOK, page(c.w, c.r, s.url+s.prefix, all))
}

func hasAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
}

func (s *Server) issueJSON(r *repository, i *issue) object {
	labels := []object{}
	for _, l := range i.Labels {
		labels = append(labels, object{"name": l})
	}
	out := object{
		"id": i.Number, "number": i.Number, "title": i.Title, "body": i.Body, "state": i.State, "user": user(i.Login), "labels": labels,
		"created_at": date(i.created), "updated_at": date(i.updated),
		"html_url": fmt.Sprintf("%s/%s/issues/%d", s.url, r.full(), i.Number),
	}
	if i.Login == s.Login() {
		out["performed_via_github_app"] = s.appJSON()
	}
	if i.pull != nil {
		out["pull_request"] = object{"url": fmt.Sprintf("%s/repos/%s/pulls/%d", s.url+s.prefix, r.full(), i.Number)}
	}
	return out
}
