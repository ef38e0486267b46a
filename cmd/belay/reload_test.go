package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// replace changes the configuration file.
func (h *host) replace(old, with string) {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "belay.toml"))
	require.NoError(h.t, err)
	require.Contains(h.t, string(text), old)
	h.file("belay.toml", strings.Replace(string(text), old, with, 1))
}

// metrics is what the admin listener says.
func (h *host) metrics() string {
	h.t.Helper()
	resp, err := http.Get("http://" + h.admin + "/metrics")
	require.NoError(h.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	return string(b)
}

// reload sends SIGHUP and waits until the log has one line more that says how
// it went; it returns that line.
func (p *process) reload(said string) string {
	p.h.t.Helper()
	before := strings.Count(p.out.String(), said)
	p.signal(syscall.SIGHUP)
	natstest.Eventually(p.h.t, said, func() bool { return strings.Count(p.out.String(), said) > before })
	lines := strings.Split(p.out.String(), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], said) {
			return lines[i]
		}
	}
	return ""
}

const (
	reloaded    = `"configuration is reloaded"`
	notReloaded = "configuration is not reloaded"
	newSecret   = "another-long-enough-secret"
)

// G42: during a rotation both secrets hold, afterwards the old one is refused.
func TestG42SIGHUPRotatesTheWebhookSecret(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	p := h.serve()
	status := func(secret string) int { _, s := h.postAs(1, "bug", secret); return s }
	require.Equal(t, []int{200, 401}, []int{status(hostSecret), status(newSecret)})
	h.replace(`webhook_secrets = ["`+hostSecret+`"]`, `webhook_secrets = ["`+newSecret+`", "`+hostSecret+`"]`)
	p.reload(reloaded)
	require.Equal(t, []int{200, 200}, []int{status(hostSecret), status(newSecret)})
	h.replace(`, "`+hostSecret+`"]`, `]`)
	p.reload(reloaded)
	require.Equal(t, []int{401, 200}, []int{status(hostSecret), status(newSecret)})
	require.NotContains(t, p.out.String(), newSecret)
	p.stop()
}

// Each part of the configuration that can change does: a familiar, its
// command, the API's token.
func TestSIGHUPReloadsFamiliarsAndAccess(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	p := h.serve()
	got, _ := h.postAs(1, "tidy", hostSecret)
	require.NotEmpty(t, got.Ignored)
	h.file("new.sh", strings.Replace(succeed, "all done", "by the new one", 1))
	h.append("belay.toml", `[[familiars]]
id = "tess"
bot_username = "tess[bot]"
trigger_labels = ["tidy"]
command = ["/bin/sh", "`+filepath.Join(h.dir, "new.sh")+`", "{brief}", "{result}"]
[api]
mode = "token"
service_token = "a-service-token-for-tests"
`)
	p.reload(reloaded)
	got, status := h.postAs(1, "tidy", hostSecret)
	require.Equal(t, http.StatusOK, status)
	require.NotEmpty(t, got.Task)
	require.Equal(t, http.StatusUnauthorized, h.get("/api/github/tasks/"+got.Task), "a token is asked for now")
	h.client.token = "a-service-token-for-tests"
	require.Equal(t, "by the new one", h.await(got.Task, "done").Summary)
	p.stop()
}

// A configuration that cannot be brought into force whole changes nothing, and
// the log names the key.
func TestSIGHUPWithABrokenFileChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	p := h.serve()
	good, err := os.ReadFile(filepath.Join(h.dir, "belay.toml"))
	require.NoError(t, err)
	require.Contains(t, h.metrics(), "belay_config_last_reload_successful 1\n")
	withNew := strings.Replace(string(good), hostSecret, newSecret, 1)
	for name, c := range map[string]struct{ text, want string }{
		"an unknown key":           {strings.Replace(withNew, "[worker]", "[worker]\nspeed = 3", 1), "worker.speed"},
		"no TOML":                  {withNew + "[[[", "line "},
		"a familiar without login": {withNew + "[[familiars]]\nid = \"tess\"\n", "familiars[1].bot_username"},
		"what needs a restart":     {strings.Replace(withNew, "[worker]", "[worker]\nconcurrency = 9\n", 1) + "[storage]\ndir = \"other\"\n", "storage.dir, worker.concurrency, worker.workspace_dir cannot change"},
	} {
		h.file("belay.toml", c.text)
		require.Contains(t, p.reload(notReloaded), c.want, name)
		require.Contains(t, h.metrics(), "belay_config_last_reload_successful 0\n", name)
		require.NotEmpty(t, h.post(1), "%s: the old secret is in force", name)
		_, status := h.postAs(1, "bug", newSecret)
		require.Equal(t, http.StatusUnauthorized, status, name)
	}
	require.NoError(t, os.Remove(filepath.Join(h.dir, "belay.toml")))
	require.Contains(t, p.reload(notReloaded), "belay.toml")
	h.file("belay.toml", withNew)
	p.reload(reloaded)
	require.Contains(t, h.metrics(), "belay_config_last_reload_successful 1\n")
	require.Contains(t, h.metrics(), "belay_config_last_reload_success_timestamp_seconds ")
	require.Empty(t, h.post(1))
	p.stop()
}

// Type=notify-reload of systemd: RELOADING=1 with the time, then READY=1, also
// when nothing changed.
func TestSIGHUPTellsTheServiceManager(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	path := filepath.Join(h.dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer conn.Close()
	h.environ = []string{"NOTIFY_SOCKET=" + path}
	next := func() string {
		for {
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
			buf := make([]byte, 1024)
			n, err := conn.Read(buf)
			require.NoError(t, err)
			if got := string(buf[:n]); !strings.HasPrefix(got, "EXTEND_TIMEOUT_USEC=") {
				return got
			}
		}
	}
	p := h.serve()
	require.Equal(t, "READY=1", next())
	for _, said := range []string{reloaded, notReloaded} {
		p.reload(said)
		require.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+$`, next())
		require.Equal(t, "READY=1", next())
		h.append("belay.toml", "no toml")
	}
	p.stop()
}
