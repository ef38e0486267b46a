package github

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

// Half of what is drawn is what routing looks for, the rest is anything.
func word(label string, known ...string) func(*rapid.T) string {
	return func(t *rapid.T) string {
		return rapid.OneOf(rapid.SampledFrom(known), rapid.SampledFrom(known), rapid.StringN(0, 20, 40)).Draw(t, label)
	}
}

var (
	drawEvent = word("event", "issues", "issue_comment", "pull_request_review", "pull_request_review_comment",
		"pull_request", "installation", "push", "ping", "star")
	drawAction = word("action", "assigned", "labeled", "created", "submitted", "opened", "synchronize", "reopened",
		"ready_for_review", "closed", "deleted", "edited")
	drawLogin = word("login", "mona", "cody[bot]", "nova-2[bot]", "ourapp[bot]", "other[bot]")
	drawLabel = word("label", "cody", "nova", "shared", "bug")
	drawBody  = word("body", "@cody review", "@nova-2 fix it", "@cody cancel", "@cody status", "@cody x", "@cody", "hi")
)

func drawTime(t *rapid.T) time.Time {
	day := rapid.IntRange(-800, 10).Draw(t, "day")
	if day == 0 {
		return time.Time{}
	}
	return now.AddDate(0, 0, day)
}

func drawPayload(t *rapid.T) *Event {
	number := rapid.IntRange(0, 2)
	comment := func() Comment {
		return Comment{Author: drawLogin(t), Body: drawBody(t), DiffHunk: rapid.String().Draw(t, "hunk"), UpdatedAt: drawTime(t)}
	}
	return &Event{
		Action: drawAction(t), Installation: rapid.Int64Range(0, 2).Draw(t, "installation"),
		Repository: Repository{
			ID: rapid.Int64Range(0, 2).Draw(t, "repo"), FullName: word("name", "acme/api", "")(t), PushedAt: drawTime(t),
		},
		Sender: drawLogin(t), Assignee: drawLogin(t), Label: drawLabel(t), Number: number.Draw(t, "n"),
		Before: word("before", beforeSHA)(t), Deleted: rapid.Bool().Draw(t, "deleted"), HeadCommit: Commit{At: drawTime(t)},
		Issue: Issue{
			Number: number.Draw(t, "issue"), Title: rapid.String().Draw(t, "title"), Body: drawBody(t),
			IsPullRequest: rapid.Bool().Draw(t, "is pull"), UpdatedAt: drawTime(t),
		},
		PullRequest: PullRequest{
			Number: number.Draw(t, "pull"), Title: rapid.String().Draw(t, "pull title"), Draft: rapid.Bool().Draw(t, "draft"),
			Author: drawLogin(t), HeadSHA: word("head", headSHA)(t), UpdatedAt: drawTime(t),
		},
		Comment: comment(), Review: comment(),
	}
}

func drawConfig(t *rapid.T) *Config {
	cfg := config()
	flag := func(name string, dst *bool) { *dst = rapid.Bool().Draw(t, name) }
	flag("app", &cfg.AppConfigured)
	flag("review lane", &cfg.ReviewPullRequest)
	flag("drafts", &cfg.IncludeDrafts)
	flag("assignment lane", &cfg.Lanes.Assignment)
	flag("label lane", &cfg.Lanes.Label)
	flag("command lane", &cfg.Lanes.Command)
	flag("surfaces", &cfg.SurfacesReady)
	cfg.ReviewFamiliar = word("reviewer", "cody", "nova", "")(t)
	cfg.Familiars = cfg.Familiars[:rapid.IntRange(0, 2).Draw(t, "familiars")]
	cfg.DedupeDays = rapid.IntRange(0, 400).Draw(t, "dedupe days")
	return cfg
}

// TestRouteProperty: whatever comes in, Route yields a whole task or one
// reason of the closed list, never both.
func TestRouteProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg, ev := drawConfig(t), drawPayload(t)
		h := Headers{
			Event: drawEvent(t), Delivery: "g", HookID: rapid.String().Draw(t, "hook"),
			TargetType: word("type", "integration", "repository")(t), TargetID: word("target", "99", "98")(t),
		}
		d := Route(cfg, h, ev, now)
		_, err := json.Marshal(d)
		require.NoError(t, err)
		require.Equal(t, task.Version, d.V)
		require.Equal(t, task.At(now), d.ReceivedAt)
		if d.Task == nil {
			reason, ok := d.Routing.Reason()
			require.True(t, ok)
			require.Contains(t, task.Reasons, reason)
			return
		}
		require.Empty(t, d.Routing)
		require.Empty(t, d.Task.ID)
		require.True(t, slices.ContainsFunc(cfg.Familiars, func(f Familiar) bool { return f.ID == d.Task.FamiliarID }))
		require.Contains(t, task.KindNames, d.Task.Kind.Name)
		require.Equal(t, d.Number, d.Task.Kind.Number())
		require.Positive(t, d.Number)
		require.NotZero(t, d.RepoID)
		require.NotEmpty(t, d.Repo)
		require.True(t, d.Task.Once)
		require.False(t, cfg.ours(ev.Sender))
		require.False(t, cfg.AppConfigured && d.InstallationID == 0)
		uncommanded := d.Task.Kind.Name == task.ReviewPullRequest && d.Task.Commander == ""
		require.Equal(t, uncommanded, d.Task.Review != nil)
		require.True(t, cfg.SurfacesReady || d.Task.Commander == "", "commanders wait for surfaces")
	})
}
