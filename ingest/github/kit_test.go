package github

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// now is when the tests' deliveries arrive; stamp is written in their payloads.
var now = time.Date(2026, 1, 2, 3, 4, 6, 789, time.UTC)

const stamp = "2026-01-02T03:04:05Z"

var (
	headSHA   = strings.Repeat("a", 40)
	beforeSHA = strings.Repeat("b", 40)
	mergeSHA  = strings.Repeat("c", 40)
)

type object = map[string]any

// with returns a copy of an object with some fields set; nil deletes none, it
// is null.
func with(o object, fields object) object {
	o = maps.Clone(o)
	maps.Copy(o, fields)
	return o
}

func account(login string) object { return object{"login": login, "id": 5, "type": "User"} }

// base has what every payload of a repository under an App has.
func base(action string) object {
	return object{
		"action":       action,
		"sender":       account("mona"),
		"installation": object{"id": 10, "node_id": "x"},
		"repository": object{
			"id": 4711, "full_name": "acme/api", "clone_url": "https://github.com/acme/api.git",
			"default_branch": "main", "pushed_at": stamp,
		},
	}
}

func issue() object {
	return object{"number": 7, "title": "It breaks", "body": "Badly.", "updated_at": stamp, "user": account("mona")}
}

func pull() object {
	return object{
		"number": 7, "title": "Mend it", "body": "Now.", "draft": false, "updated_at": stamp,
		"user": account("mona"), "merge_commit_sha": mergeSHA,
		"head": object{"sha": headSHA, "ref": "feat/naïve@x", "repo": nil, "user": nil},
		"base": object{"sha": mergeSHA, "ref": "main"},
	}
}

func issuesEvent(action string) object { return with(base(action), object{"issue": issue()}) }

func pullEvent(action string) object {
	return with(base(action), object{"number": 7, "pull_request": pull(), "before": beforeSHA, "after": headSHA})
}

func commentBy(login, body string) object {
	return object{"user": account(login), "body": body, "created_at": stamp, "updated_at": stamp}
}

// issueCommentEvent is a comment on an issue, or on a pull request.
func issueCommentEvent(onPull bool, body string) object {
	i := issue()
	if onPull {
		i["pull_request"] = object{"url": "https://api.github.com/repos/acme/api/pulls/7"}
	}
	return with(base("created"), object{"issue": i, "comment": commentBy("mona", body)})
}

func submittedEvent(body any) object {
	r := object{"user": account("mona"), "body": body, "submitted_at": stamp, "state": "commented"}
	return with(pullEvent("submitted"), object{"review": r})
}

func reviewCommentEvent(body string) object {
	c := with(commentBy("mona", body), object{"diff_hunk": "@@ -1 +1 @@"})
	return with(pullEvent("created"), object{"comment": c})
}

// config has two familiars and everything on, surfaces included.
func config() *Config {
	return &Config{
		Source: task.DefaultSource, AppConfigured: true, AppID: 99, AppLogin: "ourapp[bot]",
		Familiars: []Familiar{
			{ID: "cody", BotUsername: "cody[bot]", TriggerLabels: []string{"cody", "shared"}},
			{ID: "nova", BotUsername: "nova-2[bot]", TriggerLabels: []string{"nova", "shared"}},
		},
		ReviewFamiliar: "nova", ReviewPullRequest: true, Lanes: AllLanes, SurfacesReady: true, DedupeDays: 365,
	}
}

func decode(t testing.TB, event string, payload any) *Event {
	t.Helper()
	b, err := json.Marshal(payload)
	require.NoError(t, err)
	ev, err := Decode(event, b)
	require.NoError(t, err)
	return ev
}

// routed sends a payload through Decode and Route.
func routed(t testing.TB, cfg *Config, event string, payload any) task.Delivery {
	t.Helper()
	h := Headers{Event: event, Delivery: "g1", HookID: "321", TargetType: "integration", TargetID: "99"}
	return Route(cfg, h, decode(t, event, payload), now)
}

func requireIgnored(t testing.TB, reason task.Reason, d task.Delivery) {
	t.Helper()
	require.Equal(t, task.Ignored(reason), d.Routing)
	require.Nil(t, d.Task)
}

func requireTask(t testing.TB, d task.Delivery) *task.Spec {
	t.Helper()
	require.NotNil(t, d.Task, "routing %s", d.Routing)
	require.Empty(t, d.Routing)
	require.Empty(t, d.Task.ID)
	return d.Task
}
