package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
)

// What ends belay gives a stop its time: the drain and what may follow it.
func TestStopsAreGivenTheirTime(t *testing.T) {
	t.Parallel()
	needed := config.Default("").Worker.DrainTimeout + serveStop
	for file, key := range map[string]string{
		"systemd/belay.service": `TimeoutStopSec=(\w+)`, "compose.yaml": `stop_grace_period: (\w+)`,
		"kubernetes/belay.yaml": `terminationGracePeriodSeconds: (\w+)`, "kubernetes/cluster.yaml": `terminationGracePeriodSeconds: (\w+)`,
	} {
		m := regexp.MustCompile(`(?m)^\s*` + key + `$`).FindStringSubmatch(deployed(t, file))
		require.NotNil(t, m, file)
		given, err := time.ParseDuration(strings.TrimSuffix(m[1], "s") + "s")
		require.NoError(t, err)
		require.Greater(t, given, needed, file)
	}
}

// The environment of the unit is one that belay takes.
func TestSystemdUnitStartsBelay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	etc := filepath.Join(dir, "belay.toml")
	require.NoError(t, os.WriteFile(etc, []byte("[[familiars]]\nid = \"cody\"\nbot_username = \"cody[bot]\"\n"), 0o600))
	unit := strings.NewReplacer("/etc/belay/belay.toml", etc, "/var/lib/belay", filepath.Join(dir, "data")).Replace(deployed(t, "systemd", "belay.service"))
	var environ []string
	for _, m := range regexp.MustCompile(`(?m)^Environment=(\S+)$`).FindAllStringSubmatch(unit, -1) {
		environ = append(environ, m[1])
	}
	got := try(t, environ, "config", "print")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, filepath.Join(dir, "data"))
	m := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/belay (\S+)$`).FindStringSubmatch(unit)
	require.NotNil(t, m)
	require.Equal(t, exitOK, try(t, nil, m[1], "--help").code)
}

// The servers of the cluster sync each message, find each other, and keep their
// records in the volume. It sets variables, so it does not run beside others.
func TestNATSOfTheClusterIsConfigured(t *testing.T) {
	t.Setenv("NATS_NAME", "nats-1")
	for _, user := range []string{"", "INGEST_", "OPERATOR_", "WORKER_", "RELAY_", "VIEWER_"} {
		t.Setenv("BELAY_NATS_"+user+"PASSWORD", "b0123456789abcdef")
	}
	o, err := server.ProcessConfigFile(filepath.Join("..", "..", "deploy", "nats-cluster.conf"))
	require.NoError(t, err)
	require.Equal(t, "nats-1", o.ServerName)
	require.Len(t, o.Users, 6)
	for _, u := range o.Users {
		require.Equal(t, "b0123456789abcdef", u.Password)
		require.Equal(t, u.Username != "belay", u.Permissions != nil, "%s has no more than it needs", u.Username)
	}
	require.True(t, o.SyncAlways)
	require.Equal(t, "/data", o.StoreDir)
	var names []string
	for _, r := range o.Routes {
		names = append(names, r.Hostname())
	}
	require.Equal(t, []string{"nats-0", "nats-1", "nats-2"}, names)
}
