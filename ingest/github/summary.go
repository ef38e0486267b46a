package github

import (
	"maps"
	"slices"
)

// Summary is what would make tasks for one installation, for people.
type Summary struct {
	// Familiars are the ids of those that may work for it.
	Familiars []string
	// Triggers are those that are on: assignments, labels, commands, reviews,
	// and rule:<name> for each rule of a familiar that may work for it.
	Triggers []string
	// Allow are the only repositories that make tasks, nil means all; Deny are
	// never among them.
	Allow, Deny []string
	// Listed is whether a list names the installation. One that is not gets
	// nothing as soon as there is a list.
	Listed bool
}

// Listed are the ids of the installations that are listed, in order.
func (c *Config) Listed() []int64 { return slices.Sorted(maps.Keys(c.Installations)) }

// Permits reports whether a repository of an installation may make tasks.
func (c *Config) Permits(installation int64, repo string) bool {
	_, ok := c.narrowed(&Event{Installation: installation, Repository: Repository{FullName: repo}})
	return ok
}

// Summary tells what would make tasks for an installation.
func (c *Config) Summary(installation int64) Summary {
	s := Summary{Familiars: []string{}, Triggers: []string{}}
	in := c.Installations[installation]
	if s.Listed = in != nil; s.Listed {
		s.Allow, s.Deny = in.Allow, in.Deny
	} else if len(c.Installations) > 0 {
		s.Allow = []string{}
		return s
	}
	c, _ = c.narrowed(&Event{Installation: installation})
	for _, f := range c.Familiars {
		s.Familiars = append(s.Familiars, f.ID)
	}
	for _, t := range []struct {
		name string
		on   bool
	}{
		{"assignments", c.Lanes.Assignment}, {"labels", c.Lanes.Label}, {"commands", c.Lanes.Command}, {"reviews", c.ReviewPullRequest},
	} {
		if t.on {
			s.Triggers = append(s.Triggers, t.name)
		}
	}
	for _, r := range c.Rules {
		if c.byID(r.Familiar) != nil {
			s.Triggers = append(s.Triggers, "rule:"+r.Name)
		}
	}
	return s
}
