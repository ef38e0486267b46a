package github

import "slices"

// Wants reports whether a delivery that never arrived could matter, by what
// GitHub lists of it without its payload: it could make a task, end one, or
// tell of an uninstallation. What is not wanted would only be recorded as
// ignored, for want of an installation too (G13).
func (c *Config) Wants(event, action string, installation int64) bool {
	_, ok := routes[event][action] // where a push, which has no action, makes no task by itself
	ok = ok && event != "push" || slices.ContainsFunc(c.Rules, func(r Rule) bool { return r.Event == event && some(r.Actions, action) })
	return ok && (installation != 0 || !c.AppConfigured)
}
