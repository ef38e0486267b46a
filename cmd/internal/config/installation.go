package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Installation is one installation of the GitHub App, and what it may use. As
// soon as one is listed, those that are not get nothing.
type Installation struct {
	// ID is GitHub's installation id; 0 stands for the hooks of repositories
	// without an App.
	ID int64 `toml:"id" min:"0"`
	// Account is the login that the App is installed for; a label for people.
	Account string `toml:"account"`
	// Familiars are the ids of those that work for it; unset means all.
	Familiars []string `toml:"familiars"`
	Triggers  Triggers `toml:"triggers"`
	Repos     Repos    `toml:"repos"`
	Limits    Limits   `toml:"limits"`
}

// Triggers switches off what makes tasks for an installation. What is off for
// all, such as reviews nobody asked for, is not switched on by them.
type Triggers struct {
	Assignments bool `toml:"assignments" default:"true"`
	Labels      bool `toml:"labels" default:"true"`
	Commands    bool `toml:"commands" default:"true"`
	Reviews     bool `toml:"reviews" default:"true"`
}

// Repos says which repositories of an installation make tasks: `owner/name`,
// or `owner/*` for all of an account.
type Repos struct {
	// Allow are the only ones; unset means all.
	Allow []string `toml:"allow"`
	// Deny are never among them.
	Deny []string `toml:"deny"`
}

// Limits bound what an installation may have done; 0 sets no limit.
type Limits struct {
	// MaxConcurrent is how many of its tasks run at once, over all processes.
	MaxConcurrent int `toml:"max_concurrent" min:"1"`
	// MaxTasksPerDay is how many tasks are accepted within 24 hours.
	MaxTasksPerDay int `toml:"max_tasks_per_day" min:"1"`
}

// InstallationByID returns the installation with that id, if it is listed.
func (c *Config) InstallationByID(id int64) (Installation, bool) {
	for _, in := range c.Installations {
		if in.ID == id {
			return in, true
		}
	}
	return Installation{}, false
}

// repoPattern matches owner/name and owner/*.
var repoPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/([A-Za-z0-9._-]{1,100}|\*)$`)

func (c *Config) validateInstallations(p *problems) {
	ids := map[int64]int{}
	for i, in := range c.Installations {
		key := listKey("installations", i)
		if !p.ok(key) {
			continue
		}
		c.validateInstallationID(p, key+".id", in.ID, ids, i)
		if in.Account != "" && p.ok(key+".account") && !login.MatchString(in.Account) {
			p.add(key+".account", quote(in.Account), "is not a login", "write the account that the App is installed for, such as \"acme\"")
		}
		c.validateInstallationFamiliars(p, key+".familiars", in.Familiars)
		c.validateRepos(p, key+".repos.allow", in.Repos.Allow)
		c.validateRepos(p, key+".repos.deny", in.Repos.Deny)
	}
}

func (c *Config) validateInstallationID(p *problems, key string, id int64, ids map[int64]int, i int) {
	if !p.ok(key) {
		return
	}
	first, taken := ids[id]
	switch {
	case c.Origin(key) == OriginDefault:
		p.add(key, "", "is not set", "write the number at the end of the installation's address on GitHub; 0 for hooks of repositories without an App")
	case taken:
		p.add(key, strconv.FormatInt(id, 10), "is already that of "+listKey("installations", first), "write one [[installations]] for each")
	default:
		ids[id] = i
	}
}

func (c *Config) validateInstallationFamiliars(p *problems, key string, list []string) {
	if !p.ok(key, "familiars") || c.Origin(key) == OriginDefault {
		return
	}
	ids := make([]string, 0, len(c.Familiars))
	for _, f := range c.Familiars {
		ids = append(ids, f.ID)
	}
	if len(list) == 0 {
		p.add(key, "[]", "is empty, so nothing would ever be done", "name one of: "+strings.Join(ids, ", ")+"; or remove the key for all")
	}
	for i, id := range list {
		switch {
		case !slices.Contains(ids, id):
			p.add(key, quote(id), "is not a familiar", "write one of: "+strings.Join(ids, ", "))
		case slices.Contains(list[:i], id):
			p.add(key, quote(id), "stands there twice", "remove one of the two")
		}
	}
}

func (c *Config) validateRepos(p *problems, key string, list []string) {
	if !p.ok(key) || c.Origin(key) == OriginDefault {
		return
	}
	const next = `write owner/name, such as "acme/site", or "acme/*" for all of an account`
	if len(list) == 0 {
		p.add(key, "[]", "is empty", "name a repository, or remove the key")
	}
	for _, r := range list {
		if !repoPattern.MatchString(r) {
			p.add(key, quote(r), "is not a repository", next)
		}
	}
}
