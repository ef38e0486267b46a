package app

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/natstest"
)

// held counts the processes that hold a lease.
func (r *rig) held(name string, among ...*child) (n int, who *child) {
	r.t.Helper()
	for _, c := range among {
		if strings.Contains(r.do("GET", "http://"+c.admin+"/metrics", "").body, `belay_lease_held{lease="`+name+`"} 1`) {
			n, who = n+1, c
		}
	}
	return n, who
}

// Two doors, two workers, two relays on one NATS server, each a process of its
// own: a webhook goes through all of them to its callback, and kill -9 of one
// of each is survived. Retention runs in exactly one.
func TestRolesCarryAWebhookToItsCallback(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	f := newFleet(t)
	f.job.Script = `echo "$BELAY_TASK_ID/$BELAY_ATTEMPT" >>"$3/starts"; case "$(cat "$1")" in *'Issue 2'*) ` + gated + `;; *) ` + succeed + `;; esac`
	f.job.TasksURL, f.job.Retain, f.job.Lease = rc.srv.URL, 200*time.Millisecond, 500*time.Millisecond
	start := func(role, name string) *child {
		j := f.job
		j.Role, j.Name = role, name
		return spawn(t, j)
	}
	doors := []*child{start(config.RoleIngest, "i1"), start(config.RoleIngest, "i2")}
	workers := map[string]*child{"w1": start(config.RoleWorker, "w1"), "w2": start(config.RoleWorker, "w2")}
	relays := []*child{start(config.RoleRelay, "r1"), start(config.RoleRelay, "r2")}
	for _, c := range append([]*child{workers["w1"], workers["w2"]}, relays...) {
		require.Empty(t, c.addr, "only ingest has doors")
	}
	for _, c := range append([]*child{workers["w1"], workers["w2"], doors[0], doors[1]}, relays...) {
		natstest.Eventually(t, "each to be ready", func() bool { return f.do("GET", "http://"+c.admin+"/readyz", "").status == http.StatusOK })
	}

	f.speakTo(doors[0])
	first := f.accept(1)
	f.speakTo(doors[1])
	f.await(first, "done")
	rc.awaits(first + "-0 completed")
	require.Equal(t, http.StatusNotFound, f.get("/api/github/tasks/"+first+"/log").status)
	require.Contains(t, f.get("/api/github/tasks/"+first+"/log").body, "machine of the worker that ran it")

	doors[0].kill()
	held := f.accept(2)
	f.startedAttempts(2)
	workers[f.task(held).Attempts[0].Worker].kill()
	natstest.Eventually(t, "the other worker to take over", func() bool { return len(f.task(held).Attempts) == 2 })

	_, holder := f.held(leaseRetention, relays...)
	require.NotNil(t, holder)
	other := relays[0]
	if holder == other {
		other = relays[1]
	}
	require.Contains(t, f.do("GET", "http://"+other.admin+"/metrics", "").body, `belay_retention_passes_total{outcome="ok"} 0`)
	require.Contains(t, f.do("GET", "http://"+doors[1].admin+"/metrics", "").body, "belay_tasks{")
	holder.signal(syscall.SIGKILL)
	f.release()
	rc.awaits(first+"-0 completed", held+"-0 completed")
	natstest.Eventually(t, "retention to go on elsewhere", func() bool {
		body := f.do("GET", "http://"+other.admin+"/metrics", "").body
		return strings.Contains(body, `belay_lease_held{lease="retention"} 1`) && !strings.Contains(body, `belay_retention_passes_total{outcome="ok"} 0`)
	})
	require.Equal(t, []string{"interrupted", "completed"}, outcomes(f.await(held, "done")))

	// What an ingest process itself ends is told by the relay, too.
	queued := f.accept(2 + 20) // "Issue 22" waits as well, its gate is open
	f.await(queued, "done")
	rc.awaits(first+"-0 completed", held+"-0 completed", queued+"-0 completed")
}

// Without a worker nothing is claimed, without a relay nothing is sent; both
// wait for who does.
func TestRolesDoNothingElse(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	door, _, p := behind(t)
	calling(rc)(door)
	door.cfg.Server.Role = config.RoleIngest
	door.cfg.Callbacks[0].Secrets = nil // it signs nothing
	door.start()
	require.Nil(t, door.app.exec)
	require.Nil(t, door.app.worker.Load())
	require.Nil(t, door.app.relay.Load())
	id := door.accept(1)
	require.Equal(t, http.StatusOK, door.do("GET", door.app.AdminURL()+"/healthz", "").status)

	on := func(role string) *rig {
		other := newRig(t, calling(rc), func(o *rig) { o.cfg.NATS.URL, o.cfg.NATS.Config, o.cfg.Server.Role = p.URL(), "", role })
		other.cfg.GitHub.WebhookSecrets = nil
		other.command(`case "$(cat "$1")" in *'Issue 2'*) ` + gated + `;; *) ` + succeed + `;; esac`)
		return other.start()
	}
	w := on(config.RoleWorker)
	require.Empty(t, w.app.addr.public)
	door.await(id, "done")
	require.Empty(t, rc.events())
	on(config.RoleRelay)
	rc.awaits(id + "-0 completed")
	running := door.accept(2)
	door.await(running, "running")
	// A cancel at the door is an end like any other.
	require.Equal(t, http.StatusOK, door.act(running, "cancel").status)
	rc.awaits(id+"-0 completed", running+"-0 cancelled")
}
