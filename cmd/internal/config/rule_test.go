package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// deploy is a [[rules]] without problems.
const deploy = "[[rules]]\nname = \"deploy\"\nevent = \"push\"\n"

func TestRuleDefaults(t *testing.T) {
	t.Parallel()
	c, err := load(t, deploy+"[[rules]]\nname = \"triage\"\nevent = \"issues\"\nactions = [\"opened\"]\n"+
		"[[rules]]\nname = \"again\"\nevent = \"issues\"\nreplay_guard = false\n"+minimal, "BELAY_RULES_DEPLOY_BRANCHES=main,release/*")
	require.NoError(t, err)
	require.Equal(t, Rule{
		Name: "deploy", Event: "push", Branches: []string{"main", "release/*"}, Kind: "custom", Familiar: "cody", Supersede: "none",
	}, c.Rules[0])
	require.True(t, c.Rules[1].ReplayGuard, "their bodies name one occurrence")
	require.False(t, c.Rules[2].ReplayGuard, "unless it says otherwise")
	text := printed(t, c)
	require.Contains(t, text, "[[rules]]\nname = \"deploy\" # file\nevent = \"push\" # file\n")
	require.Contains(t, text, "branches = [\"main\", \"release/*\"] # env BELAY_RULES_DEPLOY_BRANCHES\n")
}

// GitHub adds events now and then; only what is likely a slip is refused.
func TestRulesTakeEventsThatAreNew(t *testing.T) {
	t.Parallel()
	_, err := load(t, strings.Replace(deploy, "push", "copilot_session", 1)+"branches = [\"main\"]\nsupersede = \"branch\"\n"+minimal)
	require.NoError(t, err)
}

// TestRuleRules has one row for each rule about rules.
func TestRuleRules(t *testing.T) {
	t.Parallel()
	event := func(name string) string { return strings.Replace(deploy, "push", name, 1) }
	for name, row := range map[string]struct{ text, want string }{
		"no name":                {"[[rules]]\nevent = \"push\"\n", `rules[0].name: is not set: write letters, digits, - and _, such as "deploy"`},
		"name with a dot":        {strings.Replace(deploy, "deploy", "a.b", 1), `line 2: rules[0].name = "a.b": is not a valid name`},
		"one name twice":         {deploy + deploy, `line 5: rules[1].name = "deploy": is already that of rules[0]: give each rule its own name`},
		"no event":               {"[[rules]]\nname = \"x\"\n", "rules[0].event: is not set: write the name that GitHub sends in X-GitHub-Event"},
		"a slip":                 {event("pushs"), `line 3: rules[0].event = "pushs": is not an event of GitHub: did you mean push?`},
		"no event's name":        {event("Push!"), `rules[0].event = "Push!": is not the name of an event`},
		"with its action":        {event("issues.opened"), `rules[0].event = "issues.opened": is not the name of an event`},
		"ping":                   {event("ping"), `rules[0].event = "ping": is GitHub's test of the webhook`},
		"of no repository":       {event("installation"), `rules[0].event = "installation": is of no repository`},
		"actions of a push":      {deploy + "actions = [\"created\"]\n", "line 4: rules[0].actions: would never match: push has none: remove it"},
		"an empty action":        {event("issues") + "actions = [\"\"]\n", "rules[0].actions: has an empty string: remove it"},
		"no repository":          {deploy + "repos = [\"api\"]\n", `rules[0].repos = "api": is not a repository or a pattern of some: write "owner/name" or "owner/*"`},
		"a bad repo pattern":     {deploy + "repos = [\"acme/[\"]\n", `rules[0].repos = "acme/[": is not a repository`},
		"a full ref":             {deploy + "branches = [\"refs/heads/main\"]\n", `line 4: rules[0].branches = "refs/heads/main": is a full ref: write the branch alone: "main"`},
		"a bad branch pattern":   {deploy + "branches = [\"a[\"]\n", `rules[0].branches = "a[": is not a pattern`},
		"an empty branch":        {deploy + "branches = [\"\"]\n", "rules[0].branches: has an empty string"},
		"branches of a star":     {event("star") + "branches = [\"main\"]\n", "rules[0].branches: would never match: star has none"},
		"labels of a push":       {deploy + "labels = [\"x\"]\n", "rules[0].labels: would never match: push has none"},
		"an unknown kind":        {deploy + "kind = \"retry\"\n", `rules[0].kind = "retry": is not one of custom, fix_issue, review_pull_request`},
		"an issue of a push":     {deploy + "kind = \"fix_issue\"\n", `rules[0].kind = "fix_issue": needs an issue, and push has none: write "custom"`},
		"a review of a push":     {deploy + "kind = \"review_pull_request\"\n", "needs a pull request, and push has none"},
		"an unknown familiar":    {deploy + "familiar = \"dora\"\n", `rules[0].familiar = "dora": is not a familiar: write one of: cody`},
		"an unknown supersede":   {deploy + "supersede = \"all\"\n", `rules[0].supersede = "all": is not one of none, branch, pull`},
		"a pull of a push":       {deploy + "supersede = \"pull\"\n", `rules[0].supersede = "pull": needs a pull request, and push has none: write "branch"`},
		"a branch of an issue":   {event("issues") + "supersede = \"branch\"\n", `rules[0].supersede = "branch": needs a branch, and issues has none`},
		"branches of reviews":    {event("pull_request") + "kind = \"review_pull_request\"\nsupersede = \"branch\"\n", "is not for reviews"},
		"a guard that is no":     {deploy + "replay_guard = \"no\"\n", `rules[0].replay_guard = "no": is not true or false`},
		"an unknown key":         {deploy + "branch = \"main\"\n", "line 4: rules[0].branch: unknown key: did you mean rules.branches?"},
		"branches that are none": {deploy + "branches = \"main\"\n", "rules[0].branches = \"main\": is not a list of strings"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, strings.Join(problemsOf(t, row.text+minimal), "\n"), row.want)
		})
	}
}

// X04: the number of rules is bounded, whatever the file has.
func TestX04RulesAreCapped(t *testing.T) {
	t.Parallel()
	text := ""
	for i := range MaxRules {
		text += strings.Replace(deploy, "deploy", fmt.Sprintf("r%d", i), 1)
	}
	_, err := load(t, text+minimal)
	require.NoError(t, err)
	require.Equal(t, []string{
		"rules: there are 65, and 64 are possible: join rules of one event: actions, repos, labels and branches are lists, and repos and branches take patterns",
	}, problemsOf(t, text+deploy+minimal))
}
