package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
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

// A cap holds, and one that a reload raises takes effect at once (DT-95).
func TestDT95CapOfTheConfigurationHolds(t *testing.T) {
	t.Parallel()
	cap2 := listed(7, func(in *config.Installation) { in.Limits.MaxConcurrent = 2 })
	r := newRig(t, func(r *rig) {
		r.cfg.Installations = []config.Installation{cap2, listed(8)}
		r.cfg.Worker.Concurrency = 8
		r.command(gated)
	}).start()
	for n := range 5 {
		r.accept(n + 1)
	}
	running := func(n int) func() bool {
		return func() bool { return r.app.view.Counts()[task.Running] == n }
	}
	natstest.Eventually(t, "the cap to be reached", running(2))
	r.post("issues", "other", of(8, issue(9)))
	natstest.Eventually(t, "another installation to go on", running(3))
	r.post("issues", "another", of(8, issue(10)))
	natstest.Eventually(t, "and on", running(4))
	require.Contains(t, r.do("GET", r.app.AdminURL()+"/metrics", "").body, "belay_installations_at_cap 1\n")
	require.Equal(t, 200, r.do("GET", r.app.AdminURL()+"/readyz", "").status, "a cap is no fault")
	r.reload(func(c *config.Config) {
		cap2.Limits.MaxConcurrent = 4
		c.Installations = []config.Installation{cap2, listed(8)}
	})
	natstest.Eventually(t, "the raised cap to be reached", running(6))
	r.release()
	r.awaitAll(7, "done")
}
