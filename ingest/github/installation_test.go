package github

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

// hosted is config with one installation listed, 10, that has cody alone.
func hosted(change ...func(*Installation)) *Config {
	cfg := config()
	in := &Installation{Familiars: cfg.Familiars[:1], Lanes: AllLanes, Reviews: true}
	for _, f := range change {
		f(in)
	}
	cfg.Installations = map[int64]*Installation{10: in}
	return cfg
}

func labeledIssue(label string) object {
	return with(issuesEvent("labeled"), object{"label": object{"name": label}})
}

func from(installation int, payload object) object {
	return with(payload, object{"installation": object{"id": installation}})
}

// What an installation that is listed may use, and what is refused how.
func TestInstallationScope(t *testing.T) {
	t.Parallel()
	assignee := func(login string) object {
		return with(issuesEvent("assigned"), object{"assignee": account(login)})
	}
	labeledPull := with(pullEvent("labeled"), object{"label": object{"name": "cody"}})
	off := func(f func(*Installation)) *Config { return hosted(f) }
	for name, row := range map[string]struct {
		cfg     *Config
		event   string
		payload object
		want    task.Reason // "" for a task of cody's
	}{
		"its label":            {hosted(), "issues", labeledIssue("cody"), ""},
		"another's label":      {hosted(), "issues", labeledIssue("nova"), task.Unroutable},
		"a shared label":       {hosted(), "issues", labeledIssue("shared"), ""},
		"no label of anybody":  {hosted(), "issues", labeledIssue("bug"), task.Unroutable},
		"its assignee":         {hosted(), "issues", assignee("cody[bot]"), ""},
		"another's assignee":   {hosted(), "issues", assignee("nova-2[bot]"), task.Unroutable},
		"its command":          {hosted(), "issue_comment", issueCommentEvent(true, "@cody fix it"), ""},
		"another's command":    {hosted(), "issue_comment", issueCommentEvent(true, "@nova-2 fix it"), task.Unroutable},
		"another's status":     {hosted(), "issue_comment", issueCommentEvent(false, "@nova-2 status"), task.Unroutable},
		"its review":           {hosted(), "pull_request", pullEvent("opened"), ""},
		"its labeled pull":     {hosted(), "pull_request", labeledPull, ""},
		"another's own pull":   {hosted(), "pull_request", with(pullEvent("opened"), object{"pull_request": with(pull(), object{"user": account("nova-2[bot]")})}), task.Unroutable},
		"another's own event":  {hosted(), "issues", with(labeledIssue("cody"), object{"sender": account("nova-2[bot]")}), task.Self},
		"not listed":           {hosted(), "issues", from(11, labeledIssue("cody")), task.Scope},
		"not listed, no match": {hosted(), "issues", from(11, labeledIssue("bug")), task.Scope},
		"not listed, a push":   {hosted(), "push", from(11, base("")), task.Scope},
		"not listed, closed":   {hosted(), "pull_request", from(11, pullEvent("closed")), task.Closed},
		"not listed, gone":     {hosted(), "installation", from(11, base("deleted")), task.InstallationDeleted},
		"no installation":      {hosted(), "issues", with(labeledIssue("cody"), object{"installation": nil}), task.NoInstallation},
		"labels off":           {off(func(in *Installation) { in.Lanes.Label = false }), "issues", labeledIssue("cody"), task.Scope},
		"labels off, a pull":   {off(func(in *Installation) { in.Lanes.Label = false }), "pull_request", labeledPull, task.Scope},
		"labels off, no match": {off(func(in *Installation) { in.Lanes.Label = false }), "issues", labeledIssue("nova"), task.Unroutable},
		"assignments off":      {off(func(in *Installation) { in.Lanes.Assignment = false }), "issues", assignee("cody[bot]"), task.Scope},
		"commands off":         {off(func(in *Installation) { in.Lanes.Command = false }), "issue_comment", issueCommentEvent(true, "@cody fix it"), task.Scope},
		"reviews off":          {off(func(in *Installation) { in.Reviews = false }), "pull_request", pullEvent("opened"), task.Scope},
		"reviews off, a label": {off(func(in *Installation) { in.Reviews = false }), "pull_request", labeledPull, ""},
		"repo allowed":         {off(func(in *Installation) { in.Allow = []string{"x/y", "Acme/*"} }), "issues", labeledIssue("cody"), ""},
		"repo not allowed":     {off(func(in *Installation) { in.Allow = []string{"acme/web"} }), "issues", labeledIssue("cody"), task.Scope},
		"repo denied":          {off(func(in *Installation) { in.Deny = []string{"ACME/api"} }), "issues", labeledIssue("cody"), task.Scope},
		"denied wins":          {off(func(in *Installation) { in.Allow, in.Deny = []string{"acme/api"}, []string{"acme/*"} }), "issues", labeledIssue("cody"), task.Scope},
		"repo off, no match":   {off(func(in *Installation) { in.Deny = []string{"acme/*"} }), "issues", labeledIssue("bug"), task.Scope},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := routed(t, row.cfg, row.event, row.payload)
			if row.want != "" {
				requireIgnored(t, row.want, d)
				return
			}
			require.Equal(t, "cody", requireTask(t, d).FamiliarID)
		})
	}
}

