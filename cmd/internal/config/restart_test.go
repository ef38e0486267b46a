package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

func TestRestartKeysNamesWhatAReloadCannotChange(t *testing.T) {
	t.Parallel()
	old, next := Default(t.TempDir()), Default("elsewhere")
	next.Server.Listen, next.NATS.Replicas, next.GitHub.AppID, next.Worker.Timeout = "127.0.0.1:1", 3, 7, time.Hour
	next.Operator.Repo = "acme/site"
	// These are live.
	next.API.Mode, next.API.ServiceToken, next.Review.PullRequest = ModeToken, "a-token", true
	next.GitHub.WebhookSecrets = []redact.Secret{"another"}
	next.Familiars, next.Callbacks = nil, []Callback{{Name: "ci"}}
	next.Operator.Keys, next.Operator.Tenants = []OperatorKey{{ID: "worker"}}, map[string]string{"acme/site": "acme"}
	require.Equal(t, []string{"server.listen", "storage.dir", "nats.replicas", "github.app_id", "worker.workspace_dir", "worker.timeout", "operator.repo"}, old.RestartKeys(next))
	require.Empty(t, old.RestartKeys(old))
}
