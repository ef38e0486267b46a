//go:build ci

package streams_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
)

// natsCLI runs the nats CLI against a server.
func natsCLI(t *testing.T, env *natstest.Env, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "nats", append([]string{"--server", env.URL()}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir(), "NATS_CONTEXT=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "nats %q: %s", args, out)
	return string(out)
}

// jsonFile writes a value to a file.
func jsonFile(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "entry.json")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// The nats CLI makes, entry by entry, what Reconcile would: nothing is left to
// change. An entry works as it stands, with its consumers in it, and without.
func TestCLITakesEachEntry(t *testing.T) {
	t.Parallel()
	for name, bare := range map[string]bool{"entry as it stands": false, "without consumers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t, natstest.WithoutStreams(), natstest.WithListener())
			var file struct {
				Streams []map[string]any `json:"streams"`
			}
			require.NoError(t, json.Unmarshal(belay.StreamsJSON, &file))
			for _, entry := range file.Streams {
				name, consumers := entry["name"].(string), entry["consumers"].([]any)
				if bare {
					delete(entry, "consumers")
				}
				path := jsonFile(t, entry)
				require.Contains(t, natsCLI(t, env, "stream", "add", "--validate", "--config", path), "is a valid Stream")
				natsCLI(t, env, "stream", "add", "--config", path)
				for _, c := range consumers {
					path := jsonFile(t, c)
					natsCLI(t, env, "consumer", "add", name, "--validate", "--config", path)
					natsCLI(t, env, "consumer", "add", name, "--config", path)
				}
			}
			changes, err := streams.Diff(t.Context(), env.JS, embedded(t), streams.Options{})
			require.NoError(t, err)
			require.Empty(t, changes)
		})
	}
}

// What people look at while belay runs.
func TestCLIReadsTheQueue(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	bucket, err := env.JS.KeyValue(t.Context(), "STATE")
	require.NoError(t, err)
	_, err = bucket.Create(t.Context(), "task.1.abc", []byte(`{"state":"queued"}`))
	require.NoError(t, err)
	_, err = env.JS.Publish(t.Context(), "webhook.1.2.task.review", nil)
	require.NoError(t, err)

	require.Contains(t, natsCLI(t, env, "kv", "get", "STATE", "task.1.abc"), `{"state":"queued"}`)
	require.Contains(t, natsCLI(t, env, "stream", "subjects", "WEBHOOKS"), "webhook.1.2.task.review")
	require.Contains(t, natsCLI(t, env, "consumer", "info", "WEBHOOKS", "tasks"), "Unprocessed Messages: 1")
}
