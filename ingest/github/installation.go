package github

import "strings"

// Installation is what one installation that is listed may use.
type Installation struct {
	// Familiars are those of the source that work for it. The one that reviews
	// is the source's if it is among them, else the first.
	Familiars []Familiar
	// Lanes and Reviews switch triggers off that the source has on.
	Lanes   Lanes
	Reviews bool
	// Allow are the only repositories that make tasks, none means all; Deny are
	// never among them: `owner/name`, or `owner/*`.
	Allow, Deny []string
}

// narrowed is the configuration as an event's installation may use it, false
// if nothing of it: there is a list, and the installation is not on it, or its
// repository is switched off. What it may not use it cannot tell from what
// does not exist.
func (c *Config) narrowed(ev *Event) (*Config, bool) {
	if len(c.Installations) == 0 {
		return c, true
	}
	in, listed := c.Installations[ev.Installation]
	if !listed {
		return c, false
	}
	n := *c
	n.Familiars, n.known = in.Familiars, c.Familiars
	n.Lanes.Assignment = c.Lanes.Assignment && in.Lanes.Assignment
	n.Lanes.Label = c.Lanes.Label && in.Lanes.Label
	n.Lanes.Command = c.Lanes.Command && in.Lanes.Command
	n.ReviewPullRequest = c.ReviewPullRequest && in.Reviews
	return &n, in.permits(ev.Repository.FullName)
}

// permits reports whether a repository may make tasks.
func (in *Installation) permits(repo string) bool {
	return (len(in.Allow) == 0 || matches(in.Allow, repo)) && !matches(in.Deny, repo)
}

// matches compares as GitHub does, without case: another spelling is not
// another repository.
func matches(patterns []string, repo string) bool {
	owner, _, _ := strings.Cut(repo, "/")
	for _, p := range patterns {
		if of, all := strings.CutSuffix(p, "/*"); all && sameLogin(of, owner) || sameLogin(p, repo) {
			return true
		}
	}
	return false
}
