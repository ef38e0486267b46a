package github

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func TestRouteFillsTheDelivery(t *testing.T) {
	t.Parallel()
	got := routed(t, config(), "pull_request", pullEvent("synchronize"))
	updated, err := time.Parse(time.RFC3339, stamp)
	require.NoError(t, err)
	require.Equal(t, task.Delivery{
		V: task.Version, Source: "default", ID: "g1", HookID: "321", Event: "pull_request", Action: "synchronize",
		InstallationID: 10, RepoID: 4711, Repo: "acme/api", Number: 7, ReceivedAt: task.At(now),
		Task: &task.Spec{
			FamiliarID: "nova", HeadSHA: headSHA, CloneURL: "https://github.com/acme/api.git", DefaultBranch: "main",
			Once: true, Review: &task.Review{Before: beforeSHA, UpdatedAt: task.At(updated)},
			Kind: task.Kind{Name: task.ReviewPullRequest, PRNumber: 7, PRTitle: "Mend it", Reason: "synchronize"},
		},
	}, got)
}

func TestRouteIssues(t *testing.T) {
	t.Parallel()
	fix := task.Kind{Name: task.FixIssue, IssueNumber: 7, IssueTitle: "It breaks", IssueBody: "Badly."}
	for _, tt := range []struct {
		name, action string
		fields       object
		familiar     string // "" when unroutable
	}{
		{"assigned", "assigned", object{"assignee": account("cody[bot]")}, "cody"},
		{"assigned in capitals", "assigned", object{"assignee": account("Nova-2[BOT]")}, "nova"},
		{"assigned to a person", "assigned", object{"assignee": account("mona")}, ""},
		{"assigned to a namesake", "assigned", object{"assignee": account("cody")}, ""},
		{"assigned to nobody", "assigned", object{"assignee": nil}, ""},
		{"labeled", "labeled", object{"label": object{"name": "nova"}}, "nova"},
		{"first match wins", "labeled", object{"label": object{"name": "shared"}}, "cody"},
		{"labels mind case", "labeled", object{"label": object{"name": "Nova"}}, ""},
		{"another label", "labeled", object{"label": object{"name": "bug"}}, ""},
		{"no label", "labeled", nil, ""},
		{"no number", "assigned", object{"assignee": account("cody[bot]"), "issue": nil}, ""},
		{"no repository id", "assigned", object{"assignee": account("cody[bot]"), "repository": object{"full_name": "a/b"}}, ""},
		{"no repository name", "assigned", object{"assignee": account("cody[bot]"), "repository": object{"id": 1}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := routed(t, config(), "issues", with(issuesEvent(tt.action), tt.fields))
			if tt.familiar == "" {
				requireIgnored(t, task.Unroutable, d)
				return
			}
			spec := requireTask(t, d)
			require.Equal(t, tt.familiar, spec.FamiliarID)
			require.Equal(t, fix, spec.Kind)
			require.Nil(t, spec.Review)
			require.True(t, spec.Once)
			require.Empty(t, spec.Commander)
		})
	}
}

func TestIssueLanesOff(t *testing.T) {
	t.Parallel()
	assigned := with(issuesEvent("assigned"), object{"assignee": account("cody[bot]")})
	labeled := with(issuesEvent("labeled"), object{"label": object{"name": "cody"}})
	cfg := config()
	cfg.Lanes.Assignment = false
	requireIgnored(t, task.Scope, routed(t, cfg, "issues", assigned))
	requireTask(t, routed(t, cfg, "issues", labeled))
	cfg = config()
	cfg.Lanes.Label = false
	requireIgnored(t, task.Scope, routed(t, cfg, "issues", labeled))
	requireTask(t, routed(t, cfg, "issues", assigned))
}

