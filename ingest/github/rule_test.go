package github

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

const compareURL = "https://github.com/acme/api/compare/b...a"

func pushEvent(ref string) object {
	return with(base(""), object{
		"ref": ref, "before": beforeSHA, "after": headSHA, "deleted": false, "compare": compareURL,
		"head_commit": object{"id": headSHA, "message": "Mend the door\n\nIt squeaked.", "timestamp": stamp},
		"repository":  with(base("")["repository"].(object), object{"pushed_at": 1767323045}),
	})
}

func subjectEvent(event, action string, subject object) object {
	return with(base(action), object{event: subject})
}

// ruledPayloads are events that only rules route, by name.
func ruledPayloads() map[string]object {
	page := func(what string) string { return "https://github.com/acme/api/" + what }
	return map[string]object{
		"push": pushEvent("refs/heads/main"),
		"workflow_job": subjectEvent("workflow_job", "completed", object{
			"name": "build", "head_sha": headSHA, "head_branch": "main", "labels": []string{"linux", "gpu"},
			"html_url": page("actions/runs/1/job/2"), "completed_at": stamp,
		}),
		"workflow_run": subjectEvent("workflow_run", "completed", object{"name": "CI", "head_sha": headSHA, "head_branch": "main", "updated_at": stamp}),
		"check_suite":  subjectEvent("check_suite", "completed", object{"app": object{"id": 15368}, "head_sha": headSHA, "head_branch": "main"}),
		"check_run": subjectEvent("check_run", "completed", object{
			"app": object{"id": 15368}, "name": "lint", "head_sha": headSHA, "check_suite": object{"head_branch": "main"},
		}),
		"release": subjectEvent("release", "published", object{
			"tag_name": "v1.2", "name": "The door", "target_commitish": "main", "html_url": page("releases/tag/v1.2"),
		}),
		"deployment":        subjectEvent("deployment", "created", object{"ref": "main", "sha": headSHA}),
		"deployment_status": subjectEvent("deployment", "created", object{"ref": "main", "sha": headSHA}),
		"merge_group": subjectEvent("merge_group", "checks_requested", object{
			"head_sha": headSHA, "base_ref": "refs/heads/main", "head_ref": "refs/heads/gh-readonly-queue/main/pr-1",
		}),
		"create":              with(base(""), object{"ref": "v1.2", "ref_type": "tag"}),
		"repository_dispatch": with(base("nightly"), object{"branch": "main"}),
		"status":              with(base(""), object{"sha": headSHA, "state": "success"}),
		"star":                base("created"),
	}
}

// ruling is config with rules.
func ruling(rules ...Rule) *Config {
	cfg := config()
	for i := range rules {
		r := &rules[i]
		if r.Name == "" {
			r.Name = "deploy"
		}
		if r.Kind == "" {
			r.Kind = task.Custom
		}
		if r.Familiar == "" {
			r.Familiar = "cody"
		}
	}
	cfg.Rules = rules
	return cfg
}

func TestARulesTaskOfAPush(t *testing.T) {
	t.Parallel()
	d := routed(t, ruling(Rule{Event: "push", Branches: []string{"main"}, Supersede: task.SupersedeBranch}), "push", pushEvent("refs/heads/main"))
	require.Equal(t, &task.Spec{
		FamiliarID: "cody", CloneURL: "https://github.com/acme/api.git", DefaultBranch: "main", HeadSHA: headSHA,
		Rule:   &task.Rule{Name: "deploy", Group: "@main"},
		Review: &task.Review{Before: beforeSHA, UpdatedAt: task.At(time.Unix(1767323045, 0))},
		Kind: task.Kind{Name: task.Custom, Custom: task.CustomKind{
			Name: "deploy", Event: "push", Ref: "refs/heads/main", Before: beforeSHA, After: headSHA, SHA: headSHA,
			Title: "Mend the door", URL: compareURL,
		}},
	}, requireTask(t, d))
	require.Equal(t, "deploy: Mend the door", d.Task.Kind.Title(), "what lists show")
}

