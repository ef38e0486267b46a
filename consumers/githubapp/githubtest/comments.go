package githubtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// maxBody is the longest body of an issue, comment or pull request.
const maxBody = 65536

// Comment is a comment on an issue or pull request.
type Comment struct {
	ID     int64
	Number int
	Login  string
	Body   string
	// Edits is every body it had, the present one last.
	Edits []string
	// ViaApp is the App that a person's comment was made through, 0 if none.
	ViaApp int64
}

type comment struct {
	Comment
	bot              bool
	created, updated time.Time
}

// Comments lists the comments of an issue or pull request, oldest first.
func (s *Server) Comments(repo int64, number int) []Comment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Comment
	for _, c := range s.repos[repo].comments {
		if c.Number == number {
			k := c.Comment
			k.Edits = slices.Clone(k.Edits)
			out = append(out, k)
		}
	}
	return out
}

// AddComment makes a comment of somebody, a bot if the login says so. ViaApp
// is kept.
func (s *Server) AddComment(repo int64, c Comment) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.comment(s.repos[repo], c).ID
}

func (s *Server) comment(r *repository, c Comment) *comment {
	s.nextID++
	c.ID, c.Edits = s.nextID, []string{c.Body}
	now := s.o.Now()
	k := &comment{Comment: c, bot: strings.HasSuffix(c.Login, "[bot]"), created: now, updated: now}
	r.comments = append(r.comments, k)
	return k
}

func badBody(w http.ResponseWriter, resource, body string) bool {
	switch {
	case body == "" && resource == "IssueComment":
		invalid(w, resource, "body", "missing_field", "")
	case utf8.RuneCountInString(body) > maxBody:
		invalid(w, resource, "body", "custom", "body is too long (maximum is 65536 characters)")
	default:
		return false
	}
	return true
}

func (s *Server) createComment(c *call) {
	var in struct{ Body string }
	n := int(id(c.r, "number"))
	if c.repo.issue(n) == nil {
		notFound(c.w)
		return
	}
	if !decode(c.w, c.r, &in) || badBody(c.w, "IssueComment", in.Body) {
		return
	}
	k := s.comment(c.repo, Comment{Number: n, Login: s.Login(), Body: in.Body, ViaApp: s.o.AppID})
	reply(c.w, http.StatusCreated, s.commentJSON(c.repo, k))
}

func (s *Server) editComment(c *call) {
	var in struct{ Body string }
	k := c.repo.comment(id(c.r, "id"))
	switch {
	case k == nil:
		notFound(c.w)
	case k.Login != s.Login():
		fail(c.w, http.StatusForbidden, "Resource not accessible by integration", "")
	case decode(c.w, c.r, &in) && !badBody(c.w, "IssueComment", in.Body):
		k.Body, k.updated = in.Body, s.o.Now()
		k.Edits = append(k.Edits, in.Body)
		reply(c.w, http.StatusOK, s.commentJSON(c.repo, k))
	}
}

func (s *Server) deleteComment(c *call) {
	n := id(c.r, "id")
	if c.repo.comment(n) == nil {
		notFound(c.w)
		return
	}
	c.repo.comments = slices.DeleteFunc(c.repo.comments, func(k *comment) bool { return k.ID == n })
	c.w.WriteHeader(http.StatusNoContent)
}

func (r *repository) comment(id int64) *comment {
	for _, c := range r.comments {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// listComments lists by ascending id, those updated since the time given.
func (s *Server) listComments(c *call) {
	n := int(id(c.r, "number"))
	if c.repo.issue(n) == nil {
		notFound(c.w)
		return
	}
	since, _ := time.Parse(time.RFC3339, c.r.URL.Query().Get("since"))
	all := []object{}
	for _, k := range c.repo.comments {
		if k.Number == n && !k.updated.Before(since) {
			all = append(all, s.commentJSON(c.repo, k))
		}
	}
	reply(c.w, http.StatusOK, page(c.w, c.r, s.url+s.prefix, all))
}

func (s *Server) commentJSON(r *repository, k *comment) object {
	out := object{
		"id": k.ID, "body": k.Body, "user": user(k.Login), "created_at": date(k.created), "updated_at": date(k.updated),
		"html_url":                 fmt.Sprintf("%s/%s/issues/%d#issuecomment-%d", s.url, r.full(), k.Number, k.ID),
		"performed_via_github_app": nil,
	}
	if k.ViaApp == s.o.AppID {
		out["performed_via_github_app"] = s.appJSON()
	} else if k.ViaApp != 0 {
		out["performed_via_github_app"] = object{"id": k.ViaApp}
	}
	return out
}

func user(login string) object {
	kind := "User"
	if strings.HasSuffix(login, "[bot]") {
		kind = "Bot"
	}
	return object{"login": login, "type": kind}
}
