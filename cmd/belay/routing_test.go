package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv/task"
)

// TestBuiltinPayloadsRoute sends what `belay send` makes through the real
// decoder and routing, with the configuration of a first start.
func TestBuiltinPayloadsRoute(t *testing.T) {
	t.Parallel()
	cfg := config.Default("")
	f := cfg.Familiars[0]
	routing := &github.Config{
		Source: task.DefaultSource, Lanes: github.AllLanes, ReviewPullRequest: true, DedupeDays: cfg.Storage.DedupeDays,
		Familiars: []github.Familiar{{ID: f.ID, DisplayName: f.DisplayName, BotUsername: f.BotUsername, TriggerLabels: f.TriggerLabels}},
	}
	want := map[string]string{
		"issues.labeled":           "fix_issue",
		"issues.assigned":          "fix_issue",
		"issue_comment.created":    "command_reply",
		"pull_request.opened":      "review_pull_request",
		"pull_request.synchronize": "review_pull_request",
		"pull_request.closed":      "ignored:closed",
		"push":                     "ignored:unroutable",
		"ping":                     "ignored:ping",
	}
	require.Len(t, want, len(builtin()))
	for _, event := range builtin() {
		tree, err := loadPayload(event, nil, newVocabulary(cfg, clock))
		require.NoError(t, err)
		body, err := encode(tree)
		require.NoError(t, err)
		name, _, _ := strings.Cut(event, ".")
		ev, err := github.Decode(name, body)
		require.NoError(t, err, event)
		d := github.Route(routing, github.Headers{Event: name, Delivery: "d"}, ev, clock)
		got := string(d.Routing)
		if d.Task != nil {
			got = string(d.Task.Kind.Name)
		}
		require.Equal(t, want[event], got, event)
		if d.Task != nil && d.Task.Review != nil {
			require.Equal(t, clock, d.Task.Review.UpdatedAt.Time.UTC(), "the times are read")
			require.Len(t, d.Task.HeadSHA, 40)
		}
	}
}
