package github

// Wants reports whether a delivery that never arrived could matter, by what
// GitHub lists of it without its payload: it could make a task, end one, or
// tell of an uninstallation. What is not wanted would only be recorded as
// ignored, for want of an installation too (G13).
func (c *Config) Wants(event, action string, installation int64) bool {
	if event == "push" { // makes no task by itself
		return false
	}
	_, ok := routes[event][action]
	return ok && (installation != 0 || !c.AppConfigured)
}
