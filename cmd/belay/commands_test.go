package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// The commands of a person, one after the other, against a running belay.
func TestCommandsOfADay(t *testing.T) {
	t.Parallel()
	h := newHost(t, "concurrency = 1\nmax_retries = 0", `echo looking; if [ -e "$3/broken" ]; then exit 7; fi; `+gated)
	require.Contains(t, h.ok("config", "print"), "concurrency = 1 # file")
	require.NotContains(t, h.ok("config", "print"), hostSecret)
	got := h.try("tasks", "ls")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "nothing answers at http://"+h.public+": start it with `belay serve`")
	p := h.serve()
	require.Equal(t, exitOK, h.try("doctor").code)
	require.Contains(t, h.ok("version"), "nats-server")
	require.Contains(t, h.ok("nats"), "nats --server nats://"+h.nats+" --user belay")

	running := h.send("--set", "issue.title=First", "--set", "issue.number=1")
	h.await(running, "running")
	waiting := h.send("--set", "issue.title=Second", "--set", "issue.number=2", "--form")
	require.Regexp(t, `(?s)Second.*First`, h.ok("tasks", "ls"), "the newest first")
	require.Contains(t, h.ok("tasks", "ls", "--status", "running"), "First")
	require.NotContains(t, h.ok("tasks", "ls", "--status", "running"), "Second")

	h.ok("tasks", "cancel", waiting)
	require.Equal(t, "cancelled", h.show(waiting).Status)
	got = h.try("tasks", "cancel", waiting)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "already cancelled")

	h.release()
	require.Equal(t, "all done", h.await(running, "done").Summary)
	require.Equal(t, "looking\n", h.ok("tasks", "logs", running))
	h.file("broken", "")
	h.ok("tasks", "retry", waiting)
	h.await(waiting, "failed")
	require.NoError(t, os.Remove(filepath.Join(h.dir, "broken")))
	h.ok("tasks", "retry", waiting)
	require.Len(t, h.await(waiting, "done").Attempts, 2)

	h.file("ping.json", `{"zen":"Keep it logically awesome."}`)
	ping := []string{"send", "ping", "--delivery", "my-own-id", "--raw", "--file", "ping.json"}
	require.Contains(t, h.ok(ping...), "pong")
	require.Contains(t, h.ok(ping...), "a duplicate")
	require.Contains(t, h.ok("deliveries", "ls"), "ignored:ping")
	require.Contains(t, h.ok("deliveries", "show", "my-own-id"), "ignored:ping")
	require.Equal(t, exitError, h.try("deliveries", "show", "unknown").code)
	require.Equal(t, exitError, h.try("tasks", "show", "11111111-2222-5333-8444-555555555555").code)
	require.Equal(t, exitError, h.try("send", "issues.labeled", "--secret", "another-secret-of-some-length").code)
	p.stop()
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	p := h.serve()
	h.ok("pause")
	id := h.accept(1)
	natstest.Eventually(t, "it to be admitted", func() bool { return h.show(id).Status == "queued" })
	p.stop()
	p = h.serve() // a pause outlives the process
	require.Equal(t, "queued", h.show(id).Status)
	h.ok("resume")
	h.await(id, "done")
	p.stop()
}

func TestClientsWithAToken(t *testing.T) {
	t.Parallel()
	const token = "a-service-token-of-some-length"
	h := newHost(t, "", "")
	h.environ = []string{"BELAY_API_MODE=token", "BELAY_API_SERVICE_TOKEN=" + token}
	p := h.serve()
	id := h.send()
	h.client.token = token
	h.await(id, "done")
	h.ok("tasks", "show", id) // by the configuration's own token
	h.client.token = ""
	h.environ = nil
	got := h.try("tasks", "ls")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "unauthorized: set BELAY_TOKEN")
	h.environ = []string{"BELAY_TOKEN=" + token}
	var list struct{ Tasks []shown }
	require.NoError(t, json.Unmarshal([]byte(h.ok("tasks", "ls", "-o", "json")), &list))
	require.Len(t, list.Tasks, 1)
	require.Equal(t, http.StatusUnauthorized, h.get("/api/github/tasks"))
	require.False(t, strings.Contains(p.out.String(), token))
	p.stop()
}
