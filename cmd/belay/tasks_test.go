package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// item is a task of a list as the API writes it.
func item(id, title string) string {
	return fmt.Sprintf(`{"id":%q,"repo":"acme/api","issueNumber":7,"issueTitle":%s,"status":"done","familiarId":"cody","familiarName":"Cody","sessionId":%q,"updatedAt":"2026-03-04T05:04:07.000000Z"}`,
		id, quoted(title), id)
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

const oneTask = `{"ok":true,"task":{"id":"t1","repo":"acme/api","issueNumber":7,"issueTitle":"Fix it","status":"failed","familiarId":"cody",
"familiarName":"Cody","sessionId":"t1","updatedAt":"2026-03-04T05:04:07.000000Z","state":"failed","resultStatus":"failure","reason":"3 of 3 attempts spent",
"summary":"line one\nline two","kind":{"kind":"fix_issue","issue_number":7},"source":"default","installationId":1,"createdAt":"2026-03-04T05:00:00.000000Z",
"delivery":{"id":"d1","seq":9},"attempts":[
{"n":1,"worker":"w1","startedAt":"2026-03-04T05:01:00.000000Z","endedAt":"2026-03-04T05:02:00.000000Z","outcome":"timeout","detail":"took longer than 10m","tail":"a\n\u001b[31mb\r\n"},
{"n":2,"worker":"w2","startedAt":"2026-03-04T05:03:00.000000Z"}],"outbox":[]}}`

func TestTasksList(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"tasks":[`+item("t1", "Fix it")+`,`+item("t2", "Review PR #7: x")+`]}`))
	got := try(t, nil, "tasks", "ls", "--server", s.URL, "--status", "done", "--repo", "acme/api", "--installation", "5")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, "ID  STATUS  REPO      TITLE            FAMILIAR  UPDATED\n"+
		"t1  done    acme/api  #7 Fix it        cody      2m ago\n"+
		"t2  done    acme/api  Review PR #7: x  cody      2m ago\n", got.out)
	require.Empty(t, got.err)
	require.Equal(t, "/api/github/tasks?installation=5&limit=50&repo=acme%2Fapi&status=done", s.requests()[0].uri)
	require.Empty(t, s.requests()[0].header.Get("Authorization"))
}

func TestTasksListEmpty(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"tasks":[]}`))
	got := try(t, nil, "tasks", "ls", "--server", s.URL)
	require.Equal(t, result{exitOK, "", "no tasks\n"}, got)
	got = try(t, nil, "tasks", "ls", "--server", s.URL, "-o", "json")
	require.JSONEq(t, `{"ok":true,"tasks":[]}`, got.out)
}

// pager answers 2,500 tasks, page by page.
func pager(w http.ResponseWriter, r request) {
	u, _ := url.ParseRequestURI(r.uri)
	var limit, from int
	_, _ = fmt.Sscan(u.Query().Get("limit"), &limit)
	_, _ = fmt.Sscan(u.Query().Get("cursor"), &from)
	to := min(from+limit, 2500)
	var items []string
	for i := from; i < to; i++ {
		items = append(items, item(fmt.Sprintf("t%d", i), "x"))
	}
	next := ""
	if to < 2500 {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, to)
	}
	_, _ = fmt.Fprintf(w, `{"ok":true,"tasks":[%s]%s}`, strings.Join(items, ","), next)
}

func TestListsPage(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		args   []string
		first  string
		last   string
		count  int
		calls  int
		cursor string
	}{
		"default": {nil, "t0", "t49", 50, 1, "50"},
		"limit":   {[]string{"--limit", "1500"}, "t0", "t1499", 1500, 2, "1500"},
		"all":     {[]string{"--all"}, "t0", "t2499", 2500, 3, ""},
		"cursor":  {[]string{"--cursor", "2490"}, "t2490", "t2499", 10, 1, ""},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, pager)
			got := try(t, nil, append([]string{"tasks", "ls", "--server", s.URL, "-o", "json"}, row.args...)...)
			require.Equal(t, exitOK, got.code, got.err)
			var body struct {
				Tasks      []taskItem `json:"tasks"`
				NextCursor string     `json:"nextCursor"`
			}
			require.NoError(t, json.Unmarshal([]byte(got.out), &body))
			require.Len(t, body.Tasks, row.count)
			require.Equal(t, row.first, body.Tasks[0].ID)
			require.Equal(t, row.last, body.Tasks[row.count-1].ID)
			require.Equal(t, row.cursor, body.NextCursor)
			require.Len(t, s.requests(), row.calls)
		})
	}
	s := newStub(t, pager)
	require.Contains(t, try(t, nil, "tasks", "ls", "--server", s.URL).err, "--cursor 50 goes on")
}

