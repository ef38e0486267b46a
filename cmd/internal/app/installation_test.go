package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/ingest/github"
)

// listed is an installation that may use all.
func listed(id int64, change ...func(*config.Installation)) config.Installation {
	in := config.Installation{ID: id, Triggers: config.Triggers{Assignments: true, Labels: true, Commands: true, Reviews: true}}
	for _, f := range change {
		f(&in)
	}
	return in
}

// of makes a payload that of another installation.
func of(installation int64, payload string) string {
	return strings.Replace(payload, `"installation":{"id":7}`, fmt.Sprintf(`"installation":{"id":%d}`, installation), 1)
}

func TestInstallationsAreRoutedAsConfigured(t *testing.T) {
	t.Parallel()
	c := config.Default("")
	require.Nil(t, routing(c, c.AllSources()[0]).Installations, "nobody is listed: whoever comes may use all")
	c.Familiars = []config.Familiar{{ID: "cody"}, {ID: "nova"}}
	c.Installations = []config.Installation{
		listed(7, func(in *config.Installation) {
			in.Familiars, in.Triggers.Commands = []string{"nova"}, false
			in.Repos = config.Repos{Allow: []string{"acme/*"}, Deny: []string{"acme/x"}}
		}),
		listed(0),
	}
	require.Equal(t, map[int64]*github.Installation{
		7: {
			Familiars: []github.Familiar{{ID: "nova"}}, Lanes: github.Lanes{Assignment: true, Label: true}, Reviews: true,
			Allow: []string{"acme/*"}, Deny: []string{"acme/x"},
		},
		0: {Familiars: []github.Familiar{{ID: "cody"}, {ID: "nova"}}, Lanes: github.AllLanes, Reviews: true},
	}, routing(c, c.AllSources()[0]).Installations)
}

// As soon as one installation is listed, another gets no task.
func TestInstallationThatIsNotListedGetsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.cfg.Installations = []config.Installation{listed(7)} }).start()
	a := r.post("issues", "d1", issue(1))
	require.Contains(t, a.body, `"task":`)
	other := of(8, issue(2))
	require.JSONEq(t, `{"ok":true,"ignored":"scope"}`, r.post("issues", "d2", other).body)
	a = r.post("issues", "d2", other)
	require.JSONEq(t, `{"ok":true,"ignored":"scope","duplicate":true}`, a.body)
}
