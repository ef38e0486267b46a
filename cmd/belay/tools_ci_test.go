//go:build ci

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// The nats CLI, by the lines that `belay nats` prints, with the password that
// stands in the data folder.
func TestNATSCLILooksIntoARunningBelay(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	p := h.serve()
	id := h.accept(1)
	h.await(id, "done")
	require.FileExists(t, filepath.Join(h.dir, "data", "nats.password"))
	nats := func(args ...string) string {
		line := h.ok(append([]string{"nats", "--"}, args...)...)
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
		cmd.Dir = h.dir
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", line, out)
		return string(out)
	}
	require.Regexp(t, `(?s)WEBHOOKS.*Messages: 1\b`, nats("stream", "info", "WEBHOOKS"))
	natstest.Eventually(t, "no token to wait", func() bool {
		out := nats("consumer", "info", "WEBHOOKS", "tasks")
		return strings.Contains(out, "Unprocessed Messages: 0") && strings.Contains(out, "Outstanding Acks: 0")
	})
	require.Regexp(t, `webhook\.1\.\d+\.task\.fix_issue`, nats("stream", "subjects", "WEBHOOKS"))
	var record struct{ ID, State string }
	require.NoError(t, json.Unmarshal([]byte(nats("kv", "get", "STATE", "task.1."+id, "--raw")), &record))
	require.Equal(t, id, record.ID)
	require.Equal(t, "completed", record.State)

	stranger := exec.CommandContext(t.Context(), "nats", "--server", h.nats, "stream", "ls")
	out, err := stranger.CombinedOutput()
	require.Error(t, err, "without the password nobody looks")
	require.Contains(t, strings.ToLower(string(out)), "authorization")
	p.stop()
}

// A real Prometheus scrapes the admin listener, and its own tool finds nothing
// to complain of.
func TestPrometheusScrapesARunningBelay(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	p := h.serve()
	for n := range 3 {
		h.await(h.accept(n+1), "done")
	}
	h.file("prometheus.yml", fmt.Sprintf("global: {scrape_interval: 250ms, scrape_timeout: 250ms}\n"+
		"scrape_configs: [{job_name: belay, static_configs: [{targets: [%q]}]}]\n", h.admin))
	addr := freePort(t)
	log := &syncBuffer{}
	prom := exec.CommandContext(t.Context(), "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", "--web.listen-address="+addr)
	prom.Dir, prom.Stdout, prom.Stderr = h.dir, log, log
	require.NoError(t, prom.Start())
	defer func() { _ = prom.Process.Signal(syscall.SIGTERM); _ = prom.Wait() }()
	query := func(q string) string {
		var got struct {
			Data struct{ Result []struct{ Value []any } }
		}
		resp, err := http.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(q))
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		if json.NewDecoder(resp.Body).Decode(&got) != nil || len(got.Data.Result) != 1 {
			return ""
		}
		return got.Data.Result[0].Value[1].(string)
	}
	natstest.Eventually(t, "Prometheus to know the tasks", func() bool { return query(`belay_tasks{state="completed"}`) == "3" })
	require.Equal(t, "1", query(`up{job="belay"}`), "%s", log)
	require.Equal(t, "1", query("belay_view_synced"))
	require.Equal(t, "1", query("count(belay_build_info)"))

	resp, err := http.Get("http://" + h.admin + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = bytes.NewReader(metrics)
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
	p.stop()
}

// G12: @octokit/webhooks-methods signs every payload of
// @octokit/webhooks-examples: each is recorded, none is refused.
func TestOctokitSignsEveryExample(t *testing.T) {
	t.Parallel()
	modules := os.Getenv("BELAY_OCTOKIT_DIR")
	require.NotEmpty(t, modules, "set BELAY_OCTOKIT_DIR to a node_modules folder with the packages of .ci/octokit")
	script, err := os.ReadFile(filepath.Join("..", "..", ".ci", "octokit", "post.mjs"))
	require.NoError(t, err)
	h := newHost(t, "", "")
	h.file("post.mjs", string(script))
	require.NoError(t, os.Symlink(modules, filepath.Join(h.dir, "node_modules")))
	p := h.serve()
	node := exec.CommandContext(t.Context(), "node", "post.mjs", "http://"+h.public, hostSecret)
	node.Dir = h.dir
	out, err := node.CombinedOutput()
	require.NoError(t, err, "%s", out)
	posted, tasks := 0, 0
	recorded, purged := map[string]int64{}, int64(0)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); posted++ {
		var line struct {
			Event, Action, Delivery string
			Installation            int64
			Status                  int
			Answer                  hookAnswer
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line), lines.Text())
		require.Equal(t, http.StatusOK, line.Status, lines.Text())
		if line.Answer.Ignored == string(task.InstallationDeleted) {
			purged = line.Installation // with its deliveries, DT-102
		}
		recorded[line.Delivery] = line.Installation
		switch {
		case line.Answer.Task != "":
			tasks++
		case !line.Answer.Pong:
			require.Contains(t, task.Reasons, task.Reason(line.Answer.Ignored), lines.Text())
		}
	}
	require.Greater(t, posted, 100)
	require.Positive(t, tasks)
	listed := h.ok("deliveries", "ls", "--all", "-o", "json")
	for id, installation := range recorded {
		require.True(t, installation == purged || strings.Contains(listed, id), "%s is not listed", id)
	}
	natstest.Eventually(t, "all tasks to end", func() bool {
		list := h.ok("tasks", "ls", "--all", "-o", "json")
		return !strings.Contains(list, `"status": "queued"`) && !strings.Contains(list, `"status": "running"`)
	})
	require.NotContains(t, p.out.String(), `"level":"ERROR"`)
	p.stop()
}

// J17: twenty stops under load; each ends well, and nothing accepted is lost.
func TestJ17TwentyStopsUnderLoad(t *testing.T) {
	t.Parallel()
	h := newHost(t, "concurrency = 4", `sleep 0.02; `+succeed)
	accepted := make(chan string, 1<<16)
	over := make(chan struct{})
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		for n := 1; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			// It is refused while there is no server.
			if id := h.post(n); id != "" {
				accepted <- id
			} else {
				<-time.After(5 * time.Millisecond)
			}
		}
	}()
	for round := range 20 {
		p := h.serve()
		before := len(accepted)
		natstest.Eventually(t, "load", func() bool { return len(accepted) >= before+5 })
		began := time.Now()
		p.signal(syscall.SIGTERM)
		require.Equal(t, exitOK, p.exit(), "round %d: %s", round, p.out)
		require.Less(t, time.Since(began), 15*time.Second)
	}
	close(over)
	<-loaded
	close(accepted)
	p := h.serve()
	for id := range accepted {
		h.await(id, "done")
	}
	p.stop()
}