// Each event says what it is about in its own way.
func TestARulesTaskOfEachEvent(t *testing.T) {
	t.Parallel()
	page := "https://github.com/acme/api/"
	want := map[string]task.CustomKind{
		"push":                {Ref: "refs/heads/main", Before: beforeSHA, After: headSHA, SHA: headSHA, Title: "Mend the door", URL: compareURL},
		"workflow_job":        {Action: "completed", Ref: "refs/heads/main", SHA: headSHA, Title: "build", URL: page + "actions/runs/1/job/2"},
		"workflow_run":        {Action: "completed", Ref: "refs/heads/main", SHA: headSHA, Title: "CI"},
		"check_suite":         {Action: "completed", Ref: "refs/heads/main", SHA: headSHA},
		"check_run":           {Action: "completed", Ref: "refs/heads/main", SHA: headSHA, Title: "lint"},
		"release":             {Action: "published", Ref: "refs/tags/v1.2", Title: "The door", URL: page + "releases/tag/v1.2"},
		"deployment":          {Action: "created", Ref: "refs/heads/main", SHA: headSHA},
		"deployment_status":   {Action: "created", Ref: "refs/heads/main", SHA: headSHA},
		"merge_group":         {Action: "checks_requested", Ref: "refs/heads/main", SHA: headSHA},
		"create":              {Ref: "refs/tags/v1.2"},
		"repository_dispatch": {Action: "nightly", Ref: "refs/heads/main"},
		"status":              {SHA: headSHA},
		"star":                {Action: "created"},
	}
	for event, payload := range ruledPayloads() {
		w := want[event]
		w.Name, w.Event = "deploy", event
		spec := requireTask(t, routed(t, ruling(Rule{Event: event}), event, payload))
		require.Equal(t, w, spec.Kind.Custom, event)
		require.Equal(t, w.SHA, spec.HeadSHA, event)
		require.Nil(t, spec.Review, "without a group nothing supersedes")
		require.False(t, spec.Once)
		onMain := w.Ref == "refs/heads/main" || event == "release"
		got := routed(t, ruling(Rule{Event: event, Branches: []string{"main"}}), event, payload)
		require.Equal(t, onMain, got.Task != nil, event)
		requireIgnored(t, task.Unroutable, routed(t, ruling(Rule{Event: event, Branches: []string{"next"}}), event, payload))
	}
	issue := routed(t, ruling(Rule{Event: "issues"}), "issues", with(issuesEvent("opened"), object{
		"issue": with(issue(), object{"html_url": page + "issues/7"}),
	}))
	require.Equal(t, task.CustomKind{
		Name: "deploy", Event: "issues", Action: "opened", Number: 7, Title: "It breaks", URL: page + "issues/7",
	}, requireTask(t, issue).Kind.Custom)
	require.Equal(t, 7, issue.Task.Kind.Number())
}

