package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv/task"
)

// A form's raw bytes are what is signed and hashed; its payload is the event.
func TestG07G08FormBodies(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	form := []byte("payload=" + url.QueryEscape(string(encode(t, labeled(3)))))
	h := hook{event: "issues", guid: "one", body: form, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}
	got := d.post(h)
	require.Equal(t, 200, got.status)
	require.NotEmpty(t, got.json(t)["task"])
	stored := d.log.all()
	require.Len(t, stored, 1)
	require.Equal(t, "An issue", stored[0].Task.Kind.IssueTitle)
	sum := sha256.Sum256(form)
	require.Equal(t, hex.EncodeToString(sum[:]), stored[0].PayloadHash)
	h.guid, h.body = "two", []byte("payload=%7B%22a")
	require.Equal(t, 400, d.post(h).status)
	h.body = []byte("other=1")
	require.Equal(t, 400, d.post(h).status)
	require.Len(t, d.log.all(), 1)
}

// The bytes as they came are verified and hashed, whatever their spelling.
func TestG09BytesAreHashedAsTheyCame(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	body := []byte("{\"issue\" : {\"title\":\"😊 \\u001B[31m \\u2028 naïve\",\n \"number\":1,\"body\":null},\t\"label\":{\"name\":\"bug\"},\r\n" +
		" \"action\":\"labeled\",\"sender\":{\"login\":\"octocat\"},\"repository\":{\"full_name\":\"acme/api\",\"id\":99}}")
	got := d.post(hook{event: "issues", guid: "one", body: body})
	require.Equal(t, 200, got.status)
	stored := d.log.all()[0]
	sum := sha256.Sum256(body)
	require.Equal(t, hex.EncodeToString(sum[:]), stored.PayloadHash)
	require.Equal(t, "😊 \x1b[31m \u2028 naïve", stored.Task.Kind.IssueTitle)
	require.NotContains(t, d.logs.String(), "\x1b")
}

// Unknown events and actions are ordinary, and their names never a label.
func TestG20UnknownEventsAndActions(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	body := encode(t, object{"action": "foo", "repository": repository()})
	got := d.post(hook{event: "brand_new", guid: "one", body: body})
	require.Equal(t, 200, got.status)
	require.Equal(t, object{"ok": true, "ignored": "unsupported_event"}, got.json(t))
	got = d.post(hook{event: "issues", guid: "two", body: body})
	require.Equal(t, object{"ok": true, "ignored": "unsupported_action"}, got.json(t))
	require.Equal(t, "1", d.metric(`belay_webhook_deliveries_total{disposition="unsupported_event",event="other"}`))
	require.Equal(t, "1", d.metric(`belay_webhook_deliveries_total{disposition="unsupported_action",event="issues"}`))
	text := d.get(d.admin + "/metrics").text
	require.NotContains(t, text, "brand_new")
	require.NotContains(t, text, "foo")
}

// A delivery without installation is answered 200, and a warning names the
// repository where an App should have been asked.
func TestG13NoInstallation(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.AppConfigured = true
	d := newDoor(t, func(o *Options) { o.Config = func() *github.Config { return cfg } })
	job := d.post(hook{event: "workflow_job", guid: "one", body: encode(t, object{"action": "queued", "repository": repository()})})
	require.Equal(t, object{"ok": true, "ignored": "unsupported_event"}, job.json(t))
	require.NotContains(t, d.logs.String(), "WARN")
	body := labeled(1)
	delete(body, "installation")
	got := d.post(hook{event: "issues", guid: "two", body: encode(t, body)})
	require.Equal(t, object{"ok": true, "ignored": string(task.NoInstallation)}, got.json(t))
	require.Contains(t, d.logs.String(), `"level":"WARN"`)
	require.Contains(t, d.logs.String(), `"repo":"acme/api"`)
	require.Contains(t, d.logs.String(), `"github_delivery_id":"two"`)
}
