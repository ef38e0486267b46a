package app

import (
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
)

// usersConf are the lines of deploy/nats/users.conf, with a password for each.
func usersConf(t *testing.T) string {
	t.Helper()
	for _, user := range []string{"INGEST", "OPERATOR", "WORKER", "RELAY", "VIEWER"} {
		t.Setenv("BELAY_NATS_"+user+"_PASSWORD", "b"+strings.ToLower(user)+"0123456789abcdef")
	}
	text, err := os.ReadFile("../../../deploy/nats/users.conf")
	require.NoError(t, err)
	return string(text)
}

// urlAs is the server's address for a user of the file.
func urlAs(env *natstest.Env, user string) string {
	u, err := url.Parse(env.URL())
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(user, "b"+user+"0123456789abcdef")
	return u.String()
}

// The users of deploy/nats are enough for what each role does, in whole lives,
// and the server refuses none of it.
func TestEachRoleLivesByItsOwnUser(t *testing.T) {
	var said lockedBuffer
	env := natstest.New(t, natstest.WithConfig(usersConf(t)), natstest.WithListener(), natstest.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
	rc := newReceiver(t)
	gh := stand(t)
	gh.AddDelivery(githubtest.Delivery{GUID: "failed", Event: "issues", Action: "labeled", InstallationID: 7, RepositoryID: 99, StatusCode: 502, DeliveredAt: time.Now().Add(-time.Hour)})
	as := func(role, user string, change ...func(*rig)) *rig {
		return newRig(t, append([]func(*rig){onGitHub(gh), calling(rc), func(r *rig) {
			r.cfg.NATS.URL, r.cfg.NATS.Config, r.cfg.Server.Role = urlAs(env, user), "", role
			r.cfg.Installations = []config.Installation{listed(7, func(in *config.Installation) { in.Limits = config.Limits{MaxConcurrent: 2, MaxTasksPerDay: 100} })}
			r.command(succeed)
			r.opts.RetainEvery, r.opts.LeaseEvery = 200*time.Millisecond, 200*time.Millisecond
			r.cfg.Redelivery.Every = time.Second
			r.cfg.Review.PullRequest = true
		}}, change...)...).start()
	}
	door, worker, relay := as(config.RoleIngest, "ingest"), as(config.RoleWorker, "worker"), as(config.RoleRelay, "relay")
	desk := as(config.RoleIngest, "operator", operating)
	id := door.accept(1)
	door.await(id, "done")
	rc.awaits(id + "-0 completed")
	require.Equal(t, http.StatusAccepted, door.act(id, "retry").status)
	rc.awaits(id+"-0 completed", id+"-1 completed")
	for _, path := range []string{"tasks", "tasks/" + id, "deliveries", "outbox", "usage", "audit", "routing", "explain/" + id} {
		require.Equal(t, http.StatusOK, door.get("/api/github/"+path).status, path)
	}
	require.Equal(t, http.StatusOK, door.do("POST", door.app.URL()+"/api/control/pause", "{}", "Content-Type", "application/json").status)
	held := door.accept(2)
	door.await(held, "queued")
	require.Equal(t, http.StatusOK, door.act(held, "cancel").status)
	require.Equal(t, http.StatusOK, door.do("POST", door.app.URL()+"/api/control/resume", "{}", "Content-Type", "application/json").status)
	review := door.post("pull_request", "review", pull(3, "a1", "", 1)).text("task")
	door.awaitEnd(review)
	natstest.Eventually(t, "what failed to be asked for again", func() bool { return gh.Count(githubtest.OpRedeliver) > 0 })
	event := `{"streamId":"` + id + `","type":"progress","id":"first"}`
	require.Equal(t, http.StatusAccepted, door.do("POST", door.app.URL()+"/api/events", event, "Content-Type", "application/json").status)
	status, _ := desk.operate("POST", tasksPath, `{"requestId":"7b1c1d39-6a52-4a0e-9d4c-6e0c8f3f5b1e","title":"Fix the door","body":""}`)
	require.Equal(t, http.StatusCreated, status)
	gone := `{"action":"deleted","installation":{"id":7},"sender":{"login":"octocat"}}`
	require.Equal(t, "installation_deleted", door.post("installation", "gone", gone).text("ignored"))
	natstest.Eventually(t, "the uninstalled task to go", func() bool { return door.get("/api/github/tasks/"+id).status == http.StatusGone })
	for _, r := range []*rig{desk, door, worker, relay} {
		r.stop()
		require.NotContains(t, strings.ToLower(r.log.String()), "permissions violation", r.cfg.Server.Role)
	}
	require.NotContains(t, strings.ToLower(said.String()), "permissions violation")
}

// awaitEnd waits until a task has ended, however it does.
func (r *rig) awaitEnd(id string) {
	r.t.Helper()
	natstest.Eventually(r.t, "the task's end", func() bool { s := r.task(id).Status; return s != "queued" && s != "running" && s != "received" })
}

// What each user must not do, it cannot.
func TestUsersCannotDoWhatIsNotTheirs(t *testing.T) {
	env := natstest.New(t, natstest.WithConfig(usersConf(t)), natstest.WithListener())
	publish := func(subject string) func(*nats.Conn, jetstream.JetStream) error {
		return func(_ *nats.Conn, js jetstream.JetStream) error {
			_, err := js.Publish(t.Context(), subject, []byte("{}"), jetstream.WithRetryAttempts(0))
			return err
		}
	}
	ask := func(subject, body string) func(*nats.Conn, jetstream.JetStream) error {
		return func(nc *nats.Conn, _ jetstream.JetStream) error {
			_, err := nc.Request(subject, []byte(body), 300*time.Millisecond)
			return err
		}
	}
	deleteStream := ask("$JS.API.STREAM.DELETE.AUDIT", "")
	for user, acts := range map[string]map[string]func(*nats.Conn, jetstream.JetStream) error{
		"ingest": {
			"append to a request": publish("operator.acme.7b1c1d39-6a52-4a0e-9d4c-6e0c8f3f5b1e"), "read requests": ask("$JS.API.STREAM.MSG.GET.OPERATOR", `{"seq":1}`),
			"beat as a worker": publish("$KV.STATE.worker.x"), "take a lease": publish("$KV.STATE.lease.retention"), "release a pull request": publish("$KV.STATE.release.9.8"),
			"use up a nonce": publish("$KV.STATE.nonce.k.x"), "purge deliveries": ask("$JS.API.STREAM.PURGE.WEBHOOKS", ""), "take a token": ask("$JS.API.CONSUMER.MSG.NEXT.WEBHOOKS.tasks", ""),
			"delete a stream": deleteStream, "delete a durable": ask("$JS.API.CONSUMER.DELETE.WEBHOOKS.admit", ""),
		},
		"operator": {"delete a stream": deleteStream, "purge requests": ask("$JS.API.STREAM.PURGE.OPERATOR", ""), "take a token": ask("$JS.API.CONSUMER.MSG.NEXT.WEBHOOKS.tasks", "")},
		"worker": {
			"forge a delivery": publish("webhook.1.2.task.fix_issue"), "append to a request": publish("operator.acme.x"), "pause": publish("$KV.STATE.control.pause"),
			"take a lease": publish("$KV.STATE.lease.retention"), "delete a stream": deleteStream, "purge the audit trail": ask("$JS.API.STREAM.PURGE.AUDIT", ""), "release a pull request": publish("$KV.STATE.release.9.8"),
		},
		"relay": {
			"forge a delivery": publish("webhook.1.2.task.fix_issue"), "beat as a worker": publish("$KV.STATE.worker.x"), "take a token": ask("$JS.API.CONSUMER.MSG.NEXT.WEBHOOKS.tasks", ""),
			"delete a stream": deleteStream, "pause": publish("$KV.STATE.control.pause"),
		},
		"viewer": {
			"forge a delivery": publish("webhook.1.2.task.fix_issue"), "write a record": publish("$KV.STATE.task.1.x"), "pause": publish("$KV.STATE.control.pause"), "delete a stream": deleteStream,
			"purge": ask("$JS.API.STREAM.PURGE.WEBHOOKS", ""), "make a consumer": ask("$JS.API.CONSUMER.CREATE.KV_STATE.x", "{}"), "write an audit entry": publish("audit.x"), "read requests": ask("$JS.API.STREAM.MSG.GET.OPERATOR", `{"seq":1}`),
		},
	} {
		prefix := "_INBOX." + user
		if user == "operator" {
			prefix = "_INBOX.ingest"
		}
		nc, err := nats.Connect(urlAs(env, user), nats.CustomInboxPrefix(prefix), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		require.NoError(t, err, user)
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(300*time.Millisecond))
		require.NoError(t, err)
		_, err = nc.Request("$JS.API.STREAM.INFO.WEBHOOKS", nil, 5*time.Second)
		require.NoError(t, err, "%s can look", user)
		for what, act := range acts {
			require.Error(t, act(nc, js), "%s can %s", user, what)
		}
		spy, err := nc.SubscribeSync("_INBOX.worker.>")
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		require.True(t, user == "worker" || nc.LastError() != nil, "%s can listen to a worker's answers", user)
		_ = spy.Unsubscribe()
	}
	for stream, want := range map[string]uint64{"OPERATOR": 0, "WEBHOOKS": 0, "AUDIT": 0} {
		s, err := env.JS.Stream(t.Context(), stream)
		require.NoError(t, err)
		require.Equal(t, want, s.CachedInfo().State.Msgs, stream)
	}
}

// Where the streams are right, or differ in what a role may not change, it
// works; where they are missing, it says who has to make them.
func TestRolesThatMayNotChangeStreams(t *testing.T) {
	env := natstest.New(t, natstest.WithConfig(usersConf(t)), natstest.WithListener())
	s, err := env.JS.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)
	conf := s.CachedInfo().Config
	conf.Description = "changed by hand"
	_, err = env.JS.UpdateStream(t.Context(), conf)
	require.NoError(t, err)
	door := newRig(t, func(r *rig) {
		r.cfg.NATS.URL, r.cfg.NATS.Config, r.cfg.Server.Role = urlAs(env, "ingest"), "", config.RoleIngest
	}).start()
	door.accept(1)
	door.stop()
	require.Contains(t, door.log.String(), "belay streams apply")

	require.NoError(t, env.JS.DeleteStream(t.Context(), "EVENTS"))
	a, err := New(door.opts)
	require.NoError(t, err)
	err = a.Start(t.Context())
	require.ErrorIs(t, err, streams.ErrNotAllowed)
	require.ErrorContains(t, err, "belay streams apply")
}
