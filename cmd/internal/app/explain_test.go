package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// story asks for the explanation of a delivery or task.
func (r *rig) story(id string) string {
	r.t.Helper()
	a := r.get("/api/github/explain/" + id)
	require.Equal(r.t, http.StatusOK, a.status, a.body)
	var x struct {
		Steps []struct{ Kind, Text, Why string }
	}
	require.NoError(r.t, json.Unmarshal([]byte(a.body), &x))
	var b strings.Builder
	for _, st := range x.Steps {
		b.WriteString(st.Kind + ": " + st.Text + " (" + st.Why + ")\n")
	}
	return b.String()
}

// The whole story of a task and its reply, from either id, over a restart.
func TestExplainOnRealStores(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	r := newRig(t, calling(rc), func(r *rig) { r.command(`exit 7`); r.cfg.Worker.MaxRetries = 1 }).start()
	id := r.post("issues", "the-delivery", issue(1)).text("task")
	r.await(id, "failed")
	rc.awaits(id + "-0 failed")
	require.Equal(t, http.StatusAccepted, r.act(id, "retry").status)
	rc.awaits(id+"-0 failed", id+"-1 failed")
	natstest.Eventually(t, "both replies to be delivered", func() bool { return len(r.outbox("?status=delivered&task="+id)) == 2 })
	r.restart()
	got := r.story("the-delivery")
	require.Equal(t, got, r.story(id))
	require.Contains(t, got, "audit: retry by local")
	rest := got
	for _, want := range []string{
		"delivery: issues.", "accepted through source default", "message 1 of WEBHOOKS", "routing: makes task " + id,
		"admission: admitted", "attempt: attempt 1 begins", "attempt: attempt 1 ends", "exit", "attempt: attempt 2 ends",
		"attempt: attempt 4 ends", "state: failed (2 of 2 attempts spent", "outbox: reply " + id + "-1 is delivered after 1 tries",
	} {
		at := strings.Index(rest, want)
		require.GreaterOrEqual(t, at, 0, "%q is not there, or not in its place:\n%s", want, got)
		rest = rest[at:]
	}
	r.post("brand_new", "another", `{}`)
	require.Contains(t, r.story("another"), "ignored: unsupported_event")
	require.Equal(t, http.StatusNotFound, r.get("/api/github/explain/nix").status)
}
