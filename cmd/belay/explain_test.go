package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const explained = `{"ok":true,"id":"d1","deliveries":[],"tasks":[],"steps":[
{"at":"2026-03-04T05:00:00.000000Z","kind":"delivery","text":"issues.labeled of acme/api\u001b[31m"},
{"at":"2026-03-04T05:00:01.000000Z","kind":"state","text":"failed","why":"3 of 3\nspent","next":"retry it"},
{"at":"2026-03-04T05:00:01.000000Z","kind":"github","text":"check run","url":"https://example.test/c"}]}`

func TestExplainPrintsATimeline(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, explained))
	got := try(t, nil, "explain", "d/1", "--server", s.URL)
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, "2026-03-04T05:00:00.000000Z  delivery   issues.labeled of acme/api\\x1b[31m\n"+
		"2026-03-04T05:00:01.000000Z  state      failed\n"+
		"                             why:       3 of 3\\nspent\n"+
		"                             next:      retry it\n"+
		"2026-03-04T05:00:01.000000Z  github     check run: https://example.test/c\n", got.out)
	require.Equal(t, "/api/github/explain/d%2F1", s.requests()[0].uri)
	got = try(t, nil, "explain", "d1", "--server", s.URL, "-o", "json")
	require.JSONEq(t, explained, got.out)
}

func TestExplainOfNothing(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(404, `{"ok":false,"error":"unknown delivery"}`))
	got := try(t, nil, "explain", "nix", "--server", s.URL)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "unknown delivery: `belay deliveries ls` and `belay tasks ls`")
	require.Equal(t, exitUsage, try(t, nil, "explain").code)
}
