package app

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

func TestPauseAcceptsAndStartsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	control := func(verb, body string) answer {
		return r.do(http.MethodPost, r.app.URL()+"/api/control/"+verb, body, "Content-Type", "application/json")
	}
	a := control("pause", "{}")
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, true, a.field("paused"))
	require.Equal(t, http.StatusOK, control("pause", "{}").status, "twice is harmless")
	id := r.accept(1)
	r.await(id, "queued")
	r.restart()
	require.Equal(t, "queued", r.task(id).Status, "the switch survives a restart")

	require.Equal(t, http.StatusOK, control("pause", `{"installation":7}`).status)
	require.Equal(t, http.StatusOK, control("resume", "{}").status)
	require.Equal(t, "queued", r.task(id).Status, "its installation is still paused")
	require.Contains(t, r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body, "belay_pauses 1")
	require.Equal(t, http.StatusOK, control("resume", `{"installation":7}`).status)
	r.await(id, "done")

	require.Equal(t, http.StatusBadRequest, control("pause", `{"installation":"x"}`).status)
	require.Equal(t, http.StatusUnsupportedMediaType, r.do(http.MethodPost, r.app.URL()+"/api/control/pause", "{}").status)
}

func TestDT101EndedRetentionIsGone(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	r := newRig(t, func(r *rig) {
		r.opts.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		r.opts.RetainEvery = 20 * time.Millisecond
	}).start()
	id, body := "7b1e5a52-0000-4000-8000-000000000001", issue(1)
	taskID := r.post("issues", id, body).text("task")
	r.await(taskID, "done")
	ahead.Store(int64(31 * 24 * time.Hour))
	natstest.Eventually(t, "the task to be gone", func() bool { return r.get("/api/github/tasks/"+taskID).status == http.StatusGone })
	natstest.Eventually(t, "the list to be without it", func() bool { return len(r.list(10)) == 0 })
	require.Equal(t, http.StatusGone, r.act(taskID, "retry").status)
	require.Equal(t, http.StatusGone, r.get("/api/github/tasks/"+taskID+"/log").status)

	again := r.post("issues", id, body)
	require.Equal(t, true, again.field("duplicate"))
	require.Equal(t, taskID, again.text("task"))
	r.restart()
	require.Equal(t, http.StatusGone, r.get("/api/github/tasks/"+taskID).status, "a tombstone outlives the process")
}
