package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// login matches GitHub logins, those of bots included.
var login = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_-]{0,98}[A-Za-z0-9])?(\[bot\])?$`)

// variable matches names that every shell accepts.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (c *Config) validateFamiliars(p *problems) {
	if len(c.Familiars) == 0 && p.ok("familiars") {
		p.add("familiars", "", "there is none, so nothing would ever be done",
			"add [[familiars]] with id, bot_username and trigger_labels")
	}
	ids, logins := map[string]int{}, map[string]int{}
	for i, f := range c.Familiars {
		key := listKey("familiars", i)
		if !p.ok(key) {
			continue
		}
		checkName(p, key+".id", f.ID, nameForm, "write letters, digits, - and _, such as \"cody\"", ids, i)
		checkName(p, key+".bot_username", f.BotUsername, login,
			"write the App's login on GitHub, such as \"cody[bot]\"", logins, i)
		f.validate(p, key)
		if _, ok := c.CallbackByName(f.Callback); f.Callback != "" && !ok && p.ok("callbacks") {
			p.add(key+".callback", quote(f.Callback), "is not a callback", c.nextCallback(f.Callback))
		}
	}
}

// checkName refuses a name that is empty, malformed or taken. Letter case does
// not tell two apart, as it does not on GitHub.
func checkName(p *problems, key, name string, form *regexp.Regexp, next string, seen map[string]int, i int) {
	if !p.ok(key) {
		return
	}
	folded := strings.ToLower(name)
	first, taken := seen[folded]
	switch {
	case name == "":
		p.add(key, "", "is not set", next)
	case !form.MatchString(name):
		p.add(key, quote(name), "is not a valid name", next)
	case taken:
		table, leaf := key[:strings.LastIndex(key, ".")], key[strings.LastIndex(key, ".")+1:]
		list, _, _ := strings.Cut(table, "[")
		p.add(key, quote(name), "is already that of "+listKey(list, first), "give each "+singular(list)+" its own "+leaf)
	default:
		seen[folded] = i
	}
}

// validate notes what is wrong with the other keys of a familiar.
func (f Familiar) validate(p *problems, key string) {
	if len(f.Command) > 0 && strings.TrimSpace(f.Command[0]) == "" {
		p.add(key+".command", "", "begins with an empty word", "write the program first, then its arguments")
	}
	if slices.Contains(f.TriggerLabels, "") {
		p.add(key+".trigger_labels", "", "has an empty label", "remove it")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Env)) {
		if !variable.MatchString(name) {
			p.add(key+".env", quote(name), "is not a variable's name", "write letters, digits and _, such as API_KEY")
		}
	}
}
