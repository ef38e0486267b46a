package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/doctor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
)

// says waits until the admin listener's /metrics has a line.
func (r *rig) says(line string) {
	r.t.Helper()
	natstest.Eventually(r.t, line, func() bool {
		return strings.Contains(r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body, line+"\n")
	})
}

// Q27, J11, X11: a running process looks at itself: what it finds is in a
// metric with a 0 for all else, a warning of /readyz on the admin listener only,
// and in the log once. Work goes on, and so does readiness.
func TestQ27SelfCheckFindsAnUnreadablePause(t *testing.T) {
	t.Parallel()
	r, env, _ := behind(t)
	r.opts.CheckEvery = 50 * time.Millisecond
	r.start()
	r.says(`belay_findings{check="replicas",severity="warning"} 5`)
	for _, check := range doctor.RunningChecks() {
		require.Contains(t, r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body, `belay_findings{check="`+check+`",severity="error"} 0`)
	}
	r.says(`belay_findings{check="pause",severity="warning"} 0`)
	b, err := kv.OpenBucket(t.Context(), env.JS)
	require.NoError(t, err)
	_, err = b.Put(t.Context(), kv.ControlPause, []byte("{"), 0)
	require.NoError(t, err)
	r.says(`belay_findings{check="pause",severity="warning"} 1`)
	id := r.accept(1)
	r.await(id, "queued")
	admin := r.do(http.MethodGet, r.app.AdminURL()+"/readyz", "")
	require.Equal(t, http.StatusOK, admin.status)
	require.Contains(t, admin.body, "control.pause: it cannot be read, so nothing runs")
	require.NotContains(t, r.get("/readyz").body, "warnings", "not for everybody")
	require.Equal(t, 1, strings.Count(r.log.String(), "finding: it cannot be read"), "said once")

	require.NoError(t, b.Purge(t.Context(), kv.ControlPause, 0))
	r.says(`belay_findings{check="pause",severity="warning"} 0`)
	require.Contains(t, r.log.String(), "pause control.pause")
	r.await(id, "done")
}

// J11: a durable that is gone, streams that drift.
func TestSelfCheckFindsDrift(t *testing.T) {
	t.Parallel()
	r, env, _ := behind(t)
	r.opts.CheckEvery = 50 * time.Millisecond
	r.start()
	s, err := env.JS.Stream(t.Context(), kv.StreamAudit)
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.MaxMsgs = 1_000_000
	_, err = env.JS.UpdateStream(t.Context(), c)
	require.NoError(t, err)
	r.says(`belay_findings{check="streams",severity="warning"} 1`)
}

// A store without an answer is an error of progress, and a finding about NATS.
func TestSelfCheckSeesAStoreThatIsGone(t *testing.T) {
	t.Parallel()
	r, env, _ := behind(t)
	r.opts.CheckEvery = 50 * time.Millisecond
	r.start()
	r.says(`belay_findings{check="progress",severity="error"} 0`)
	require.NoError(t, env.Server.Shutdown(t.Context()))
	natstest.Eventually(t, "the process to notice", func() bool {
		body := r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body
		return !strings.Contains(body, `belay_findings{check="progress",severity="error"} 0`) &&
			strings.Contains(body, `belay_findings{check="nats",severity="warning"} 1`)
	})
}
