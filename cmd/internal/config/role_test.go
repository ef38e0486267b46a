package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A role asks for what it uses, and nothing else.
func TestRoleNeedsWhatItUses(t *testing.T) {
	t.Parallel()
	const rest = `
[github]
app_id = 7
[[callbacks]]
name = "ci"
url = "https://ci.example/hook"
[[familiars]]
id = "cody"
bot_username = "cody[bot]"
`
	for role, want := range map[string][]string{
		"all":    {"github.webhook_secrets", "github.private_key_file", "callbacks[0].secrets"},
		"ingest": {"github.webhook_secrets"},
		"worker": {"github.private_key_file"},
		"relay":  {"github.private_key_file", "callbacks[0].secrets"},
		"none":   {"server.role"},
	} {
		path := filepath.Join(t.TempDir(), "belay.toml")
		require.NoError(t, os.WriteFile(path, []byte("[server]\nrole = \""+role+"\"\n[nats]\nurl = \"nats://127.0.0.1:1\"\n"+rest), 0o600))
		_, err := Load(path, nil)
		var problems *Error
		require.ErrorAs(t, err, &problems, role)
		var keys []string
		for _, p := range problems.Problems {
			keys = append(keys, p.Key)
		}
		if role == "none" {
			require.Contains(t, keys, "server.role")
			continue
		}
		require.ElementsMatch(t, want, keys, role)
	}
}

func TestOneRoleNeedsANATSServerOfItsOwn(t *testing.T) {
	t.Parallel()
	_, err := Load("", []string{"BELAY_SERVER_ROLE=worker"})
	require.ErrorContains(t, err, `server.role ($BELAY_SERVER_ROLE) = "worker": is one part of a fleet, and without nats.url this process is alone: set url under [nats]`)
}
