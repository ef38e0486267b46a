package github

import "slices"

// Wants reports whether a delivery that never arrived could matter, by what
// GitHub lists of it without its payload: it could make a task, end one, or
// tell of an uninstallation. What is not wanted would only be recorded as
// ignored, for want of an installation too (G13).
func (c *Config) Wants(event, action string, installation int64) bool {
	if installation == 0 && c.AppConfigured {
		return false
	}
	if event == "installation" {
		return action == "deleted"
	}
	if _, listed := c.Installations[installation]; len(c.Installations) > 0 && !listed {
		return false
	}
	for i := range c.Rules {
		if r := &c.Rules[i]; r.Event == event && (len(r.Actions) == 0 || slices.Contains(r.Actions, action)) {
			return true
		}
	}
	if event == "push" { // makes no task by itself
		return false
	}
	_, ok := routes[event][action]
	return ok
}
