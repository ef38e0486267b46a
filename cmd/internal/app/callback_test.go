package app

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// receiver is the other end of a callback; it checks every signature.
type receiver struct {
	t   *testing.T
	srv *httptest.Server
	mu  sync.Mutex
	got []relay.Event
	// traces are the trace contexts of the requests.
	traces []string
}

var callbackKey = []byte("a key of twenty-four byte")

func newReceiver(t *testing.T) *receiver {
	rc := &receiver{t: t}
	rc.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		at, _ := strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64)
		want := relay.Sign([][]byte{callbackKey}, outbox.ID(req.Header.Get("webhook-id")), time.Unix(at, 0), body)
		var e relay.Event
		if err != nil || req.Header.Get("webhook-signature") != want || json.Unmarshal(body, &e) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		rc.mu.Lock()
		defer rc.mu.Unlock()
		rc.got = append(rc.got, e)
		rc.traces = append(rc.traces, req.Header.Get("traceparent"))
	}))
	t.Cleanup(rc.srv.Close)
	return rc
}

// callbackSecret is the receiver's key as it is configured.
func callbackSecret() redact.Secret {
	return redact.Secret("whsec_" + base64.StdEncoding.EncodeToString(callbackKey))
}

// events are what came, as `<outbox id> <type>`.
func (rc *receiver) events() []string {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	out := make([]string, len(rc.got))
	for i, e := range rc.got {
		out[i] = string(e.ID) + " " + strings.TrimPrefix(e.Type, relay.EventTypePrefix)
	}
	return out
}

func (rc *receiver) awaits(want ...string) {
	rc.t.Helper()
	natstest.Eventually(rc.t, "the events "+strings.Join(want, ", "), func() bool { return len(rc.events()) >= len(want) })
	require.ElementsMatch(rc.t, want, rc.events())
}

// calling makes a familiar call a receiver back.
func calling(rc *receiver) func(*rig) {
	return func(r *rig) {
		r.cfg.Callbacks = []config.Callback{{
			Name: "ci", URL: rc.srv.URL + "/hook?token=hidden", Secrets: []redact.Secret{callbackSecret()}, AllowPrivate: true, Timeout: 10 * time.Second,
		}}
		r.cfg.Familiars[0].Callback = "ci"
		r.opts.RelayWaits = []time.Duration{0, time.Millisecond, time.Millisecond}
	}
}

// OB-38, OB-43, DT-77: whoever ends a task (its holder, a spent budget, a
// person, a newer task) tells its callback, once an end, over retries too.
func TestOB43EveryEndCallsBackOnce(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	r := newRig(t, calling(rc), func(r *rig) {
		r.command(`case "$(cat "$1")" in *'Issue 2'*) exit 7;; *'Issue 3'*) ` + gated + `;; *) ` + succeed + `;; esac`)
		r.cfg.Worker.MaxRetries = 0
	}).start()
	done, failed, held := r.accept(1), r.accept(2), r.accept(3)
	r.await(done, "done")
	r.await(failed, "failed")
	r.await(held, "running")
	require.Equal(t, http.StatusOK, r.act(held, "cancel").status)
	want := []string{done + "-0 completed", failed + "-0 failed", held + "-0 cancelled"}
	rc.awaits(want...)

	require.Equal(t, http.StatusAccepted, r.act(done, "retry").status)
	want = append(want, done+"-1 completed")
	rc.awaits(want...)

	body := issue(4)
	first, again := r.post("issues", "one", body).text("task"), r.post("issues", "two", body).text("task")
	rc.awaits(append(want, first+"-0 completed", again+"-0 superseded")...)
	r.restart()
	rc.awaits(append(want, first+"-0 completed", again+"-0 superseded")...)
	require.NotContains(t, r.log.String(), "hidden", "OB-51: the query of an address is a secret")
}

// OB-38: a process that dies between a task's end and its outbox record loses
// nothing: the next one finds the intents in the record.
func TestOB38CrashBeforeTheOutboxRecord(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	var down atomic.Bool
	down.Store(true)
	r := newRig(t, calling(rc), func(r *rig) {
		r.opts.StoreHooks = &kv.Hooks{Before: func(_ context.Context, op, key string) error {
			if down.Load() && op == "create" && strings.HasPrefix(key, kv.PrefixOutbox+".") {
				return errors.New("the process is gone")
			}
			return nil
		}}
	}).start()
	id := r.accept(1)
	r.await(id, "done")
	r.restart()
	require.Empty(t, rc.events())
	down.Store(false)
	r.restart()
	rc.awaits(id + "-0 completed")
	r.restart()
	rc.awaits(id + "-0 completed")
}

// OB-38: a retry forgets the intents of the record only once their outbox
// records are there.
func TestRetryLosesNoReply(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	var down atomic.Bool
	down.Store(true)
	r := newRig(t, calling(rc), func(r *rig) {
		r.opts.StoreHooks = &kv.Hooks{Before: func(_ context.Context, op, key string) error {
			if down.Load() && op == "create" && strings.HasPrefix(key, kv.PrefixOutbox+".") {
				return kv.ErrFull
			}
			return nil
		}}
	}).start()
	id := r.accept(1)
	r.await(id, "done")
	require.Equal(t, http.StatusServiceUnavailable, r.act(id, "retry").status)
	require.Equal(t, "done", r.task(id).Status)
	down.Store(false)
	require.Equal(t, http.StatusAccepted, r.act(id, "retry").status)
	rc.awaits(id+"-0 completed", id+"-1 completed")
}

