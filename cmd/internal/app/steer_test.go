package app

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// ends is a script that runs until it is told to end, and says so in a file.
const ends = `trap 'touch "$3/ended"; exit 0' TERM; touch "$3/begun"; while :; do sleep 0.02; done`

func TestCancelOfARunningTaskEndsItsRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.command(`(` + ends + `); ` + succeed) }).start()
	id := r.accept(1)
	natstest.Eventually(t, "the run to begin", func() bool { return exists(r, "begun") })
	began := time.Now()
	a := r.act(id, "cancel")
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, "cancelled", a.field("task").(map[string]any)["status"])
	natstest.Eventually(t, "the run to end", func() bool { return exists(r, "ended") })
	require.Less(t, time.Since(began), time.Second)

	natstest.Eventually(t, "the run to be over", func() bool { return r.app.worker.Load().Progress().Running == 0 })
	got := r.task(id)
	require.Equal(t, "cancelled", got.Status, "its result is refused")
	require.Equal(t, "cancelled", got.Attempts[0].Outcome)
	require.Empty(t, got.Summary)
	require.Equal(t, http.StatusConflict, r.act(id, "cancel").status)
	require.Equal(t, "already cancelled", r.act(id, "cancel").text("error"))
	r.restart()
	require.Equal(t, "cancelled", r.task(id).Status)
}

func exists(r *rig, name string) bool {
	found, err := filepath.Glob(filepath.Join(r.dir, name))
	require.NoError(r.t, err)
	return len(found) > 0
}

func TestCancelOfAQueuedTask(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.command(gated); r.cfg.Worker.Concurrency = 1 }).start()
	running := r.accept(1)
	r.await(running, "running")
	queued := r.accept(2)
	r.await(queued, "queued")
	require.Equal(t, http.StatusOK, r.act(queued, "cancel").status)
	require.Equal(t, "cancelled", r.task(queued).Status)
	refused := r.act(running, "retry")
	require.Equal(t, http.StatusConflict, refused.status)
	require.Equal(t, "already running", refused.text("error"))
	r.release()
	r.await(running, "done")
	require.Empty(t, r.task(queued).Attempts, "it never ran")

	require.Equal(t, http.StatusAccepted, r.act(queued, "retry").status)
	require.Len(t, r.await(queued, "done").Attempts, 1)
}

func TestRetryOfEndedTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.command(`if [ -e "$3/go" ]; then ` + succeed + `; else exit 7; fi`)
		r.cfg.Worker.MaxRetries = 0
	}).start()
	id := r.accept(1)
	require.Len(t, r.await(id, "failed").Attempts, 1)
	require.Equal(t, "already failed", r.act(id, "cancel").text("error"))
	require.Equal(t, http.StatusAccepted, r.act(id, "retry").status)
	natstest.Eventually(t, "the second try to fail", func() bool { got := r.task(id); return got.Status == "failed" && len(got.Attempts) == 2 })
	r.release()
	require.Equal(t, http.StatusAccepted, r.act(id, "retry").status)
	require.Len(t, r.await(id, "done").Attempts, 3, "attempts are kept")
	require.Equal(t, http.StatusAccepted, r.act(id, "retry").status, "also of a completed one")
	natstest.Eventually(t, "the fourth run", func() bool { got := r.task(id); return got.Status == "done" && len(got.Attempts) == 4 })
}

func TestCommandsOnWhatIsNotThere(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	for _, id := range []string{"11111111-2222-5333-8444-555555555555", "x", "a.b>*"} {
		for _, verb := range []string{"cancel", "retry"} {
			require.Equal(t, http.StatusNotFound, r.act(id, verb).status, "%s %s", verb, id)
		}
	}
}
