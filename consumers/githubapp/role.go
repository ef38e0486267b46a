package githubapp

import (
	"fmt"
	"strings"

	"github.com/google/go-github/v88/github"

	"github.com/belay-run/belay/kv/task"
)

// Role is what a token is for; it has no permission beyond that.
type Role string

// The roles of REQUIREMENTS §Contract, each for one repository.
const (
	// Orchestration reads what a task is about and shows its progress.
	Orchestration Role = "orchestration"
	// Agent is the command's own: it fetches and pushes.
	Agent Role = "agent"
	// Publication opens the pull request, after the result was validated.
	Publication Role = "publication"
)

// Roles lists every role.
var Roles = []Role{Orchestration, Agent, Publication}

// Permissions are the role's, by GitHub's names; metadata:read comes with all.
func (r Role) Permissions() map[string]string {
	switch r {
	case Orchestration:
		return map[string]string{"contents": "read", "checks": "write", "issues": "write", "pull_requests": "read"}
	case Agent:
		return map[string]string{"contents": "write"}
	case Publication:
		return map[string]string{"contents": "read", "issues": "write", "pull_requests": "write"}
	}
	return nil
}

// request is the role's permissions as go-github wants them.
func (r Role) request() *github.InstallationPermissions {
	p := r.Permissions()
	field := func(name string) *string {
		if v, ok := p[name]; ok {
			return &v
		}
		return nil
	}
	return &github.InstallationPermissions{
		Contents: field("contents"), Checks: field("checks"), Issues: field("issues"), PullRequests: field("pull_requests"),
	}
}

// Repo says which repository, and by which installation it is reached.
type Repo struct {
	Installation int64
	ID           int64
	Owner, Name  string
}

// String is owner/name.
func (r Repo) String() string { return r.Owner + "/" + r.Name }

// RepoOf is the repository of a task. A task without installation or
// repository id has no surfaces: no token can be scoped to it.
func RepoOf(t *task.Record) (Repo, error) {
	owner, name, ok := strings.Cut(t.Repo, "/")
	r := Repo{Installation: t.InstallationID, ID: t.RepoID, Owner: owner, Name: name}
	if !ok || !r.valid() {
		return Repo{}, fmt.Errorf("find the repository of task %s: installation %d, repository %d %q", t.ID, t.InstallationID, t.RepoID, t.Repo)
	}
	return r, nil
}

func (r Repo) valid() bool {
	return r.Installation > 0 && r.ID > 0 && r.Owner != "" && r.Name != "" && !strings.ContainsAny(r.Owner+r.Name, "/?#%") &&
		r.Name != "." && r.Name != ".." && r.Owner != "." && r.Owner != ".."
}