func TestNobodyIsNoFamiliar(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Familiars = []Familiar{{ID: "nova"}}
	requireTask(t, routed(t, cfg, "pull_request", with(pullEvent("opened"), object{
		"pull_request": with(pull(), object{"user": nil}), "sender": nil,
	})))
	requireIgnored(t, task.Unroutable, routed(t, cfg, "issues", with(issuesEvent("assigned"), object{"assignee": nil})))
	requireIgnored(t, task.Unroutable, routed(t, cfg, "issues", with(issuesEvent("assigned"), object{"assignee": account("[bot]")})))
}

func TestRoutePullRequests(t *testing.T) {
	t.Parallel()
	draft := object{"pull_request": with(pull(), object{"draft": true})}
	byFamiliar := object{"pull_request": with(pull(), object{"user": account("CODY[bot]")})}
	label := object{"label": object{"name": "cody"}}
	laneOff := func(c *Config) { c.ReviewPullRequest = false }
	drafts := func(c *Config) { c.IncludeDrafts = true }
	for _, tt := range []struct {
		name, action string
		fields       object
		change       func(*Config)
		familiar     string
		reason       task.Reason
	}{
		{"opened", "opened", nil, nil, "nova", ""},
		{"synchronize", "synchronize", nil, nil, "nova", ""},
		{"reopened", "reopened", nil, nil, "nova", ""},
		{"ready", "ready_for_review", nil, nil, "nova", ""},
		{"draft", "opened", draft, nil, "", task.Unroutable},
		{"drafts included", "opened", draft, drafts, "nova", ""},
		{"by a familiar", "opened", byFamiliar, nil, "", task.Unroutable},
		{"lane off", "opened", nil, laneOff, "", task.Scope},
		{"lane off, draft", "opened", draft, laneOff, "", task.Unroutable},
		{"labeled", "labeled", label, nil, "cody", ""},
		{"labeled, lane off", "labeled", label, laneOff, "cody", ""},
		{"labeled draft", "labeled", with(draft, label), nil, "cody", ""},
		{"labeled, by a familiar", "labeled", with(byFamiliar, label), nil, "cody", ""},
		{"another label", "labeled", object{"label": object{"name": "bug"}}, nil, "", task.Unroutable},
		{"label lane off", "labeled", label, func(c *Config) { c.Lanes.Label = false }, "", task.Scope},
		{"no reviewer named", "opened", nil, func(c *Config) { c.ReviewFamiliar = "" }, "cody", ""},
		{"unknown reviewer", "opened", nil, func(c *Config) { c.ReviewFamiliar = "x" }, "", task.Unroutable},
		{"no familiar", "opened", nil, func(c *Config) { c.Familiars = nil }, "", task.Unroutable},
		{"closed", "closed", nil, nil, "", task.Closed},
		{"edited", "edited", nil, nil, "", task.UnsupportedAction},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := config()
			if tt.change != nil {
				tt.change(cfg)
			}
			d := routed(t, cfg, "pull_request", with(pullEvent(tt.action), tt.fields))
			require.Equal(t, 7, d.Number)
			if tt.reason != "" {
				requireIgnored(t, tt.reason, d)
				return
			}
			spec := requireTask(t, d)
			require.Equal(t, tt.familiar, spec.FamiliarID)
			require.Equal(t, tt.action, spec.Kind.Reason)
			require.Equal(t, headSHA, spec.HeadSHA)
			require.Empty(t, spec.Commander)
			require.NotNil(t, spec.Review)
			require.Equal(t, tt.action == "synchronize", spec.Review.Before == beforeSHA)
			require.False(t, spec.Review.UpdatedAt.IsZero())
		})
	}
}

