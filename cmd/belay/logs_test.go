package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func logHandler(part, body string) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, _ request) {
		w.Header().Set("Belay-Log", part)
		_, _ = w.Write([]byte(body))
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	s := newStub(t, logHandler("whole", "one\n\ttwo \x1b[2J\n"))
	got := try(t, nil, "tasks", "logs", "t1", "--server", s.URL)
	require.Equal(t, result{exitOK, "one\n\ttwo \\x1b[2J\n", ""}, got)
	got = try(t, nil, "tasks", "logs", "t1", "--server", s.URL, "--attempt", "2", "--raw")
	require.Equal(t, "one\n\ttwo \x1b[2J\n", got.out)
	require.Equal(t, "/api/github/tasks/t1/log", s.requests()[0].uri)
	require.Equal(t, "/api/github/tasks/t1/log?attempt=2", s.requests()[1].uri)
}

func TestLogsSayWhenOnlyTheEndIsThere(t *testing.T) {
	t.Parallel()
	s := newStub(t, logHandler("tail", "end\n"))
	got := try(t, nil, "tasks", "logs", "t1", "--server", s.URL)
	require.Equal(t, "end\n", got.out)
	require.Contains(t, got.err, "this is its end")
}

// TestLogsFollow goes through: queued, an attempt without a log yet, its log
// growing, a second attempt, the end.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	attempt := func(n, status string) string {
		return `{"ok":true,"task":{"id":"t1","status":"` + status + `","attempts":[` + n + `]}}`
	}
	first, both := `{"n":1,"worker":"w"}`, `{"n":1,"worker":"w"},{"n":2,"worker":"w"}`
	shows := []string{attempt("", "queued"), attempt(first, "running"), attempt(first, "running"), attempt(first, "running"), attempt(both, "running"), attempt(both, "done")}
	logs := []string{"", "a\n", "a\nb\n", "c\n", "c\nd\n"}
	s := newStub(t, func(w http.ResponseWriter, r request) {
		if !strings.Contains(r.uri, "/log") {
			says(200, shows[0])(w, r)
			shows = shows[1:]
			return
		}
		body := logs[0]
		logs = logs[1:]
		if body == "" {
			says(404, `{"error":"unknown log"}`)(w, r)
			return
		}
		logHandler("whole", body)(w, r)
	})
	got := try(t, nil, "tasks", "logs", "-f", "t1", "--server", s.URL)
	require.Equal(t, result{exitOK, "a\nb\nc\nd\n", "belay: the task is done\n"}, got)
	require.Empty(t, shows)
	require.Empty(t, logs)
}