// OB-53: a task whose replies have no records yet outlives its retention: its
// tombstone would not say that they are to be sent.
func TestOB53RetentionWaitsForTheOutboxRecords(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	var ahead atomic.Int64
	var down atomic.Bool
	down.Store(true)
	r := newRig(t, calling(rc), func(r *rig) {
		r.opts.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		r.opts.RetainEvery = 20 * time.Millisecond
		r.opts.StoreHooks = &kv.Hooks{Before: func(_ context.Context, op, key string) error {
			if down.Load() && op == "create" && strings.HasPrefix(key, kv.PrefixOutbox+".") {
				return kv.ErrFull
			}
			return nil
		}}
	}).start()
	id := r.accept(1)
	r.await(id, "done")
	ahead.Store(int64(31 * 24 * time.Hour))
	natstest.Eventually(t, "retention to come by", func() bool {
		return strings.Contains(r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body, `belay_retention_passes_total{outcome="failed"}`) &&
			strings.Contains(r.log.String(), "retention did not finish")
	})
	require.Equal(t, "done", r.task(id).Status)
	down.Store(false)
	rc.awaits(id + "-0 completed")
	natstest.Eventually(t, "the task to be gone", func() bool { return r.get("/api/github/tasks/"+id).status == http.StatusGone })
}

// A planned stop sends what its last results want sent, before the process ends.
func TestStopSendsTheLastReplies(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	r := newRig(t, calling(rc), func(r *rig) { r.command(gated) }).start()
	id := r.accept(1)
	r.await(id, "running")
	stopped := make(chan error, 1)
	go func() { stopped <- r.app.Stop(context.Background()) }()
	natstest.Eventually(t, "the stop to wait for the run", func() bool { return strings.Contains(r.log.String(), `"step":"worker"`) })
	r.release()
	require.NoError(t, <-stopped)
	require.Equal(t, []string{id + "-0 completed"}, rc.events())
}

// OB-53, DT-102: retention ends a delivered reply after its task, and a
// deleted installation's replies go with it, whatever their status.
func TestOB53RepliesEndAfterTheirTasks(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	var ahead atomic.Int64
	r := newRig(t, calling(rc), func(r *rig) {
		r.opts.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		r.opts.RetainEvery = 20 * time.Millisecond
	}).start()
	id := r.accept(1)
	rc.awaits(id + "-0 completed")
	find := func(id string) *outbox.Record {
		rec, err := r.app.outbox.Find(t.Context(), outbox.ID(id+"-0"))
		require.NoError(t, err)
		return rec
	}
	natstest.Eventually(t, "the reply to be delivered", func() bool { return find(id).Status == outbox.Delivered })
	ahead.Store(int64(31 * 24 * time.Hour))
	natstest.Eventually(t, "the reply to be gone", func() bool { return find(id) == nil })
	require.Equal(t, http.StatusGone, r.get("/api/github/tasks/"+id).status)

	ahead.Store(0)
	rc.srv.Close()
	other := r.accept(2)
	natstest.Eventually(t, "the reply to fail", func() bool { rec := find(other); return rec != nil && rec.Status == outbox.Failed })
	a := r.post("installation", "gone", `{"action":"deleted","installation":{"id":7},"sender":{"login":"octocat"}}`)
	require.Equal(t, string(task.InstallationDeleted), a.text("ignored"), a.body)
	natstest.Eventually(t, "the reply to be purged", func() bool { return find(other) == nil })
}

// DT-77: the end of a task whose surfaces are open asks for their closing,
// after its event, whoever ends it; one that was published asks for nothing.
func TestDT77OpenSurfacesAreClosedByTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, calling(newReceiver(t)))
	a, err := New(r.opts)
	require.NoError(t, err)
	rec := task.Record{
		ID: "t", InstallationID: 7, Repo: "acme/api", Number: 5, HeadSHA: "0123456789abcdef", FamiliarID: r.cfg.Familiars[0].ID,
		State: task.Cancelled, Kind: task.Kind{Name: task.FixIssue}, Surfaces: task.SurfacesOpen,
	}
	got := a.intents(rec, 3)
	require.Len(t, got, 3)
	require.Equal(t, "callback:ci", got[0].Channel)
	for i, want := range []task.Intent{{N: 4, Channel: channelCheck, To: "acme/api@0123456789ab"}, {N: 5, Channel: channelComment, To: "acme/api#5"}} {
		require.JSONEq(t, `{"installation_id":7,"task_id":"t"}`, string(got[i+1].Payload))
		got[i+1].Payload = nil
		require.Equal(t, want, got[i+1])
	}
	rec.Surfaces = task.SurfacesClosed
	require.Len(t, a.intents(rec, 0), 1)
	rec.Kind.Name = task.CommandReply
	require.Empty(t, a.intents(rec, 0))
}