func TestG13NoInstallation(t *testing.T) {
	t.Parallel()
	bare := with(pullEvent("opened"), object{"installation": nil})
	d := routed(t, config(), "pull_request", bare)
	requireIgnored(t, task.NoInstallation, d)
	require.Equal(t, "acme/api", d.Repo, "for the warning")

	cfg := config()
	cfg.AppConfigured, cfg.AppID = false, 0
	require.Zero(t, requireTask(t, routed(t, cfg, "pull_request", bare)).ID)

	job := with(base("queued"), object{"installation": nil, "workflow_job": object{"id": 1}})
	requireIgnored(t, task.UnsupportedEvent, routed(t, config(), "workflow_job", job))
	requireIgnored(t, task.Unroutable,
		routed(t, config(), "issues", with(issuesEvent("assigned"), object{"installation": nil})))
	requireIgnored(t, task.Closed,
		routed(t, config(), "pull_request", with(pullEvent("closed"), object{"installation": nil})))
	off := config()
	off.ReviewPullRequest = false
	requireIgnored(t, task.Scope, routed(t, off, "pull_request", bare))
}

func TestG14InstallationWithoutAccount(t *testing.T) {
	t.Parallel()
	d := routed(t, config(), "pull_request", with(pullEvent("opened"), object{"installation": object{"id": 1, "node_id": "x"}}))
	requireTask(t, d)
	require.EqualValues(t, 1, d.InstallationID)
}

func TestG16HeadRepositoryGone(t *testing.T) {
	t.Parallel()
	// pull() has head.repo and head.user null, the base repository is 4711.
	gone := with(pullEvent("labeled"), object{"label": object{"name": "nova"}})
	d := routed(t, config(), "pull_request", gone)
	spec := requireTask(t, d)
	require.EqualValues(t, 4711, d.RepoID)
	require.Equal(t, 7, spec.Kind.PRNumber)
	require.Equal(t, headSHA, spec.HeadSHA)
	spec.ID = "t"
	r, err := task.New(d, 1, d.ReceivedAt)
	require.NoError(t, err)
	key, ok := r.Key()
	require.True(t, ok)
	require.Equal(t, task.SupersedeKey{InstallationID: 10, RepoID: 4711, Number: 7, FamiliarID: "nova"}, key)

	fork := with(pull(), object{"head": object{"sha": headSHA, "repo": object{"id": 666, "full_name": "fork/api"}}})
	d = routed(t, config(), "pull_request", with(gone, object{"pull_request": fork}))
	require.EqualValues(t, 4711, d.RepoID)
	d = routed(t, config(), "pull_request", pullEvent("closed"))
	requireIgnored(t, task.Closed, d)
	require.Equal(t, 7, d.Number)
	require.EqualValues(t, 4711, d.RepoID)
}

func TestG17DeletedRef(t *testing.T) {
	t.Parallel()
	push := with(base(""), object{"action": nil, "ref": "refs/heads/x", "after": strings.Repeat("0", 40), "deleted": true})
	requireIgnored(t, task.RefDeleted, routed(t, config(), "push", push))
	requireIgnored(t, task.Unroutable, routed(t, config(), "push", with(push, object{"deleted": false})))
	requireIgnored(t, task.RefDeleted, routed(t, config(), "push", with(push, object{"action": "odd"})))
}

func TestG20UnknownEventsAndActions(t *testing.T) {
	t.Parallel()
	d := routed(t, config(), "brand_new", base("foo"))
	requireIgnored(t, task.UnsupportedEvent, d)
	require.Equal(t, "brand_new", d.Event)
	require.Equal(t, "foo", d.Action)
	for event := range routes {
		if event != "push" {
			requireIgnored(t, task.UnsupportedAction, routed(t, config(), event, base("brand_new")))
			requireIgnored(t, task.UnsupportedAction, routed(t, config(), event, with(base(""), object{"action": nil})))
		}
	}
	require.Equal(t, Other, EventLabel("brand_new"))
	require.Equal(t, Other, EventLabel(""))
	require.True(t, slices.IsSorted(events), "for the binary search")
	for event := range routes {
		require.Equal(t, event, EventLabel(event))
	}
}

