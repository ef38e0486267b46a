package github

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// TestG33WantedIsWhatRoutingCanUse: every event and action that routing makes
// a task of, or acts on, is wanted, and of the others none.
func TestG33WantedIsWhatRoutingCanUse(t *testing.T) {
	t.Parallel()
	cfg := config()
	for event, actions := range routes {
		for action := range actions {
			require.Equal(t, event != "push", cfg.Wants(event, action, 10), event+"."+action)
		}
	}
	for _, e := range [][2]string{{"ping", ""}, {"workflow_job", "queued"}, {"issues", "opened"}, {"issues", ""}, {"push", "opened"}, {"", ""}} {
		require.False(t, cfg.Wants(e[0], e[1], 10), e)
		d := Route(cfg, Headers{Event: e[0], Delivery: "g1"}, &Event{Action: e[1], Installation: 10}, now)
		require.Nil(t, d.Task)
		why, _ := d.Routing.Reason()
		require.NotContains(t, []task.Reason{task.Closed, task.InstallationDeleted}, why)
	}
}

// TestG13WithoutAnInstallationNothingIsAskedForAgain where an App is
// configured: it would be ignored again.
func TestG13WithoutAnInstallationNothingIsAskedForAgain(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.AppConfigured = true
	require.False(t, cfg.Wants("workflow_job", "queued", 0))
	require.False(t, cfg.Wants("issues", "labeled", 0))
	require.True(t, cfg.Wants("issues", "labeled", 10))
	cfg.AppConfigured = false
	require.True(t, cfg.Wants("issues", "labeled", 0))
}

// TestG33RulesAndInstallationsSayWhatIsWanted: as routing does.
func TestG33RulesAndInstallationsSayWhatIsWanted(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Rules = []Rule{{Event: "push"}, {Event: "workflow_job", Actions: []string{"completed"}}}
	require.True(t, cfg.Wants("push", "", 10))
	require.True(t, cfg.Wants("workflow_job", "completed", 10))
	require.False(t, cfg.Wants("workflow_job", "queued", 10))
	cfg.Installations = map[int64]*Installation{10: {}}
	require.True(t, cfg.Wants("push", "", 10))
	require.False(t, cfg.Wants("push", "", 11))
	require.False(t, cfg.Wants("issues", "labeled", 11))
	require.True(t, cfg.Wants("installation", "deleted", 11), "its tasks have to go, listed or not")
}
