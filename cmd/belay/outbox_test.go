package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

const oneReply = `{"id":"t1-0","channel":"callback:ci","to":"https://ci.example/hook","taskId":"t1","status":"delivering","unknown":true,"attempts":1,` +
	`"lastError":"no answer\u001b[31m","createdAt":"2026-03-04T05:00:00.000000Z","updatedAt":"2026-03-04T05:04:07.000000Z"}`

func TestOutboxList(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"outbox":[`+oneReply+`,`+strings.NewReplacer("t1-0", "t2-0", "true", "false").Replace(oneReply)+`]}`))
	got := try(t, nil, "outbox", "ls", "--server", s.URL, "--status", "delivering", "--task", "t1", "--channel", "callback:ci", "--repo", "acme/api")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, "ID    STATUS      CHANNEL      TO                       TRIES  UPDATED  LAST ERROR\n"+
		"t1-0  unknown     callback:ci  https://ci.example/hook  1      2m ago   no answer\\x1b[31m\n"+
		"t2-0  delivering  callback:ci  https://ci.example/hook  1      2m ago   no answer\\x1b[31m\n", got.out)
	require.Equal(t, "/api/github/outbox?channel=callback%3Aci&limit=50&repo=acme%2Fapi&status=delivering&task=t1", s.requests()[0].uri)
	require.Equal(t, exitOK, try(t, nil, "outbox", "ls", "--server", s.URL, "--unknown").code)
	require.Equal(t, "/api/github/outbox?limit=50&unknown=true", s.requests()[1].uri)
	var list struct{ Outbox []json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(try(t, nil, "outbox", "ls", "--server", s.URL, "-o", "json").out), &list))
	require.Len(t, list.Outbox, 2)
	empty := newStub(t, says(200, `{"ok":true,"outbox":[]}`))
	require.Equal(t, result{exitOK, "", "no outbox records\n"}, try(t, nil, "outbox", "ls", "--server", empty.URL))
}

func TestOutboxResolve(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"record":`+strings.Replace(oneReply, "delivering", "failed", 1)+`,"resentAs":{"id":"new","status":"pending"}}`))
	got := try(t, nil, "outbox", "resolve", "t1-0", "--resend", "--reason", "they lost it", "--server", s.URL)
	require.Equal(t, result{exitOK, "t1-0: failed, sent again as new\n", ""}, got)
	r := s.requests()[0]
	require.Equal(t, "POST /api/github/outbox/t1-0/resolve", r.method+" "+r.uri)
	require.JSONEq(t, `{"as":"resend","reason":"they lost it"}`, r.body)
	for flag, as := range map[string]string{"--delivered": "delivered", "--failed": "failed"} {
		require.Equal(t, exitOK, try(t, nil, "outbox", "resolve", "t1-0", flag, "--reason", "x", "--server", s.URL).code)
		all := s.requests()
		require.JSONEq(t, `{"as":"`+as+`","reason":"x"}`, all[len(all)-1].body)
	}
	require.Contains(t, try(t, nil, "outbox", "resolve", "t1-0", "--failed", "--reason", "x", "--server", s.URL, "-o", "json").out, `"resentAs"`)
}

func TestOutboxResolveSaysWhatToDo(t *testing.T) {
	t.Parallel()
	before := newStub(t, says(200, `{}`))
	for args, want := range map[string]string{
		"t1-0 --reason x":                      "write one of --delivered, --failed and --resend",
		"t1-0 --reason x --failed --delivered": "write one of --delivered, --failed and --resend",
		"t1-0 --failed":                        "--reason is missing: say how you know",
		"--failed --reason x":                  "needs the id of one outbox record",
	} {
		got := try(t, nil, append([]string{"outbox", "resolve", "--server", before.URL}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, got.code, args)
		require.Contains(t, got.err, want, args)
	}
	require.Empty(t, before.requests(), "nothing was asked of the server")
	for status, want := range map[int]string{
		http.StatusConflict: "already failed: only what is unknown is resolved; `belay outbox ls --unknown` lists it",
		http.StatusNotFound: "already failed: `belay outbox ls` lists those there are",
	} {
		s := newStub(t, says(status, `{"error":"already failed"}`))
		got := try(t, nil, "outbox", "resolve", "t1-0", "--failed", "--reason", "x", "--server", s.URL)
		require.Equal(t, exitError, got.code)
		require.Contains(t, got.err, want)
	}
}

func TestOB39TasksShowTheirOutbox(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, strings.Replace(oneTask, `"outbox":[]`, `"outbox":[`+oneReply+`]`, 1)))
	got := try(t, nil, "tasks", "show", "t1", "--server", s.URL)
	require.Contains(t, got.out, "\noutbox t1-0: unknown, callback:ci to https://ci.example/hook, 1 try, 2026-03-04T05:04:07.000000Z\n"+
		"  no answer\\x1b[31m\n  nobody can say whether it arrived: ask the recipient, then `belay outbox resolve t1-0 --help`\n")
	require.NotContains(t, got.out, "\x1b")
}

// OB-26: the outbox from the command line, with the recipient's answer, against a running belay: a callback that
// refuses for good, and one that takes it.
func TestOB26OutboxOfADay(t *testing.T) {
	t.Parallel()
	var posts atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if posts.Add(1) == 1 {
			http.Error(w, "no such hook", http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	h := newHost(t, "", "")
	h.callback("ci", srv.URL)
	require.Contains(t, h.ok("doctor"), "outcomes are sent as plain http")
	p := h.serve()
	refused := h.send("--set", "issue.number=1")
	h.awaitOutbox(refused, "failed")
	taken := h.send("--set", "issue.number=2")
	h.awaitOutbox(taken, "delivered")
	require.Contains(t, h.ok("outbox", "ls"), "HTTP 404 Not Found: no such hook")
	require.NotContains(t, h.ok("outbox", "ls", "--status", "delivered"), refused)
	require.Contains(t, h.ok("tasks", "show", taken), "outbox "+taken+"-0: delivered, callback:ci to "+srv.URL)
	got := h.try("outbox", "resolve", refused+"-0", "--resend", "--reason", "mended")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "already failed: only what is unknown is resolved")
	p.stop()
}

// callback makes the host's familiar tell a callback.
func (h *host) callback(name, url string) {
	h.t.Helper()
	h.append("belay.toml", fmt.Sprintf("callback = %q\n[[callbacks]]\nname = %q\nurl = %q\nallow_private = true\n"+
		"secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw2J9Pm0aGx1c=\"]\n", name, name, url))
}

func (h *host) awaitOutbox(task, status string) {
	h.t.Helper()
	natstest.Eventually(h.t, "the outbox of "+task+" to be "+status, func() bool {
		var list struct{ Outbox []outboxItem }
		out := h.ok("outbox", "ls", "--task", task, "-o", "json")
		return json.Unmarshal([]byte(out), &list) == nil && len(list.Outbox) == 1 && list.Outbox[0].Status == status
	})
}
