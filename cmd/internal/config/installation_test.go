package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hosted is an [[installations]] without problems.
const hosted = "[[installations]]\nid = 10\naccount = \"acme\"\nfamiliars = [\"cody\"]\n" +
	"[installations.triggers]\ncommands = false\n" +
	"[installations.repos]\nallow = [\"acme/*\"]\ndeny = [\"acme/secret\"]\n" +
	"[installations.limits]\nmax_concurrent = 2\nmax_tasks_per_day = 100\n"

func TestInstallations(t *testing.T) {
	t.Parallel()
	want := Installation{
		ID: 10, Account: "acme", Familiars: []string{"cody"},
		Triggers: Triggers{Assignments: true, Labels: true, Reviews: true},
		Repos:    Repos{Allow: []string{"acme/*"}, Deny: []string{"acme/secret"}},
		Limits:   Limits{MaxConcurrent: 2, MaxTasksPerDay: 100},
	}
	c, err := load(t, hosted+"[[installations]]\nid = 0\n"+minimal)
	require.NoError(t, err)
	free := Installation{Triggers: Triggers{true, true, true, true}}
	require.Equal(t, []Installation{want, free}, c.Installations)
	got, ok := c.InstallationByID(10)
	require.True(t, ok)
	require.Equal(t, want, got)
	_, ok = c.InstallationByID(11)
	require.False(t, ok)

	inline := "[[installations]]\nid = 10\naccount = \"acme\"\nfamiliars = [\"cody\"]\ntriggers = { commands = false }\n" +
		"repos = { allow = [\"acme/*\"], deny = [\"acme/secret\"] }\nlimits.max_concurrent = 2\nlimits.max_tasks_per_day = 100\n"
	c, err = load(t, inline+minimal)
	require.NoError(t, err, "inline tables and dotted keys are the same")
	require.Equal(t, []Installation{want}, c.Installations)

	c, err = load(t, hosted+minimal, "BELAY_INSTALLATIONS_10_LIMITS_MAX_CONCURRENT=7")
	require.NoError(t, err)
	require.Equal(t, 7, c.Installations[0].Limits.MaxConcurrent)
	require.Contains(t, printed(t, c), "limits.max_concurrent = 7 # env BELAY_INSTALLATIONS_10_LIMITS_MAX_CONCURRENT\n")
	again, err := load(t, printed(t, c)[strings.Index(printed(t, c), "[[familiars]]"):])
	require.NoError(t, err, "what is printed can be loaded")
	require.Equal(t, c.Installations, again.Installations)
}

// TestInstallationRules has one row for each rule about installations.
func TestInstallationRules(t *testing.T) {
	t.Parallel()
	change := func(from, to string) string { return strings.Replace(hosted, from, to, 1) }
	for name, row := range map[string]struct{ text, want string }{
		"not a list":        {"installations = 10\n", "installations: is not a list of installations: write [[installations]]"},
		"no id":             {change("id = 10\n", ""), "installations[0].id: is not set: write the number at the end of the installation's address"},
		"id in quotes":      {change("id = 10", "id = \"10\""), `line 2: installations[0].id = "10": is not a whole number: write a whole number from 0 on, without quotes`},
		"negative id":       {change("id = 10", "id = -1"), "line 2: installations[0].id = -1: is less than 0"},
		"one id twice":      {hosted + "[[installations]]\nid = 10\n", "line 14: installations[1].id = 10: is already that of installations[0]: write one [[installations]] for each"},
		"account":           {change("\"acme\"", "\"ac me\""), `line 3: installations[0].account = "ac me": is not a login`},
		"unknown familiar":  {change("\"cody\"", "\"coby\""), `line 4: installations[0].familiars = "coby": is not a familiar: write one of: cody`},
		"familiar twice":    {change("\"cody\"", "\"cody\", \"cody\""), `installations[0].familiars = "cody": stands there twice`},
		"no familiars":      {change("[\"cody\"]", "[]"), "line 4: installations[0].familiars = []: is empty, so nothing would ever be done: name one of: cody; or remove the key for all"},
		"trigger":           {change("commands = false", "commands = 0"), "line 6: installations[0].triggers.commands = 0: is not true or false"},
		"unknown trigger":   {change("commands", "comands"), "line 6: installations[0].triggers.comands: unknown key: did you mean installations.triggers.commands?"},
		"triggers":          {"[[installations]]\nid = 1\ntriggers = \"all\"\n", "installations[0].triggers: is not a table: write triggers = { assignments = … }"},
		"repo":              {change("acme/*", "acme"), `line 8: installations[0].repos.allow = "acme": is not a repository: write owner/name`},
		"repo's pattern":    {change("acme/*", "*/site"), `installations[0].repos.allow = "*/site": is not a repository`},
		"no repo":           {change("[\"acme/*\"]", "[]"), "line 8: installations[0].repos.allow = []: is empty: name a repository, or remove the key"},
		"denied repo":       {change("acme/secret", "acme/sec ret"), `line 9: installations[0].repos.deny = "acme/sec ret": is not a repository`},
		"limit 0":           {change("max_concurrent = 2", "max_concurrent = 0"), "line 11: installations[0].limits.max_concurrent = 0: is less than 1: write a whole number from 1 on, without quotes"},
		"negative limit":    {change("day = 100", "day = -5"), "line 12: installations[0].limits.max_tasks_per_day = -5: is less than 1"},
		"unknown limit":     {change("max_concurrent", "max_concurent"), "line 11: installations[0].limits.max_concurent: unknown key: did you mean installations.limits.max_concurrent?"},
		"unknown key":       {change("account", "acount"), "line 3: installations[0].acount: unknown key: did you mean installations.account?"},
		"limit in no table": {change("[installations.limits]\n", ""), "line 10: installations[0].repos.max_concurrent: unknown key: did you mean installations."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, strings.Join(problemsOf(t, row.text+minimal), "\n"), row.want)
		})
	}
}
