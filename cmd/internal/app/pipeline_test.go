package app

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func TestDT83SameDeliveryTwiceIsOneTask(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	id, body := uuid.NewString(), issue(1)
	first := r.post("issues", id, body)
	require.Equal(t, http.StatusOK, first.status)
	require.Nil(t, first.field("duplicate"))
	done := r.await(first.text("task"), "done")
	require.Len(t, done.Attempts, 1)

	again := r.post("issues", id, body)
	require.Equal(t, http.StatusOK, again.status)
	require.Equal(t, true, again.field("duplicate"))
	require.Equal(t, first.text("task"), again.text("task"))
	require.Equal(t, []item{{ID: done.ID, Status: "done"}}, r.awaitAll(1, "done"))
	require.Len(t, r.deliveries(), 1)
	require.Len(t, r.task(done.ID).Attempts, 1, "it did not run again")

	require.Equal(t, http.StatusConflict, r.post("issues", id, issue(2)).status, "DT-59")
	require.Len(t, r.list(10), 1)
}

func TestDT84MissingDeliveryIDStoresNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	a := r.post("issues", "", issue(1))
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "missing delivery id", a.text("error"))
	require.Empty(t, r.deliveries())
	require.Empty(t, r.list(10))

	r.accept(1) // the next one is the first that is stored
	require.EqualValues(t, 1, r.deliveries()[0]["seq"])
}

func TestDT88UnsupportedEventIsRecordedAndNoTask(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	a := r.post("brand_new", "d1", `{"action":"foo"}`)
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, string(task.UnsupportedEvent), a.text("ignored"))
	all := r.deliveries()
	require.Len(t, all, 1)
	require.Equal(t, "ignored:unsupported_event", all[0]["routing"])
	require.Empty(t, r.list(10))
}

// DT-8, DT-85: more tasks than slots wait, none is dropped.
func TestDT85AllTasksOfOneSlotComplete(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.cfg.Worker.Concurrency = 1 }).start()
	for n := range 25 {
		r.accept(n + 1)
	}
	r.awaitAll(25, "done")
}

func TestRunOfACommandShowsInTheAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.command(`echo looking at it; ` + succeed) }).start()
	id := r.accept(1)
	got := r.await(id, "done")
	require.Equal(t, "all done", got.Summary)
	require.Equal(t, "completed", got.Attempts[0].Outcome)
	require.Equal(t, "looking at it\n", got.Attempts[0].Tail)
	log := r.get("/api/github/tasks/" + id + "/log")
	require.Equal(t, "whole", log.header.Get("Belay-Log"))
	require.Equal(t, "looking at it\n", log.body)
}

func TestFailingCommandIsTriedThenFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.command(`echo no luck >&2; exit 7`); r.cfg.Worker.MaxRetries = 1 }).start()
	got := r.await(r.accept(1), "failed")
	require.Len(t, got.Attempts, 2)
	require.Contains(t, got.Attempts[1].Tail, "no luck")
}
