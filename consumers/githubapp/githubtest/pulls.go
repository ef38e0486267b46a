package githubtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Pull is a pull request.
type Pull struct {
	Number int
	Title  string
	Body   string
	Login  string
	State  string // open or closed; "" is open
	Draft  bool
	// Owner is the account of the head branch; "" is the repository's own.
	Owner   string
	Branch  string
	HeadSHA string
	Base    string // "" is the default branch
	Files   []string
}

// maxFiles is how many files of a pull request GitHub lists.
const maxFiles = 3000

// AddPull makes a pull request; number 0 takes the next one. The branch
// points to its head.
func (s *Server) AddPull(repo int64, p Pull) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pull(s.repos[repo], p).Number
}

func (s *Server) pull(r *repository, p Pull) *issue {
	if p.Owner == "" {
		p.Owner = r.Owner
		r.branches[p.Branch] = p.HeadSHA
	}
	if p.Base == "" {
		p.Base = r.DefaultBranch
	}
	r.commits[p.HeadSHA] = true
	i := s.issue(r, Issue{Number: p.Number, Title: p.Title, Body: p.Body, Login: p.Login, State: p.State}, &p)
	return i
}

// ClosePull closes a pull request.
func (s *Server) ClosePull(repo int64, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[repo].issue(number).State = "closed"
}

// Pulls lists the pull requests of a repository, oldest first.
func (s *Server) Pulls(repo int64) []Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Pull
	for _, i := range s.repos[repo].issues {
		if i.pull != nil {
			p := *i.pull
			p.Number, p.Title, p.Body, p.State = i.Number, i.Title, i.Body, i.State
			out = append(out, p)
		}
	}
	return out
}

func (s *Server) createPull(c *call) {
	var in struct {
		Title, Head, Base, Body string
		Draft                   bool
	}
	if !decode(c.w, c.r, &in) {
		return
	}
	owner, branch, ok := strings.Cut(in.Head, ":")
	if !ok {
		owner, branch = c.repo.Owner, in.Head
	}
	head, base := c.repo.branches[branch], c.repo.branches[in.Base]
	for _, i := range c.repo.issues {
		if i.pull != nil && i.State == "open" && i.pull.Branch == branch && i.pull.Owner == owner && i.pull.Base == in.Base {
			invalid(c.w, "PullRequest", "", "custom", "A pull request already exists for "+owner+":"+branch+".")
			return
		}
	}
	switch {
	case in.Title == "":
		invalid(c.w, "PullRequest", "title", "missing_field", "")
	case head == "":
		invalid(c.w, "PullRequest", "head", "invalid", "")
	case base == "":
		invalid(c.w, "PullRequest", "base", "invalid", "")
	case head == base:
		invalid(c.w, "PullRequest", "", "custom", "No commits between "+in.Base+" and "+branch)
	case in.Draft && c.repo.NoDrafts:
		fail(c.w, http.StatusUnprocessableEntity, "Draft pull requests are not supported in this repository.", "")
	case badBody(c.w, "PullRequest", in.Body):
	default:
		i := s.pull(c.repo, Pull{
			Title: in.Title, Body: in.Body, Login: s.Login(), Draft: in.Draft, Owner: owner, Branch: branch, HeadSHA: head, Base: in.Base,
		})
		reply(c.w, http.StatusCreated, s.pullJSON(c.repo, i))
	}
}

func (s *Server) getPull(c *call) {
	if i := c.repo.issue(int(id(c.r, "number"))); i != nil && i.pull != nil {
		reply(c.w, http.StatusOK, s.pullJSON(c.repo, i))
		return
	}
	notFound(c.w)
}

// listPulls lists newest first. A head that is not owner:branch filters
// nothing, as at GitHub.
func (s *Server) listPulls(c *call) {
	q := c.r.URL.Query()
	state := q.Get("state")
	if state == "" {
		state = "open"
	}
	all := []object{}
	for _, i := range slices.Backward(c.repo.issues) {
		if i.pull == nil || state != "all" && i.State != state || q.Get("base") != "" && q.Get("base") != i.pull.Base {
			continue
		}
		if h := q.Get("head"); strings.Contains(h, ":") && h != i.pull.Owner+":"+i.pull.Branch {
			continue
		}
		all = append(all, s.pullJSON(c.repo, i))
	}
	reply(c.w, http.StatusOK, page(c.w, c.r, s.url+s.prefix, all))
}

func (s *Server) listPullFiles(c *call) {
	i := c.repo.issue(int(id(c.r, "number")))
	if i == nil || i.pull == nil {
		notFound(c.w)
		return
	}
	all := []object{}
	for _, f := range i.pull.Files[:min(len(i.pull.Files), maxFiles)] {
		all = append(all, object{"filename": f, "status": "modified", "sha": SHA(f)})
	}
	reply(c.w, http.StatusOK, page(c.w, c.r, s.url+s.prefix, all))
}

// pullJSON has a merge commit of its own, which is not the head (G27).
func (s *Server) pullJSON(r *repository, i *issue) object {
	p := i.pull
	out := object{
		"id": i.Number, "number": i.Number, "title": i.Title, "body": i.Body, "state": i.State, "draft": p.Draft,
		"user": user(i.Login), "merge_commit_sha": SHA("merge " + p.HeadSHA),
		"html_url":   fmt.Sprintf("%s/%s/pull/%d", s.url, r.full(), i.Number),
		"created_at": date(i.created), "updated_at": date(i.updated),
		"head": object{"ref": p.Branch, "sha": p.HeadSHA, "label": p.Owner + ":" + p.Branch, "repo": nil},
		"base": object{"ref": p.Base, "sha": r.branches[p.Base], "repo": r.json(s)},
	}
	if p.Owner == r.Owner {
		out["head"].(object)["repo"] = r.json(s)
	}
	return out
}
