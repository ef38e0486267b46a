package app

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// DT-6, DT-7, DT-10, DT-78, Q09: what waits is kept, what runs is released and
// runs again, and neither costs a try.
func TestDT6DT7RestartKeepsQueuedAndRunsReleasedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.command(gated)
		r.cfg.Worker.Concurrency, r.cfg.Worker.MaxRetries = 1, 0
		r.cfg.Worker.DrainTimeout = time.Millisecond
	}).start()
	running, queued := r.accept(1), r.accept(2)
	r.await(running, "running")
	require.Equal(t, "queued", r.task(queued).Status)

	r.restart()
	got := r.await(running, "running")
	require.Equal(t, "released", got.Attempts[0].Outcome)
	require.Equal(t, "queued", r.task(queued).Status, "DT-6")
	r.release()
	r.awaitAll(2, "done")
	require.Len(t, r.task(running).Attempts, 2)
	require.Len(t, r.task(queued).Attempts, 1)
}

// DT-89, DT-10, DT-107.
func TestDT89ListShowsTerminalTasksAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	done := r.await(r.accept(1), "done")
	ignored := r.post("ping", "p1", `{"zen":"z"}`)
	require.Equal(t, true, ignored.field("pong"))
	before, deliveries := r.get("/api/github/tasks"), r.deliveries()

	r.restart()
	require.Equal(t, before.body, r.get("/api/github/tasks").body, "labels and states are identical")
	require.Equal(t, deliveries, r.deliveries())
	require.Equal(t, done, r.task(done.ID), "it did not run again")

	require.Equal(t, true, r.post("ping", "p1", `{"zen":"z"}`).field("duplicate"), "G04: dedupe survives")
}

func TestPagesGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	want := map[string]bool{}
	for n := range 9 {
		want[r.accept(n+1)] = true
	}
	r.awaitAll(9, "done")
	a := r.get("/api/github/tasks?limit=4")
	cursor := a.text("nextCursor")
	require.NotEmpty(t, cursor)
	first := r.list(4)[:4]

	r.restart()
	for _, i := range first {
		delete(want, i.ID)
	}
	for cursor != "" {
		a := r.get("/api/github/tasks?limit=4&cursor=" + cursor)
		require.Equal(t, http.StatusOK, a.status, a.body)
		cursor = a.text("nextCursor")
		for _, i := range a.field("tasks").([]any) {
			id := i.(map[string]any)["id"].(string)
			require.True(t, want[id], "%s came twice", id)
			delete(want, id)
		}
	}
	require.Empty(t, want)
	require.Len(t, r.list(2), 9)
}

// J17 in miniature: a stop under load at any moment loses nothing accepted.
func TestJ17StopsUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	accepted := map[string]bool{}
	n := 0
	for round := range 5 {
		stopped := make(chan error)
		for range 8 {
			n++
			accepted[r.accept(n)] = true
		}
		go func() { stopped <- r.app.Stop(t.Context()) }()
		for alive := true; alive; {
			n++
			id := fmt.Sprintf("d%d", n)
			a, err := r.tryPost("issues", id, issue(n))
			if err == nil && a.status == http.StatusOK {
				accepted[a.text("task")] = true
			}
			alive = err == nil && a.status == http.StatusOK
		}
		require.NoError(t, <-stopped, "round %d", round)
		r.web.CloseIdleConnections()
		r.start()
	}
	for _, i := range r.awaitAll(len(accepted), "done") {
		require.True(t, accepted[i.ID], i.ID)
	}
}