func TestListsDoNotTurnInCircles(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"tasks":[`+item("t1", "x")+`],"nextCursor":"same"}`))
	got := try(t, nil, "tasks", "ls", "--server", s.URL, "--all")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "the cursor does not move")
}

// TestG09TitlesAreShownEscaped holds for every output, JSON included.
func TestG09TitlesAreShownEscaped(t *testing.T) {
	t.Parallel()
	nasty := "naïve 😊 👩\u200d💻 \x1b[31mred\x1b]0;title\x07 \u202egnp.exe \u2028 \u009b2J \r\n\ttab \x7f"
	s := newStub(t, func(w http.ResponseWriter, r request) {
		if strings.Contains(r.uri, "tasks/") {
			says(200, strings.Replace(oneTask, `"Fix it"`, quoted(nasty), 1))(w, r)
			return
		}
		says(200, `{"ok":true,"tasks":[`+item("t1", nasty)+`]}`)(w, r)
	})
	for _, args := range []string{"tasks ls", "tasks show t1", "tasks ls -o json", "tasks show t1 -o json"} {
		got := try(t, nil, append(strings.Fields(args), "--server", s.URL)...)
		require.Equal(t, exitOK, got.code, got.err)
		for _, r := range got.out {
			require.True(t, r == '\n' || visible(r), "%s prints %U", args, r)
		}
		require.Contains(t, got.out, "naïve 😊")
	}
	got := try(t, nil, "tasks", "show", "t1", "--server", s.URL)
	require.Contains(t, got.out, `\x1b[31mred`)
	require.Contains(t, got.out, `\u202egnp.exe \u2028 \u009b2J \r\n\ttab \x7f`)
	got = try(t, nil, "tasks", "show", "t1", "--server", s.URL, "-o", "json")
	var task taskDetail
	require.NoError(t, json.Unmarshal([]byte(got.out), &task))
	require.Equal(t, nasty, task.IssueTitle, "JSON says the same as before")
}

func TestTasksShow(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, oneTask))
	got := try(t, nil, "tasks", "show", "t1", "--server", s.URL)
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, `task      t1
title     #7 Fix it
status    failed
result    failure
reason    3 of 3 attempts spent
kind      fix_issue
repo      acme/api
familiar  Cody
delivery  d1
created   2026-03-04T05:00:00.000000Z
updated   2026-03-04T05:04:07.000000Z
summary   line one\nline two

attempt 1: timeout on w1, 2026-03-04T05:01:00.000000Z to 2026-03-04T05:02:00.000000Z
  took longer than 10m
  a
  \x1b[31mb\r

attempt 2: running on w2, 2026-03-04T05:03:00.000000Z
`, got.out)
	require.Equal(t, "/api/github/tasks/t1", s.requests()[0].uri)
}

func TestIDsAreEscaped(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(404, `{"error":"unknown task"}`))
	got := try(t, nil, "tasks", "show", "../x?y", "--server", s.URL)
	require.Equal(t, exitError, got.code)
	require.Equal(t, "/api/github/tasks/..%2Fx%3Fy", s.requests()[0].uri)
}

func TestRetryAndCancel(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(202, `{"ok":true,"task":`+strings.Replace(item("t1", "x"), "done", "queued", 1)+`}`))
	got := try(t, nil, "tasks", "retry", "t1", "--server", s.URL)
	require.Equal(t, result{exitOK, "t1: queued\n", ""}, got)
	got = try(t, nil, "tasks", "cancel", "t1", "--server", s.URL, "--reason", "not now")
	require.Equal(t, exitOK, got.code, got.err)
	r := s.requests()
	require.Equal(t, "POST /api/github/tasks/t1/retry", r[0].method+" "+r[0].uri)
	require.Equal(t, "application/json", r[0].header.Get("Content-Type"))
	require.Equal(t, "POST /api/github/tasks/t1/cancel", r[1].method+" "+r[1].uri)
	require.JSONEq(t, `{"reason":"not now"}`, r[1].body)
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	one := `{"id":"d1","source":"default","event":"issues","action":"labeled","installation":1,"repo":"acme/api","routing":"task:t1","payloadHash":"abc","receivedAt":"2026-03-04T03:06:07.000000Z","seq":9}`
	s := newStub(t, func(w http.ResponseWriter, r request) {
		if strings.Contains(r.uri, "deliveries/") {
			says(200, `{"ok":true,"delivery":`+one+`}`)(w, r)
			return
		}
		says(200, `{"ok":true,"deliveries":[`+one+`,{"id":"d2","source":"default","event":"ping","routing":"ignored:ping","payloadHash":"d","receivedAt":"2026-03-01T03:06:07.000000Z","seq":8}]}`)(w, r)
	})
	got := try(t, nil, "deliveries", "ls", "--server", s.URL)
	require.Equal(t, "ID  EVENT           REPO      ROUTING       RECEIVED\n"+
		"d1  issues.labeled  acme/api  task:t1       2h ago\n"+
		"d2  ping                      ignored:ping  3d ago\n", got.out)
	got = try(t, nil, "deliveries", "show", "d1", "--server", s.URL)
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "routing         task:t1\n")
	require.Contains(t, got.out, "body's SHA-256  abc\n")
	require.JSONEq(t, one, try(t, nil, "deliveries", "show", "d1", "--server", s.URL, "-o", "json").out)
}