// A trigger that is off for all is not switched on by an installation.
func TestInstallationSwitchesNothingOn(t *testing.T) {
	t.Parallel()
	cfg := hosted()
	cfg.Lanes, cfg.ReviewPullRequest = Lanes{}, false
	requireIgnored(t, task.Scope, routed(t, cfg, "issues", labeledIssue("cody")))
	requireIgnored(t, task.Scope, routed(t, cfg, "pull_request", pullEvent("opened")))
}

// A repository hook without an App has installation 0, which is listed as any.
func TestInstallationZeroIsListedAsAnyOther(t *testing.T) {
	t.Parallel()
	cfg := hosted()
	cfg.AppConfigured, cfg.AppID = false, 0
	hook := with(labeledIssue("cody"), object{"installation": nil})
	requireIgnored(t, task.Scope, routed(t, cfg, "issues", hook))
	cfg.Installations[0] = cfg.Installations[10]
	requireTask(t, routed(t, cfg, "issues", hook))
}

func TestReviewFamiliarOfAnInstallation(t *testing.T) {
	t.Parallel()
	cfg := hosted(func(in *Installation) { in.Familiars = config().Familiars })
	require.Equal(t, "nova", requireTask(t, routed(t, cfg, "pull_request", pullEvent("opened"))).FamiliarID, "that of all")
	require.Equal(t, "cody", requireTask(t, routed(t, hosted(), "pull_request", pullEvent("opened"))).FamiliarID, "else its own first")
	requireIgnored(t, task.Unroutable, routed(t, hosted(func(in *Installation) { in.Familiars = nil }), "pull_request", pullEvent("opened")))
}

// An installation cannot tell what a familiar that it may not use is
// configured to do from one that does not exist, but by its login alone: what
// that does is `self`, and its pull requests are not reviewed.
func TestInstallationSeesNothingOfOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		event, ev := drawEvent(t), drawPayload(t)
		h := Headers{Event: event, Delivery: "g", TargetType: "integration", TargetID: "99"}
		cfg := hosted()
		cfg.Installations = map[int64]*Installation{1: cfg.Installations[10]}
		other := *cfg
		other.Familiars = []Familiar{cfg.Familiars[0], {ID: "zeta", BotUsername: cfg.Familiars[1].BotUsername, TriggerLabels: []string{"bug"}}}
		other.ReviewFamiliar = "zeta"
		got := Route(cfg, h, ev, now)
		if ev.Installation != 0 { // which is no installation's
			require.Equal(t, got, Route(&other, h, ev, now))
		}
		if got.Task != nil {
			require.EqualValues(t, 1, got.InstallationID)
			require.Equal(t, "cody", got.Task.FamiliarID)
		}
	})
}

func FuzzPermits(f *testing.F) {
	f.Add("acme/api", "acme/*", "acme/secret")
	f.Add("acme/secret", "acme/*", "ACME/secret")
	f.Add("acme/api", "", "")
	f.Add("acmex/api", "acme/*", "")
	f.Add("", "acme/api", "*/*")
	f.Fuzz(func(t *testing.T, repo, allow, deny string) {
		if strings.ContainsFunc(repo+allow+deny, func(r rune) bool { return r > 0x7f }) {
			return // repositories have ASCII names
		}
		list := func(s string) []string {
			if s == "" {
				return nil
			}
			return []string{s}
		}
		in := Installation{Allow: list(allow), Deny: list(deny)}
		hit := func(p string) bool {
			p, r := strings.ToLower(p), strings.ToLower(repo)
			return p == r || strings.HasSuffix(p, "/*") && strings.HasPrefix(r+"/", p[:len(p)-1]) && !strings.Contains(p[:len(p)-2], "/")
		}
		require.Equal(t, (allow == "" || hit(allow)) && (deny == "" || !hit(deny)), in.permits(repo))
	})
}

// A rule makes tasks for whom the list lets it, by a familiar that works there.
func TestRulesStayWithinInstallations(t *testing.T) {
	t.Parallel()
	cody, nova := Familiar{ID: "cody", BotUsername: "cody[bot]"}, Familiar{ID: "nova", BotUsername: "nova[bot]"}
	cfg := &Config{
		Source: task.DefaultSource, Lanes: AllLanes, Familiars: []Familiar{cody, nova},
		Rules: []Rule{{Name: "deploy", Event: "push", Kind: task.Custom, Familiar: "nova"}},
		Installations: map[int64]*Installation{
			1: {Familiars: []Familiar{nova}, Allow: []string{"acme/*"}},
			2: {Familiars: []Familiar{cody}},
		},
	}
	for _, row := range []struct {
		installation int64
		repo         string
		want         task.Reason
	}{
		{1, "acme/api", ""}, {1, "other/api", task.Scope}, {2, "acme/api", task.Unroutable}, {3, "acme/api", task.Scope},
	} {
		ev := &Event{Ref: "refs/heads/main", After: "abc", Installation: row.installation}
		ev.Repository.ID, ev.Repository.FullName = 9, row.repo
		d := Route(cfg, Headers{Event: "push", Delivery: "d"}, ev, time.Unix(1, 0))
		got, _ := d.Routing.Reason()
		require.Equal(t, row.want, got, "%+v", row)
	}
}