func TestG28OurOwnEvents(t *testing.T) {
	t.Parallel()
	for sender, reason := range map[string]task.Reason{
		"ourapp[bot]": task.Self, "OurApp[bot]": task.Self, "cody[bot]": task.Self, "NOVA-2[bot]": task.Self,
		"other[bot]": task.UnsupportedEvent, "ourapp": task.UnsupportedEvent, "cody": task.UnsupportedEvent,
	} {
		suite := with(base("completed"), object{"sender": object{"login": sender, "type": "Bot"}})
		requireIgnored(t, reason, routed(t, config(), "check_suite", suite))
	}
	requireTask(t, routed(t, config(), "pull_request", with(pullEvent("opened"), object{"sender": account("dependabot[bot]")})))

	bare := &Config{Familiars: []Familiar{{ID: "f", BotUsername: "cody"}}}
	for _, sender := range []string{"cody", "cody[bot]"} {
		requireIgnored(t, task.Self, routed(t, bare, "star", with(base("created"), object{"sender": account(sender)})))
	}
	requireIgnored(t, task.UnsupportedEvent, routed(t, &Config{}, "star", with(base("created"), object{"sender": nil})))
}

func TestForeignApp(t *testing.T) {
	t.Parallel()
	ev := decode(t, "pull_request", pullEvent("opened"))
	for _, tt := range []struct {
		appID    int64
		typ, id  string
		disposed task.Reason
	}{
		{99, "integration", "99", ""},
		{99, "integration", "98", task.ForeignApp},
		{99, "integration", "", task.ForeignApp},
		{99, "repository", "4711", ""},
		{99, "", "", ""},
		{0, "integration", "98", ""},
	} {
		cfg := config()
		cfg.AppID = tt.appID
		d := Route(cfg, Headers{Event: "pull_request", Delivery: "g", TargetType: tt.typ, TargetID: tt.id}, ev, now)
		if tt.disposed == "" {
			requireTask(t, d)
		} else {
			requireIgnored(t, tt.disposed, d)
		}
	}
}

func TestG37PingAndUninstall(t *testing.T) {
	t.Parallel()
	requireIgnored(t, task.Ping, routed(t, config(), "ping", object{"zen": "x", "hook_id": 1}))
	d := routed(t, config(), "installation", with(base("deleted"), object{"repository": nil}))
	requireIgnored(t, task.InstallationDeleted, d)
	require.EqualValues(t, 10, d.InstallationID)
	requireIgnored(t, task.Unroutable, routed(t, config(), "installation", object{"action": "deleted"}))
	requireIgnored(t, task.UnsupportedAction, routed(t, config(), "installation", base("created")))
}

func TestG29NamesNeverReachIDs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"acme/my.repo", "acme/..x", "acme/.github"} {
		r := object{"id": 4711, "full_name": name, "default_branch": "feat/naïve@x", "clone_url": "https://github.com/" + name}
		d := routed(t, config(), "pull_request", with(pullEvent("opened"), object{"repository": r, "sender": account("dependabot[bot]")}))
		require.Equal(t, "feat/naïve@x", requireTask(t, d).DefaultBranch)
		require.Equal(t, name, d.Repo)
		require.EqualValues(t, 4711, d.RepoID)
	}
	h := Headers{Event: "a\nb", Delivery: "g", HookID: "1\r\nX: y"}
	d := Route(config(), h, decode(t, "x", object{"action": "a\x1b[31m", "repository": object{"full_name": "a/b\r\nX: y"}}), now)
	require.Empty(t, d.Event+d.Action+d.HookID+d.Repo)
	long := Route(config(), Headers{Event: "x" + strings.Repeat("é", 200)}, &Event{}, now)
	require.Equal(t, "x"+strings.Repeat("é", 49), long.Event)
}

func TestRouteDoesNotChangeItsInputs(t *testing.T) {
	t.Parallel()
	cfg, ev := config(), decode(t, "pull_request", pullEvent("opened"))
	before, err := json.Marshal([]any{cfg, ev})
	require.NoError(t, err)
	h := Headers{Event: "pull_request", Delivery: "g"}
	require.Equal(t, Route(cfg, h, ev, now), Route(cfg, h, ev, now))
	after, err := json.Marshal([]any{cfg, ev})
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}
