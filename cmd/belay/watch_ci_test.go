//go:build ci

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tool runs a program in a folder of deploy and returns what it prints.
func tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %q: %s", name, args, out)
	return string(out)
}

// Q15, O10, J16 and the others: promtool shows each alert fire, and end.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "deploy", "prometheus")
	tool(t, dir, "promtool", "check", "config", "prometheus.yml")
	tool(t, dir, "promtool", "test", "rules", "alerts_test.yml")
}

// Every expression of the dashboard is one that Prometheus can read.
func TestPanelsAreRead(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	rules.WriteString("groups:\n- name: panels\n  rules:\n")
	for i, expr := range panelExprs(t) {
		fmt.Fprintf(&rules, "  - {record: 'panel:%d', expr: '%s'}\n", i, strings.ReplaceAll(expr, "'", "''"))
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "panels.yml"), []byte(rules.String()), 0o600))
	tool(t, dir, "promtool", "check", "rules", "panels.yml")
}

// exposed is how exposed systemd may find the service, of 100.
const exposed = "30"

// The unit is one that systemd takes, is hardened, and gives a stop its time.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	unit := deployed(t, "systemd", "belay.service")
	values := map[string][]string{}
	for line := range strings.Lines(unit) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			values[key] = append(values[key], value)
		}
	}
	require.Equal(t, []string{"notify"}, values["Type"])
	require.Equal(t, []string{"mixed"}, values["KillMode"], "Q26: SIGTERM is for belay, which drains first")

	// systemd wants the program and the user to be there.
	dir := t.TempDir()
	here := strings.NewReplacer("/usr/local/bin/belay", os.Args[0], "User=belay", "User=root", "Group=belay", "Group=root").Replace(unit)
	path := filepath.Join(dir, "belay.service")
	require.NoError(t, os.WriteFile(path, []byte(here), 0o644))
	require.Empty(t, tool(t, dir, "systemd-analyze", "verify", path), "it warns of nothing")
	strict := filepath.Join(dir, "strict.service")
	require.NoError(t, os.WriteFile(strict, []byte(strings.ReplaceAll(unit, "/usr/local/bin/belay", os.Args[0])), 0o644))
	tool(t, dir, "systemd-analyze", "security", "--offline=yes", "--threshold="+exposed, strict)
}
