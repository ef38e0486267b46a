package app

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/backup"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
)

// backup takes a backup of a running process.
func (r *rig) backup() *backup.Archive {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "backup")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(r.t, err)
	defer f.Close()
	_, err = backup.Take(r.t.Context(), r.app.nc, f, backup.TakeOptions{Now: time.Now})
	require.NoError(r.t, err)
	a, err := backup.Open(path)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = a.Close() })
	return a
}

// restored is a process on a fresh data folder with what a backup holds.
func (r *rig) restored(a *backup.Archive) kv.Held {
	r.t.Helper()
	r.cfg.Storage.Dir = filepath.Join(r.t.TempDir(), "data")
	held, err := backup.RestoreDir(r.t.Context(), r.cfg.Storage.Dir, r.cfg.NATS.Config, a, backup.RestoreOptions{Hold: kv.HoldOptions{Now: time.Now}})
	require.NoError(r.t, err)
	r.start()
	return held
}

// A belay goes on after its backup was taken: it creates an issue, runs its
// tasks, calls back. The store that is restored from the backup does none of it
// again by itself: the issue is found, tasks wait, and a delivery of before the
// backup is a duplicate.
func TestRestoredStoreDoesNothingAgain(t *testing.T) {
	t.Parallel()
	gh, rc := stand(t), newReceiver(t)
	gh.AddIssue(99, githubtest.Issue{Number: 2, Title: "Issue 2", Login: "octocat"})
	reached, goOn := make(chan struct{}), make(chan struct{})
	r := newRig(t, onGitHub(gh), operating, calling(rc), func(r *rig) {
		r.cfg.Operator.Callback, r.cfg.Familiars[0].Callback = "ci", "ci"
		r.cfg.Worker.Concurrency = 1
		r.opts.SearchFirst = time.Millisecond
		r.opts.IssueHooks = &consumers.IssueHooks{BeforeBegin: func(operator.RequestID) {
			close(reached)
			<-goOn
		}}
	})
	r.command(gated)
	r.start()
	id, old := uuid.NewString(), uuid.NewString()
	body := issue(1)
	running := r.post("issues", old, body).text("task")
	r.await(running, "running")
	queued := r.accept(2)
	r.await(queued, "queued")
	r.approve(id)
	<-reached
	require.Equal(t, operator.StateApproved, r.request(id))
	a := r.backup()
	require.False(t, a.Manifest.Quiet, "a belay works")

	close(goOn)
	r.release()
	r.awaitAll(2, "done")
	r.awaitRequest(id, operator.StateDelivered)
	told := []string{"operator-" + id + " run.belay.operator.submitted", running + "-0 completed", queued + "-0 completed"}
	natstest.Eventually(t, "the callbacks", func() bool { return len(rc.events()) >= len(told) })
	before := rc.events()
	require.Len(t, before, len(told), "%v", before)
	r.stop()

	r.opts.IssueHooks = nil
	held := r.restored(a)
	require.Equal(t, kv.Held{Requests: 1, Live: 2}, held)
	r.awaitRequest(id, operator.StateSubmitted)
	require.Equal(t, 1, gh.Requests(githubtest.OpCreateIssue), "the issue of after the backup was found")
	require.Equal(t, true, r.post("issues", old, body).field("duplicate"))
	natstest.Eventually(t, "the task to be queued again", func() bool { return r.task(running).Status == "queued" })
	require.Equal(t, "queued", r.task(queued).Status)
	require.Equal(t, before, rc.events(), "nobody is told again")

	a2 := r.do("POST", r.app.URL()+"/api/control/resume", "{}", "Content-Type", "application/json")
	require.Equal(t, 200, a2.status, a2.body)
	r.awaitAll(2, "done")
	require.Equal(t, 1, gh.Requests(githubtest.OpCreateIssue))
}
