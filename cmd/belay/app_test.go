package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// manifest is what GitHub reads of one.
type manifest struct {
	Name, URL   string
	Hook        struct{ URL string } `json:"hook_attributes"`
	Permissions map[string]string    `json:"default_permissions"`
	Events      []string             `json:"default_events"`
	Public      bool
}

func TestAppManifestFollowsTheRoutes(t *testing.T) {
	t.Parallel()
	ask := func(text string, args ...string) manifest {
		got := try(t, nil, append([]string{"app", "manifest", "--config", configFile(t, text)}, args...)...)
		require.Equal(t, exitOK, got.code, got.err)
		require.Empty(t, got.err)
		var m manifest
		require.NoError(t, json.Unmarshal([]byte(got.out), &m))
		return m
	}
	const hook = "[github]\nwebhook_url = \"https://belay.example/webhook\"\n"
	m := ask(hook + someFamiliar)
	require.Equal(t, "coven-cody", m.Name)
	require.Equal(t, "https://belay.example", m.URL)
	require.Equal(t, "https://belay.example/webhook", m.Hook.URL)
	require.False(t, m.Public)
	require.Equal(t, []string{"issue_comment", "issues", "pull_request", "pull_request_review", "pull_request_review_comment"}, m.Events)
	require.Equal(t, map[string]string{"metadata": "read", "contents": "write", "checks": "write", "issues": "write", "pull_requests": "write"}, m.Permissions)

	m = ask(hook+someFamiliar, "--webhook-url", "https://other.example/webhook", "--name", "n", "--url", "https://home.example", "--public")
	require.Equal(t, manifest{"n", "https://home.example", struct{ URL string }{"https://other.example/webhook"}, m.Permissions, m.Events, true}, m)
}

func TestAppManifestSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	path := configFile(t, someFamiliar)
	got := try(t, nil, "app", "manifest", "--config", path)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "github.webhook_url is not set: write the address at which GitHub reaches belay")
	got = try(t, nil, "app", "manifest", "--config", path, "--webhook-url", "belay.example")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, `--webhook-url = "belay.example" is not an http address`)
	require.Empty(t, got.out)
}
