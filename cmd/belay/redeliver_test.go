package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// hookLog is a stand-in of GitHub with deliveries of all kinds, and the
// configuration of its App.
func hookLog(t *testing.T) (gh *githubtest.Server, config string) {
	t.Helper()
	gh, err := githubtest.New(githubtest.Options{Now: func() time.Time { return clock }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gh.Close()) })
	add := func(guid, event, action string, status int, age time.Duration) {
		gh.AddDelivery(githubtest.Delivery{
			GUID: guid, Event: event, Action: action, InstallationID: 7, StatusCode: status, DeliveredAt: clock.Add(-age),
		})
	}
	add("old", "issues", "labeled", 502, 30*time.Hour)
	add("recovered", "issues", "labeled", 502, 3*time.Hour)
	add("recovered", "issues", "labeled", 200, 2*time.Hour)
	add("failed", "issue_comment", "created", 503, 2*time.Hour)
	add("failed", "issue_comment", "created", 502, time.Hour)
	add("unused", "workflow_job", "queued", 502, time.Hour)
	add("now", "issues", "assigned", 502, 10*time.Second)
	key := filepath.Join(t.TempDir(), "app.pem")
	require.NoError(t, os.WriteFile(key, gh.PrivateKey(), 0o600))
	return gh, configFile(t, fmt.Sprintf("[github]\napp_id = %d\nprivate_key_file = %q\napi_url = %q\n", gh.AppID(), key, gh.URL())+someFamiliar)
}

func TestDT55RedeliverByHand(t *testing.T) {
	t.Parallel()
	gh, cfg := hookLog(t)
	const head = "ID      EVENT                  FIRST TRY  TRIES  LAST ANSWER                     RESULT\n"
	got := try(t, nil, "redeliver", "--dry-run", "--config", cfg)
	require.Equal(t, result{exitOK, head +
		"failed  issue_comment.created  2h ago     2      502 Invalid HTTP Response: 502  would be asked for\n" +
		"now     issues.assigned        10s ago    1      502 Invalid HTTP Response: 502  under way\n", ""}, got)
	require.Zero(t, gh.Count(githubtest.OpRedeliver))

	got = try(t, nil, "redeliver", "--since", "72h", "--config", cfg, "-o", "json")
	require.Equal(t, exitOK, got.code, got.err)
	var out wireRedeliveries
	require.NoError(t, json.Unmarshal([]byte(got.out), &out))
	require.Equal(t, 1, out.Arrived)
	require.Len(t, out.Deliveries, 3)
	require.Equal(t, []string{resultAsked, resultAsked, resultUnderWay}, []string{out.Deliveries[0].Result, out.Deliveries[1].Result, out.Deliveries[2].Result})
	require.EqualValues(t, "old", out.Deliveries[0].ID)
	require.Equal(t, 2, gh.Count(githubtest.OpRedeliver))
	require.Zero(t, gh.Requests(githubtest.OpDelivery), "no payload is read")
}

// The App of a further source is asked for what that source routes.
func TestRedeliverOfAFurtherSource(t *testing.T) {
	t.Parallel()
	_, cfg := hookLog(t)
	text, err := os.ReadFile(cfg)
	require.NoError(t, err)
	other := configFile(t, someFamiliar+"[[sources]]\nname = \"acme\"\nwebhook_secrets = [\"a-long-enough-secret-of-acme\"]\n"+
		strings.TrimPrefix(strings.ReplaceAll(string(text), someFamiliar, ""), "[github]\n"))
	got := try(t, nil, "redeliver", "--dry-run", "--config", other, "--source", "acme")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "failed  issue_comment.created")
	require.Contains(t, try(t, nil, "redeliver", "--config", other).err, "github.app_id is not set")
	bare := configFile(t, someFamiliar+"[[sources]]\nname = \"acme\"\nwebhook_secrets = [\"a-long-enough-secret-of-acme\"]\n")
	require.Contains(t, try(t, nil, "redeliver", "--config", bare, "--source", "acme").err, "sources[0].app_id is not set")
}

func TestRedeliverSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	gh, cfg := hookLog(t)
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--config", configFile(t, someFamiliar)}, exitUsage, "github.app_id is not set"},
		{[]string{"--config", cfg, "--since", "73h"}, exitUsage, "--since 73h0m0s: write a duration up to 72h"},
		{[]string{"--config", cfg, "--source", "other"}, exitUsage, "--source other: there is no such source"},
		{[]string{"--config", cfg, "more"}, exitUsage, "unknown command"},
	} {
		got := try(t, nil, append([]string{"redeliver"}, tt.args...)...)
		require.Equal(t, tt.code, got.code, got.err)
		require.Contains(t, got.err, tt.want)
		require.Empty(t, got.out)
	}
	gh.Fail(githubtest.Fault{Op: githubtest.OpRedeliver, Kind: githubtest.ErrorBefore, Status: http.StatusUnprocessableEntity})
	got := try(t, nil, "redeliver", "--config", cfg)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.out, "failed: ask for redelivery: refused (422)")
	gh.Fail(githubtest.Fault{Op: githubtest.OpDeliveries, Kind: githubtest.Unauthorized})
	got = try(t, nil, "redeliver", "--config", cfg)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "check github.app_id and the App's key")
	require.Empty(t, got.out)
}

func TestDeliveriesReplay(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"task":"t1","delivery":{"id":"replay:g1"}}`))
	require.Equal(t, result{exitOK, "g1: replayed as task t1\n", ""}, try(t, nil, "deliveries", "replay", "g1", "--server", s.URL))
	r := s.requests()[0]
	require.Equal(t, "POST /api/github/deliveries/g1/replay", r.method+" "+r.uri)
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	s = newStub(t, says(200, `{"ok":true,"task":"t1","duplicate":true}`))
	require.Equal(t, result{exitOK, "g1: was replayed before, as task t1\n", ""}, try(t, nil, "deliveries", "replay", "g1", "--server", s.URL))
	s = newStub(t, says(410, `{"error":"GitHub has this one no more: cause the event again"}`))
	got := try(t, nil, "deliveries", "replay", "g1", "--server", s.URL)
	require.Equal(t, result{exitError, "", "belay: GitHub has this one no more: cause the event again\n"}, got)
	s = newStub(t, says(404, `{"error":"unknown delivery"}`))
	require.Contains(t, try(t, nil, "deliveries", "replay", "g1", "--server", s.URL).err, "`belay redeliver` asks GitHub for what never arrived")
}