func TestWhatARuleMatches(t *testing.T) {
	t.Parallel()
	job := ruledPayloads()["workflow_job"]
	labelled := with(issuesEvent("labeled"), object{
		"label": object{"name": "bug"}, "issue": with(issue(), object{"labels": []object{{"name": "ci"}, {"name": "bug"}}}),
	})
	opened := with(issuesEvent("opened"), object{"issue": labelled["issue"]})
	edited := with(pullEvent("edited"), object{"pull_request": with(pull(), object{"labels": []object{{"name": "ci"}}})})
	for name, tt := range map[string]struct {
		rule    Rule
		event   string
		payload object
		want    task.Reason
	}{
		"an action":                 {Rule{Actions: []string{"queued", "completed"}}, "workflow_job", job, ""},
		"another action":            {Rule{Actions: []string{"queued"}}, "workflow_job", job, task.UnsupportedAction},
		"another event":             {Rule{Event: "push"}, "workflow_job", job, task.UnsupportedEvent},
		"case counts":               {Rule{Actions: []string{"Completed"}}, "workflow_job", job, task.UnsupportedAction},
		"a repository":              {Rule{Repos: []string{"x/y", "acme/api"}}, "workflow_job", job, ""},
		"an owner":                  {Rule{Repos: []string{"acme/*"}}, "workflow_job", job, ""},
		"another repository":        {Rule{Repos: []string{"acme/web"}}, "workflow_job", job, task.Unroutable},
		"a star stops at a slash":   {Rule{Repos: []string{"*"}}, "workflow_job", job, task.Unroutable},
		"a branch":                  {Rule{Branches: []string{"main"}}, "push", pushEvent("refs/heads/main"), ""},
		"a branch below another":    {Rule{Branches: []string{"release/*"}}, "push", pushEvent("refs/heads/release/1.2"), ""},
		"deeper than the pattern":   {Rule{Branches: []string{"release/*"}}, "push", pushEvent("refs/heads/release/1/2"), task.Unroutable},
		"the beginning of a branch": {Rule{Branches: []string{"main"}}, "push", pushEvent("refs/heads/main2"), task.Unroutable},
		"a tag is no branch":        {Rule{Branches: []string{"*"}}, "push", pushEvent("refs/tags/main"), task.Unroutable},
		"any ref":                   {Rule{}, "push", pushEvent("refs/tags/main"), ""},
		"no ref":                    {Rule{Branches: []string{"*"}}, "star", base("created"), task.Unroutable},
		"base of a pull request":    {Rule{Branches: []string{"main"}}, "pull_request", edited, ""},
		"not the pull's own branch": {Rule{Branches: []string{"feat/*"}}, "pull_request", edited, task.Unroutable},
		"the label of the event":    {Rule{Labels: []string{"bug"}}, "issues", labelled, ""},
		"not those there before":    {Rule{Labels: []string{"ci"}}, "issues", labelled, task.Unroutable},
		"a label that is there":     {Rule{Labels: []string{"x", "ci"}}, "issues", opened, ""},
		"a label that is not":       {Rule{Labels: []string{"Bug"}}, "issues", opened, task.Unroutable},
		"a label of a pull request": {Rule{Labels: []string{"ci"}}, "pull_request", edited, ""},
		"a label of a job":          {Rule{Labels: []string{"gpu"}}, "workflow_job", job, ""},
		"no labels at all":          {Rule{Labels: []string{"gpu"}}, "push", pushEvent("refs/heads/main"), task.Unroutable},
		"no repository":             {Rule{}, "star", with(base("created"), object{"repository": nil}), task.Unroutable},
		"no familiar of that name":  {Rule{Familiar: "gone"}, "star", base("created"), task.Unroutable},
		"no installation":           {Rule{}, "star", with(base("created"), object{"installation": nil}), task.NoInstallation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.rule.Event == "" {
				tt.rule.Event = tt.event
			}
			d := routed(t, ruling(tt.rule), tt.event, tt.payload)
			if tt.want != "" {
				requireIgnored(t, tt.want, d)
				return
			}
			require.Equal(t, "cody", requireTask(t, d).FamiliarID)
		})
	}
}

// Rules come after the lanes, and the first that matches wins.
func TestFirstRuleThatMatchesWins(t *testing.T) {
	t.Parallel()
	cfg := ruling(
		Rule{Name: "other", Event: "push", Branches: []string{"next"}},
		Rule{Name: "first", Event: "push"}, Rule{Name: "second", Event: "push"},
		Rule{Name: "any", Event: "issues"}, Rule{Name: "closing", Event: "pull_request", Actions: []string{"closed", "opened"}},
	)
	name := func(event string, payload object) string {
		s := requireTask(t, routed(t, cfg, event, payload))
		if s.Rule == nil {
			return string(s.Kind.Name)
		}
		return s.Rule.Name
	}
	require.Equal(t, "first", name("push", pushEvent("refs/heads/main")))
	require.Equal(t, "other", name("push", pushEvent("refs/heads/next")))
	labelled := with(issuesEvent("labeled"), object{"label": object{"name": "nova"}})
	require.Equal(t, "fix_issue", name("issues", labelled), "a lane has it")
	require.Equal(t, "any", name("issues", with(issuesEvent("labeled"), object{"label": object{"name": "bug"}})), "no lane has it")
	require.Equal(t, "review_pull_request", name("pull_request", pullEvent("opened")))
	require.Equal(t, "closing", name("pull_request", pullEvent("closed")))
	cfg.Lanes.Label = false
	require.Equal(t, "any", name("issues", labelled), "the lane is off")
	cfg.Rules = cfg.Rules[:3]
	requireIgnored(t, task.Scope, routed(t, cfg, "issues", labelled))
}

// G17: no rule makes a task of the deletion of a branch, or of an installation.
func TestG17RulesLeaveDeletionsAlone(t *testing.T) {
	t.Parallel()
	cfg := ruling(Rule{Event: "push"}, Rule{Event: "installation"})
	gone := with(pushEvent("refs/heads/main"), object{"deleted": true, "after": strings.Repeat("0", 40), "head_commit": nil})
	requireIgnored(t, task.RefDeleted, routed(t, cfg, "push", gone))
	requireIgnored(t, task.InstallationDeleted, routed(t, cfg, "installation", base("deleted")))
}

