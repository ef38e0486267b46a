package doctor

import (
	"fmt"
	"strings"
)

// callbacks checks who is told of what became of tasks.
func (d *doctor) callbacks() {
	used := map[string]bool{d.c.Operator.Callback: true}
	for _, f := range d.c.Familiars {
		used[f.Callback] = true
	}
	for i, b := range d.c.Callbacks {
		field := fmt.Sprintf("callbacks[%d]", i)
		switch {
		case strings.HasPrefix(b.URL, "http:"):
			d.warn(field+".url", "outcomes are sent as plain http: who is on the way can read them", "write https://")
		case b.AllowPrivate:
			d.warn(field+".allow_private", "it may be sent to this host and to private networks", "leave it out for a recipient on the internet")
		}
		if !used[b.Name] && b.Name != "" {
			d.warn(field+".name", fmt.Sprintf("no familiar names %q, so nothing is sent to it", b.Name), fmt.Sprintf("write callback = %q under a familiar", b.Name))
		}
		if len(b.Secrets) == 2 {
			d.warn(field+".secrets", "there are two, as while they are rotated: a recipient that holds either accepts what is sent", "remove the old one once the recipient has the new one")
		}
		for _, path := range b.SecretFiles {
			d.private(field+".secret_files", path)
		}
		if b.BearerFile != "" {
			d.private(field+".bearer_file", b.BearerFile)
		}
	}
}
