package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDT100UsageCommand(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"usage":[{"installationId":4242,"repo":"acme/api\u001b[31m","familiarId":"cody","tasks":12,"completed":9,"failed":2,"runtimeSecs":3723.25}]}`))
	got := try(t, nil, "usage", "--server", s.URL, "--since", "2026-05-01", "--until", "2026-05-31", "--repo", "acme/api", "--installation", "4242")
	require.Equal(t, result{exitOK, "INSTALLATION  REPO              FAMILIAR  TASKS  COMPLETED  FAILED  RUNTIME\n" +
		"4242          acme/api\\x1b[31m  cody      12     9          2       1h2m3.3s\n", ""}, got)
	require.Equal(t, "/api/github/usage?installation=4242&limit=50&repo=acme%2Fapi&since=2026-05-01&until=2026-05-31", s.requests()[0].uri)
	require.Contains(t, try(t, nil, "usage", "--days", "7", "--server", s.URL, "-o", "json").out, `"runtimeSecs": 3723.25`)
	require.Equal(t, "/api/github/usage?days=7&limit=50", s.requests()[1].uri)
	require.Equal(t, exitUsage, try(t, nil, "usage", "--days", "7", "--since", "2026-05-01", "--server", s.URL).code)
	empty := newStub(t, says(200, `{"ok":true,"usage":[]}`))
	require.Equal(t, result{exitOK, "", "no tasks\n"}, try(t, nil, "usage", "--server", empty.URL))
	refused := newStub(t, says(400, `{"error":"parameter since must be a day in UTC, such as 2026-05-31"}`))
	require.Contains(t, try(t, nil, "usage", "--since", "x", "--server", refused.URL).err, "parameter since must be a day")
}

func TestDT100AuditCommand(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"nextCursor":"c2","audit":[`+
		`{"at":"2026-03-04T05:04:07.000000Z","kind":"retry","caller":"tenant:acme","repo":"acme/api","taskId":"t1","detail":"done\u001b[31m"},`+
		`{"at":"2026-03-04T05:04:00.000000Z","kind":"read","caller":"service","detail":"tasks 3"}]}`))
	got := try(t, nil, "audit", "ls", "--server", s.URL, "--kind", "retry", "--caller", "tenant:acme", "--task", "t1", "--limit", "2")
	require.Equal(t, "AT                           KIND   CALLER       REPO      TASK  DETAIL\n"+
		"2026-03-04T05:04:07.000000Z  retry  tenant:acme  acme/api  t1    done\\x1b[31m\n"+
		"2026-03-04T05:04:00.000000Z  read   service                      tasks 3\n", got.out)
	require.Contains(t, got.err, "--cursor c2 goes on")
	require.Equal(t, "/api/github/audit?caller=tenant%3Aacme&kind=retry&limit=2&task=t1", s.requests()[0].uri)
}

func TestDT100RoutingCommand(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"routing":[`+
		`{"installationId":7,"account":"ac\u001bme","familiars":["cody","rev"],"triggers":["labels"],"repos":{"allow":null,"deny":["acme/x"]},"listed":true},`+
		`{"installationId":8,"account":"","familiars":[],"triggers":[],"repos":{"allow":[],"deny":[]},"listed":false}]}`))
	got := try(t, nil, "routing", "--server", s.URL)
	require.Equal(t, result{exitOK, "INSTALLATION  ACCOUNT   FAMILIARS  TRIGGERS  REPOS           LISTED\n" +
		"7             ac\\x1bme  cody,rev   labels    all but acme/x  yes\n" +
		"8                       none       none      none            no\n", ""}, got)
	require.Equal(t, "/api/github/routing?limit=50", s.requests()[0].uri)
	require.Contains(t, try(t, nil, "routing", "--server", s.URL, "-o", "json").out, `"allow": null`)
}