// G28: what the App itself made happen is no rule's; what other bots do is.
func TestG28RulesLeaveTheAppsOwnAlone(t *testing.T) {
	t.Parallel()
	cfg := ruling(Rule{Event: "check_suite"}, Rule{Event: "check_run"}, Rule{Event: "push"})
	suite := func(sender string, app int, action string) object {
		return with(subjectEvent("check_suite", action, object{"app": object{"id": app}, "head_sha": headSHA}), object{"sender": account(sender)})
	}
	requireIgnored(t, task.Self, routed(t, cfg, "check_suite", suite("ourapp[bot]", 1, "completed")))
	requireTask(t, routed(t, cfg, "check_suite", suite("dependabot[bot]", 1, "completed")))
	requireIgnored(t, task.Self, routed(t, cfg, "push", with(pushEvent("refs/heads/main"), object{"sender": account("ourapp[bot]")})))
	// GitHub names the one who pushed as the sender of a check that the App made.
	requireIgnored(t, task.Self, routed(t, cfg, "check_suite", suite("mona", 99, "completed")))
	requireTask(t, routed(t, cfg, "check_suite", suite("mona", 99, "rerequested")))
	run := func(action string) object {
		return subjectEvent("check_run", action, object{"app": object{"id": 99}, "head_sha": headSHA})
	}
	requireIgnored(t, task.Self, routed(t, cfg, "check_run", run("created")))
	requireIgnored(t, task.Self, routed(t, cfg, "check_run", run("completed")))
	requireTask(t, routed(t, cfg, "check_run", run("rerequested")))
}

// The built-in kinds are what a lane would have made.
func TestARuleOfABuiltInKind(t *testing.T) {
	t.Parallel()
	cfg := ruling(
		Rule{Event: "issues", Actions: []string{"opened"}, Kind: task.FixIssue, Once: true},
		Rule{Event: "pull_request", Kind: task.ReviewPullRequest, Labels: []string{"ci"}, Supersede: task.SupersedePull},
		Rule{Event: "issue_comment", Kind: task.FixIssue},
	)
	s := requireTask(t, routed(t, cfg, "issues", issuesEvent("opened")))
	require.Equal(t, task.Kind{Name: task.FixIssue, IssueNumber: 7, IssueTitle: "It breaks", IssueBody: "Badly."}, s.Kind)
	require.True(t, s.Once)
	require.Equal(t, &task.Rule{Name: "deploy"}, s.Rule)
	s = requireTask(t, routed(t, cfg, "pull_request", with(pullEvent("edited"), object{
		"pull_request": with(pull(), object{"labels": []object{{"name": "ci"}}}),
	})))
	require.Equal(t, task.Kind{Name: task.ReviewPullRequest, PRNumber: 7, PRTitle: "Mend it", Reason: "edited"}, s.Kind)
	require.NotNil(t, s.Review)
	require.Equal(t, headSHA, s.HeadSHA)
	requireTask(t, routed(t, cfg, "issue_comment", issueCommentEvent(false, "hello")))
	requireIgnored(t, task.Unroutable, routed(t, cfg, "issue_comment", issueCommentEvent(true, "hello")))
}

func TestGroupsOfARule(t *testing.T) {
	t.Parallel()
	group := func(s task.Supersede, event string, payload object) string {
		spec := requireTask(t, routed(t, ruling(Rule{Event: event, Supersede: s}), event, payload))
		require.Equal(t, spec.Rule.Group != "", spec.Review != nil)
		return spec.Rule.Group
	}
	require.Equal(t, "@main", group(task.SupersedeBranch, "push", pushEvent("refs/heads/main")))
	require.Equal(t, "@a/b", group(task.SupersedeBranch, "push", pushEvent("refs/heads/a/b")))
	require.Empty(t, group(task.SupersedeBranch, "push", pushEvent("refs/tags/v1")), "a tag stands alone")
	require.Empty(t, group(task.SupersedeNone, "push", pushEvent("refs/heads/main")))
	require.Empty(t, group(task.SupersedePull, "push", pushEvent("refs/heads/main")))
	require.Equal(t, "#7", group(task.SupersedePull, "pull_request", pullEvent("edited")))
	require.Equal(t, "@main", group(task.SupersedeBranch, "pull_request", pullEvent("edited")))
	require.Equal(t, "#7", group(task.SupersedePull, "issue_comment", issueCommentEvent(true, "hello")))
	require.Empty(t, group(task.SupersedePull, "issue_comment", issueCommentEvent(false, "hello")), "an issue is no pull request")
}

