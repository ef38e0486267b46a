package github

// Summary is what would make tasks for one installation, for people.
type Summary struct {
	// Familiars are the ids of those that may work for it.
	Familiars []string
	// Triggers are those that are on: assignments, labels, commands, reviews.
	Triggers []string
	// Listed is false where no list names the installation.
	Listed bool
}

// Summary tells what would make tasks for an installation.
func (c *Config) Summary(_ int64) Summary {
	s := Summary{Familiars: []string{}, Triggers: []string{}}
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
	return s
}
