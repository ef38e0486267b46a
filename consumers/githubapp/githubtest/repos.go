package githubtest

import (
	"net/http"
	"strings"
)

// installation is one account that installed the App.
type installation struct {
	id        int64
	account   string
	suspended bool
	allowance
}

// Repo describes a repository.
type Repo struct {
	ID            int64
	Owner, Name   string
	DefaultBranch string // "" is main
	Private       bool
	// NoDrafts refuses draft pull requests, as some plans do.
	NoDrafts bool
}

// repository is a repository and all that is in it.
type repository struct {
	Repo
	installation *installation
	commits      map[string]bool
	branches     map[string]string // name → sha
	roles        map[string]string // login in lower case → role
	checks       []*check
	issues       []*issue // pull requests among them
	comments     []*comment
	hidden       bool // lists of issues read empty
}

func (r *repository) full() string { return r.Owner + "/" + r.Name }

// AddInstallation makes an installation of the App on an account.
func (s *Server) AddInstallation(id int64, account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.installations[id] = &installation{id: id, account: account}
}

// Suspend suspends an installation, or ends that.
func (s *Server) Suspend(id int64, suspended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.installations[id].suspended = suspended
}

// AddRepo makes a repository that an installation reaches. Its default branch
// points to SHA("<full name>").
func (s *Server) AddRepo(installation int64, repo Repo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if repo.DefaultBranch == "" {
		repo.DefaultBranch = "main"
	}
	r := &repository{
		Repo: repo, installation: s.installations[installation],
		commits: map[string]bool{}, branches: map[string]string{}, roles: map[string]string{},
	}
	s.repos[repo.ID] = r
	r.set(repo.DefaultBranch, SHA(r.full()))
}

func (r *repository) set(branch, sha string) { r.branches[branch], r.commits[sha] = sha, true }

// SetRole gives a login a role in a repository: admin, maintain, write,
// triage, read, none or a custom role as "name:base".
func (s *Server) SetRole(repo int64, login, role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[repo].roles[strings.ToLower(login)] = role
}

// SetBranch pushes: the branch points to the commit, which is known from now
// on, and open pull requests of that branch get it as their head.
func (s *Server) SetBranch(repo int64, branch, sha string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repos[repo]
	r.set(branch, sha)
	for _, i := range r.issues {
		if i.pull != nil && i.State == "open" && i.pull.Branch == branch {
			i.pull.HeadSHA = sha
		}
	}
}

// find returns a repository by its name, in any case of letters.
func (s *Server) find(owner, name string) *repository {
	for _, r := range s.repos {
		if strings.EqualFold(r.Owner, owner) && strings.EqualFold(r.Name, name) {
			return r
		}
	}
	return nil
}

func (r *repository) json(s *Server) object {
	return object{
		"id": r.ID, "name": r.Name, "full_name": r.full(), "private": r.Private, "default_branch": r.DefaultBranch,
		"owner": object{"login": r.Owner}, "html_url": s.url + "/" + r.full(), "clone_url": s.url + "/" + r.full() + ".git",
	}
}

// getInstallation answers by which installation the App reaches a repository.
func (s *Server) getInstallation(w http.ResponseWriter, r *http.Request) {
	repo := s.find(r.PathValue("owner"), r.PathValue("repo"))
	if repo == nil || repo.installation == nil {
		notFound(w)
		return
	}
	reply(w, http.StatusOK, object{
		"id": repo.installation.id, "app_id": s.o.AppID, "app_slug": s.o.Slug, "account": object{"login": repo.installation.account},
		"permissions": s.o.Permissions, "events": s.o.Events,
	})
}

func (s *Server) getRepository(c *call) { reply(c.w, http.StatusOK, c.repo.json(s)) }

// getPermission answers the legacy permission and the role: maintain is
// reported as write there, triage as read.
func (s *Server) getPermission(c *call) {
	login := c.r.PathValue("login")
	role, ok := c.repo.roles[strings.ToLower(login)]
	if !ok {
		notFound(c.w)
		return
	}
	name, base, custom := strings.Cut(role, ":")
	if !custom {
		base = map[string]string{"maintain": "write", "triage": "read"}[role]
		if base == "" {
			base = role
		}
	}
	reply(c.w, http.StatusOK, object{"permission": base, "role_name": name, "user": object{"login": login, "type": "User"}})
}

// resolve finds the commit of a sha or branch.
func (r *repository) resolve(ref string) string {
	if r.commits[ref] {
		return ref
	}
	return r.branches[strings.TrimPrefix(ref, "heads/")]
}

func (s *Server) getRef(c *call) {
	ref := c.r.PathValue("ref")
	sha := c.repo.branches[strings.TrimPrefix(ref, "heads/")]
	if sha == "" || !strings.HasPrefix(ref, "heads/") {
		notFound(c.w)
		return
	}
	reply(c.w, http.StatusOK, object{"ref": "refs/" + ref, "object": object{"type": "commit", "sha": sha}})
}

func (s *Server) getCommit(c *call) {
	sha := c.repo.resolve(c.r.PathValue("ref"))
	if sha == "" {
		fail(c.w, http.StatusUnprocessableEntity, "No commit found for SHA: "+c.r.PathValue("ref"), "")
		return
	}
	reply(c.w, http.StatusOK, object{"sha": sha})
}

func (s *Server) getApp(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, s.appJSON())
}

func (s *Server) appJSON() object {
	return object{
		"id": s.o.AppID, "slug": s.o.Slug, "name": s.o.Slug, "permissions": s.o.Permissions, "events": s.o.Events,
		"html_url": s.url + "/apps/" + s.o.Slug, "installations_count": len(s.installations),
	}
}

func (s *Server) getHookConfig(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, s.hook)
}

// SetHook sets the configuration of the App's webhook: url, content_type,
// insecure_ssl, secret (as stars).
func (s *Server) SetHook(config map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = config
}
