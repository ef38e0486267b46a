//go:build ci

package ingest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// Every example payload of @octokit/webhooks-examples, signed, through the
// handler into a real log: a task or a reason for each, no 5xx, no panic.
// BELAY_OCTOKIT_DIR names the node_modules folder that holds the package.
func TestG12EveryExamplePayloadIsRecorded(t *testing.T) {
	t.Parallel()
	d, l, _ := storeDoor(t, nil)
	seen, tasks := everyExample(t, d, l)
	t.Logf("%d payloads, %d tasks", seen, tasks)
}

// The same with a rule for each of their events: most become tasks.
func TestG12EveryExamplePayloadMeetsARule(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	for _, event := range exampleEvents(t) {
		cfg.Rules = append(cfg.Rules, github.Rule{
			Name: "any", Event: event, Kind: task.Custom, Familiar: "cody", Supersede: task.SupersedeBranch, Once: true,
		})
	}
	d, l, _ := storeDoor(t, func(o *Options) { o.Config = func() *github.Config { return cfg } })
	seen, tasks := everyExample(t, d, l)
	t.Logf("%d payloads, %d tasks", seen, tasks)
	require.Greater(t, tasks, seen/2)
}

type exampleEvent struct {
	Name     string            `json:"name"`
	Examples []json.RawMessage `json:"examples"`
}

// examples are those of every GitHub that the package knows, by file.
func examples(t *testing.T) map[string][]exampleEvent {
	dir := os.Getenv("BELAY_OCTOKIT_DIR")
	require.NotEmpty(t, dir, "set BELAY_OCTOKIT_DIR to a node_modules folder with @octokit/webhooks-examples")
	root := filepath.Join(dir, "@octokit", "webhooks-examples")
	require.FileExists(t, filepath.Join(root, "api.github.com", "index.json"))
	files, err := filepath.Glob(filepath.Join(root, "*", "index.json"))
	require.NoError(t, err)
	out := map[string][]exampleEvent{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var events []exampleEvent
		require.NoError(t, json.Unmarshal(data, &events))
		out[file] = events
	}
	return out
}

func exampleEvents(t *testing.T) (names []string) {
	for _, events := range examples(t) {
		for _, e := range events {
			names = append(names, e.Name)
		}
	}
	return names
}

func everyExample(t *testing.T, d *door, l *kv.DeliveryLog) (seen, tasks int) {
	for file, events := range examples(t) {
		for _, e := range events {
			for i, body := range e.Examples {
				seen++
				got := d.post(hook{event: e.Name, guid: fmt.Sprintf("g%d", seen), body: body})
				require.Equal(t, 200, got.status, "%s %s %d: %s", file, e.Name, i, got.text)
				o := got.json(t)
				switch {
				case o["task"] != nil:
					tasks++
				case e.Name == "ping":
					require.Equal(t, true, o["pong"])
				default:
					require.Contains(t, task.Reasons, task.Reason(o["ignored"].(string)), "%s %s %d", file, e.Name, i)
				}
				logged, err := l.Find(t.Context(), task.DeliveryID(fmt.Sprintf("g%d", seen)), kv.DeliveryQuery{})
				require.NoError(t, err)
				require.Equal(t, e.Name, logged.Event)
			}
		}
	}
	require.Greater(t, seen, 100)
	require.Positive(t, tasks)
	require.Equal(t, "0", d.metric("belay_http_panics_total"))
	return seen, tasks
}
