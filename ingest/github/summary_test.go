package github

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// triggered are one event for each trigger of a Summary.
func triggered() map[string]struct {
	event   string
	payload object
} {
	type row = struct {
		event   string
		payload object
	}
	return map[string]row{
		"assignments": {"issues", with(issuesEvent("assigned"), object{"assignee": account("cody[bot]")})},
		"labels":      {"issues", with(issuesEvent("labeled"), object{"label": object{"name": "cody"}})},
		"commands":    {"issue_comment", issueCommentEvent(true, "@cody fix it")},
		"reviews":     {"pull_request", pullEvent("opened")},
	}
}

// DT-100: what a summary says is what Route does, however the switches stand.
func TestDT100SummaryIsWhatRoutes(t *testing.T) {
	t.Parallel()
	for bits := range 16 {
		cfg := config()
		cfg.Lanes = Lanes{Assignment: bits&1 > 0, Label: bits&2 > 0, Command: bits&4 > 0}
		cfg.ReviewPullRequest = bits&8 > 0
		agrees(t, cfg, 10)
	}
	require.Equal(t, []string{"cody", "nova"}, config().Summary(10).Familiars)
	require.Equal(t, []string{"assignments", "labels", "commands", "reviews"}, config().Summary(10).Triggers)
	require.False(t, config().Summary(10).Listed)
}

// agrees routes each event of an installation, and looks for its trigger in
// the summary.
func agrees(t *testing.T, cfg *Config, installation int) {
	t.Helper()
	sum := cfg.Summary(int64(installation))
	for trigger, e := range triggered() {
		d := routed(t, cfg, e.event, with(e.payload, object{"installation": object{"id": installation}}))
		require.Equal(t, d.Task != nil, slices.Contains(sum.Triggers, trigger), "%s: %+v, %s", trigger, sum, d.Routing)
		if d.Task != nil {
			require.Contains(t, sum.Familiars, d.Task.FamiliarID)
		}
	}
}

// Of listed installations each has its own, and one that is not listed nothing.
func TestDT100SummaryOfListedInstallations(t *testing.T) {
	t.Parallel()
	for bits := range 256 {
		cfg := hosted(func(in *Installation) {
			in.Lanes = Lanes{Assignment: bits&1 > 0, Label: bits&2 > 0, Command: bits&4 > 0}
			in.Reviews = bits&8 > 0
		})
		cfg.Lanes = Lanes{Assignment: bits&16 > 0, Label: bits&32 > 0, Command: bits&64 > 0}
		cfg.ReviewPullRequest = bits&128 > 0
		agrees(t, cfg, 10)
		agrees(t, cfg, 11)
	}
	cfg := hosted(func(in *Installation) { in.Allow, in.Deny = []string{"acme/*"}, []string{"acme/web"} })
	sum := cfg.Summary(10)
	require.Equal(t, Summary{
		Familiars: []string{"cody"}, Triggers: []string{"assignments", "labels", "commands", "reviews"},
		Allow: []string{"acme/*"}, Deny: []string{"acme/web"}, Listed: true,
	}, sum)
	require.Equal(t, Summary{Familiars: []string{}, Triggers: []string{}, Allow: []string{}}, cfg.Summary(11))
	require.Equal(t, []int64{10}, cfg.Listed())
	for repo, want := range map[string]bool{"acme/api": true, "ACME/Web": false, "other/x": false} {
		require.Equal(t, want, cfg.Permits(10, repo), repo)
		require.False(t, cfg.Permits(11, repo), repo)
		require.True(t, config().Permits(10, repo), repo)
	}
}

func TestDT100SummaryNamesTheRulesOfItsFamiliars(t *testing.T) {
	t.Parallel()
	rules := []Rule{{Name: "deploy", Event: "push", Kind: task.Custom, Familiar: "cody"}, {Name: "tidy", Event: "push", Kind: task.Custom, Familiar: "nova"}}
	named := func(cfg *Config, installation int) (out []string) {
		cfg.Rules = rules
		for _, name := range cfg.Summary(int64(installation)).Triggers {
			if of, ok := strings.CutPrefix(name, "rule:"); ok {
				out = append(out, of)
			}
		}
		for _, r := range rules { // each alone
			cfg.Rules = []Rule{r}
			d := routed(t, cfg, "push", with(pushEvent("refs/heads/main"), object{"installation": object{"id": installation}}))
			require.Equal(t, d.Task != nil, slices.Contains(out, r.Name), "%s: %s", r.Name, d.Routing)
		}
		return out
	}
	require.Equal(t, []string{"deploy", "tidy"}, named(config(), 10))
	require.Equal(t, []string{"deploy"}, named(hosted(), 10), "cody alone")
	require.Empty(t, named(hosted(), 11), "not listed")
}
