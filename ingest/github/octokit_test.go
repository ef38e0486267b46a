//go:build ci

package github

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// TestG12OctokitExamples decodes and routes every example payload of npm's
// @octokit/webhooks-examples, which lies in $BELAY_OCTOKIT_DIR, a folder
// node_modules. Each one must come out as the oracle reads it and have a
// disposition.
func TestG12OctokitExamples(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("BELAY_OCTOKIT_DIR")
	require.NotEmpty(t, dir, "BELAY_OCTOKIT_DIR must name a node_modules folder with @octokit/webhooks-examples")
	b, err := os.ReadFile(filepath.Join(dir, "@octokit", "webhooks-examples", "api.github.com", "index.json"))
	require.NoError(t, err)
	var all []struct {
		Name     string
		Examples []json.RawMessage
	}
	require.NoError(t, json.Unmarshal(b, &all))

	cfg := config()
	cfg.AppConfigured, cfg.DedupeDays = false, 0 // the examples are old, many without an installation
	every := *cfg
	for _, event := range events {
		every.Rules = append(every.Rules, Rule{Name: "any", Event: event, Kind: task.Custom, Familiar: "cody", Supersede: task.SupersedeBranch})
	}
	dispositions, caught := map[string]int{}, 0
	for _, event := range all {
		require.Equal(t, event.Name, EventLabel(event.Name))
		for i, payload := range event.Examples {
			ev, err := Decode(event.Name, payload)
			require.NoError(t, err, "%s %d", event.Name, i)
			want, ok := oracle(event.Name, payload)
			require.True(t, ok)
			require.Equal(t, want, ev, "%s %d", event.Name, i)

			d := Route(cfg, Headers{Event: event.Name, Delivery: "g"}, ev, now)
			if r := Route(&every, Headers{Event: event.Name, Delivery: "g"}, ev, now); d.Task == nil && r.Task != nil {
				caught++
				require.Equal(t, event.Name, r.Task.Kind.Custom.Event)
			}
			if d.Task != nil {
				dispositions[string(d.Task.Kind.Name)]++
				continue
			}
			reason, ok := d.Routing.Reason()
			require.True(t, ok)
			require.Contains(t, task.Reasons, reason)
			dispositions[string(reason)]++
		}
	}
	t.Logf("%d events: %v, %d with a rule for each", len(all), dispositions, caught)
	require.Greater(t, caught, 100)
	require.Greater(t, len(all), 50)
	require.Positive(t, dispositions[string(task.ReviewPullRequest)])
	require.Positive(t, dispositions[string(task.Closed)])
	require.Positive(t, dispositions[string(task.RefDeleted)])
	require.Positive(t, dispositions[string(task.UnsupportedEvent)])
}