// The age of a repository's last push says nothing of any other event.
func TestAStarOfAQuietRepositoryIsNotTooOld(t *testing.T) {
	t.Parallel()
	quiet := with(base("")["repository"].(object), object{"pushed_at": now.AddDate(-2, 0, 0).Format(time.RFC3339)})
	requireTask(t, routed(t, ruling(Rule{Event: "star"}), "star", with(base("created"), object{"repository": quiet})))
	old := subjectEvent("workflow_run", "completed", object{"updated_at": now.AddDate(-2, 0, 0).Format(time.RFC3339)})
	requireIgnored(t, task.TooOld, routed(t, ruling(Rule{Event: "workflow_run"}), "workflow_run", old))
}

func TestReplayGuardOfARuleByDefault(t *testing.T) {
	t.Parallel()
	for event, on := range map[string]bool{
		"issues": true, "issue_comment": true, "pull_request": true, "pull_request_review": true, "push": false, "star": false, "workflow_job": false,
	} {
		require.Equal(t, on, Once(event), event)
	}
}

// Whatever comes in, rules add tasks and take none away, and change no reason
// but those of events that nobody meant.
func TestRulesOnlyAdd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg, ev := drawConfig(t), drawPayload(t)
		h := Headers{Event: drawEvent(t), Delivery: "g", TargetType: word("type", "integration", "repository")(t), TargetID: word("target", "99", "98")(t)}
		was := Route(cfg, h, ev, now)
		ruled := *cfg
		r := Rule{
			Name: "deploy", Event: word("event", "issues", "push", "pull_request", "star", h.Event)(t), Familiar: word("familiar", "cody", "nova")(t),
			Kind:      rapid.SampledFrom([]task.KindName{task.Custom, task.FixIssue, task.ReviewPullRequest}).Draw(t, "kind"),
			Supersede: rapid.SampledFrom([]task.Supersede{task.SupersedeNone, task.SupersedePull, task.SupersedeBranch}).Draw(t, "supersede"),
		}
		ruled.Rules = []Rule{r}
		got := Route(&ruled, h, ev, now)
		if was.Task != nil {
			require.Equal(t, was, got)
			return
		}
		reason, _ := was.Routing.Reason()
		if got.Task == nil {
			now, _ := got.Routing.Reason()
			meant := []task.Reason{task.UnsupportedEvent, task.UnsupportedAction, task.Closed, task.Unroutable, task.Scope, task.TooOld, task.NoInstallation}
			require.True(t, now == reason || slices.Contains(meant, reason), "%s became %s", reason, now)
			return
		}
		require.NotContains(t, []task.Reason{task.Ping, task.ForeignApp, task.Self, task.RefDeleted, task.InstallationDeleted}, reason)
		require.Equal(t, h.Event, r.Event)
		require.Equal(t, "deploy", got.Task.Rule.Name)
		require.NotZero(t, got.RepoID)
		require.True(t, slices.ContainsFunc(cfg.Familiars, func(f Familiar) bool { return f.ID == got.Task.FamiliarID }))
		require.False(t, cfg.AppConfigured && got.InstallationID == 0)
	})
}

// A rule makes no task for an installation that may not use its familiar.
func TestRulesOfAnInstallation(t *testing.T) {
	t.Parallel()
	cfg := ruling(Rule{Name: "theirs", Event: "push", Familiar: "nova"}, Rule{Name: "ours", Event: "push", Familiar: "cody"})
	cfg.Installations = hosted().Installations // of 10, which has cody alone
	require.Equal(t, "ours", requireTask(t, routed(t, cfg, "push", pushEvent("refs/heads/main"))).Rule.Name)
	requireIgnored(t, task.Scope, routed(t, cfg, "push", from(11, pushEvent("refs/heads/main"))))
}
