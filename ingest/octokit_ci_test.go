//go:build ci

package ingest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// Every example payload of @octokit/webhooks-examples, signed, through the
// handler into a real log: a task or a reason for each, no 5xx, no panic.
// BELAY_OCTOKIT_DIR names the node_modules folder that holds the package.
func TestG12EveryExamplePayloadIsRecorded(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("BELAY_OCTOKIT_DIR")
	require.NotEmpty(t, dir, "set BELAY_OCTOKIT_DIR to a node_modules folder with @octokit/webhooks-examples")
	root := filepath.Join(dir, "@octokit", "webhooks-examples")
	require.FileExists(t, filepath.Join(root, "api.github.com", "index.json"))
	files, err := filepath.Glob(filepath.Join(root, "*", "index.json"))
	require.NoError(t, err)
	d, l, _ := storeDoor(t, nil)
	seen, tasks := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var events []struct {
			Name     string            `json:"name"`
			Examples []json.RawMessage `json:"examples"`
		}
		require.NoError(t, json.Unmarshal(data, &events))
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
				logged, err := l.Find(t.Context(), task.DeliveryID(fmt.Sprintf("g%d", seen)))
				require.NoError(t, err)
				require.Equal(t, e.Name, logged.Event)
			}
		}
	}
	require.Greater(t, seen, 100)
	require.Positive(t, tasks)
	require.Equal(t, "0", d.metric("belay_http_panics_total"))
	t.Logf("%d payloads, %d tasks", seen, tasks)
}
