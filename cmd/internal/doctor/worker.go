package doctor

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

func (d *doctor) worker() {
	as := d.c.Worker.RunAs
	if as == "" {
		return
	}
	if d.UID() != 0 {
		d.fail("worker.run_as", "only root can run commands as another user", "start belay as root, or leave run_as out")
	}
	if !regexp.MustCompile(`^[0-9]`).MatchString(as) && d.LookupUser(as) != nil {
		d.fail("worker.run_as", fmt.Sprintf("there is no user %q", as), "create it, or name another")
	}
}

func (d *doctor) familiars() {
	seen := map[string]string{}
	for i, f := range d.c.Familiars {
		field := fmt.Sprintf("familiars[%d]", i)
		if f.BotUsername != "" && !strings.HasSuffix(f.BotUsername, "[bot]") {
			d.warn(field+".bot_username", fmt.Sprintf("%q does not end in [bot], as the login of an App does", f.BotUsername),
				"write it as GitHub shows it, such as \"cody[bot]\"")
		}
		if len(f.TriggerLabels) == 0 {
			d.warn(field+".trigger_labels", "there are none: only assignments and commands reach it", "add one, such as trigger_labels = [\"cody\"]")
		}
		for _, label := range f.TriggerLabels {
			if first, taken := seen[label]; taken {
				d.warn(field+".trigger_labels", fmt.Sprintf("the label %q is already that of %s, which comes first", label, first), "give each familiar its own labels")
				continue
			}
			seen[label] = f.ID
		}
		d.command(field, f.Command)
	}
}

// command checks that the program can be found. What it does is not tried.
func (d *doctor) command(field string, argv []string) {
	if len(argv) == 0 {
		d.warn(field+".command", "there is none: tasks only echo what they are about", "name the program that does the work")
		return
	}
	if argv[0] == "" {
		return // the configuration's own rule
	}
	if _, err := d.LookPath(argv[0]); err != nil {
		where := "in $PATH"
		if strings.ContainsRune(argv[0], os.PathSeparator) {
			where = "and executable"
		}
		d.fail(field+".command", fmt.Sprintf("%s is not found %s", argv[0], where), "install it, or write its whole path")
	}
	if !mentions(argv, "{brief}") || !mentions(argv, "{result}") {
		d.warn(field+".command", "it does not name both {brief} and {result}", "pass both on: the command reads one and writes the other")
	}
}

func mentions(argv []string, word string) bool {
	for _, a := range argv {
		if strings.Contains(a, word) {
			return true
		}
	}
	return false
}
