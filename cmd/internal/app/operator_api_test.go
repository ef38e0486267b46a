package app

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

const deskSecret = "an-operator-key-of-some-length"

// operating configures operator tasks for the repository of the tests.
func operating(r *rig) {
	r.cfg.Operator.Repo = "acme/api"
	r.cfg.Operator.Keys = []config.OperatorKey{{ID: "worker", Secret: deskSecret}}
}

// requestNow is a request's answer.
type requestNow struct {
	Code string
	Task struct {
		ID, State, Title string
		Revision         int
		Owner            operator.Owner
	}
	Release struct{ Head string }
}

// operate sends a request that ann signed in conversation c1.
func (r *rig) operate(method, path, body string) (int, requestNow) {
	r.t.Helper()
	a := r.do(method, r.app.URL()+path, body, signedHeaders(method, path, body, uuid.NewString(), r.ahead)...)
	var out requestNow
	require.NoError(r.t, json.Unmarshal([]byte(a.body), &out), a.body)
	return a.status, out
}

func signedHeaders(method, path, body, nonce string, ahead ...time.Duration) []string {
	now := time.Now()
	for _, d := range ahead {
		now = now.Add(d)
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	return []string{
		"Content-Type", "application/json", "X-Belay-Key", "worker", "X-Belay-Timestamp", stamp, "X-Belay-Nonce", nonce,
		"X-Belay-Operator", "ann", "X-Belay-Conversation", "c1",
		"X-Belay-Signature", ingest.SignOperatorRequest([]byte(deskSecret), method, path, stamp, nonce, "ann", "c1", []byte(body)),
	}
}

// kinds are the events of a request, of whatever tenant, as they are stored.
func (r *rig) kinds(id string) string {
	r.t.Helper()
	s, err := r.app.js.Stream(r.t.Context(), kv.StreamOperator)
	require.NoError(r.t, err)
	var out []string
	for seq := uint64(1); ; {
		m, err := s.GetMsg(r.t.Context(), seq, jetstream.WithGetMsgSubject("operator.*."+id))
		if err != nil {
			return strings.Join(out, " ")
		}
		e, _, err := operator.Decode(m.Data)
		require.NoError(r.t, err)
		out, seq = append(out, strings.Split(m.Subject, ".")[1]+":"+string(e.Kind())), m.Sequence+1
	}
}

const tasksPath = "/api/operator/tasks"

// OT-89, OT-91: a request lives over restarts; a remap while it is in flight
// is said loudly, and makes neither another request nor a confirmation.
func TestOT89OT91RequestOverRestartAndRemap(t *testing.T) {
	t.Parallel()
	r := newRig(t, operating).start()
	id := uuid.NewString()
	propose := `{"requestId":"` + id + `","title":"Fix the door","body":"It squeaks."}`
	h := signedHeaders("POST", tasksPath, propose, "a-nonce-that-is-long-enough")
	require.Equal(t, 201, r.do("POST", r.app.URL()+tasksPath, propose, h...).status)
	require.Equal(t, "invotek:proposed", r.kinds(id))
	require.Equal(t, 401, r.do("POST", r.app.URL()+tasksPath, propose, h...).status, "a nonce once")
	r.restart()
	require.Equal(t, 401, r.do("POST", r.app.URL()+tasksPath, propose, h...).status, "over restarts too")
	status, got := r.operate("GET", tasksPath+"/"+id, "")
	require.Equal(t, 200, status)
	require.Equal(t, operator.Owner{Tenant: "invotek", Operator: "ann", Conversation: "c1"}, got.Task.Owner)
	require.NotContains(t, r.log.String(), `"class":"remap"`)

	r.stop()
	r.cfg.Operator.Tenants = map[string]string{"acme/api": "acme"}
	r.start()
	require.Contains(t, r.log.String(), `"class":"remap"`)
	require.Contains(t, r.log.String(), id)
	status, got = r.operate("GET", tasksPath+"/"+id, "")
	require.Equal(t, 200, status, "it is still found")
	require.Equal(t, "proposed", got.Task.State)
	for path, body := range map[string]string{tasksPath: propose, tasksPath + "/" + id + "/confirm": `{"revision":1}`} {
		status, got = r.operate("POST", path, body)
		require.Equal(t, 403, status, path)
		require.Equal(t, "Forbidden", got.Code)
	}
	require.Equal(t, "invotek:proposed", r.kinds(id))

	r.stop()
	r.cfg.Operator.Tenants = nil
	r.start()
	status, got = r.operate("POST", tasksPath+"/"+id+"/confirm", `{"revision":1}`)
	require.Equal(t, 200, status)
	require.Equal(t, "Committed", got.Code)
	require.Equal(t, "invotek:proposed invotek:approved", r.kinds(id))
	heard := make(chan string, 1)
	stop, err := r.app.events.OnWake(func(tenant string, id operator.RequestID) { heard <- tenant + " " + string(id) })
	require.NoError(t, err)
	require.NoError(t, r.app.nc.Flush())
	status, got = r.operate("POST", tasksPath+"/"+id+"/confirm", `{"revision":1}`)
	require.Equal(t, 200, status)
	require.Equal(t, "Existing", got.Code)
	require.Equal(t, "invotek "+id, <-heard, "a repeated confirmation wakes the consumer")
	require.NoError(t, stop())
	require.NotContains(t, r.log.String(), deskSecret)
}

// OT-93: without a key nothing is taken, and nothing is stored.
func TestOT93BlockedWithoutAKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, operating, func(r *rig) { r.cfg.Operator.Keys = nil }).start()
	id := uuid.NewString()
	body := `{"requestId":"` + id + `","title":"t","body":""}`
	a := r.do("POST", r.app.URL()+tasksPath, body, signedHeaders("POST", tasksPath, body, uuid.NewString())...)
	require.Equal(t, 503, a.status)
	require.Contains(t, a.body, "[operator] keys")
	require.Empty(t, r.kinds(id))
	none := newRig(t).start()
	require.Equal(t, 503, none.get(tasksPath+"/"+id).status, "nor without a repository")
}

// OT-92: the owner releases one head of the pull request of the issue.
func TestOT92ReleaseOfARealPull(t *testing.T) {
	t.Parallel()
	r := newRig(t, operating).start()
	run := r.accept(7)
	r.await(run, "done")
	_, _, err := r.app.store.Change(t.Context(), 7, task.ID(run), func(rec task.Record) (task.Record, error) {
		rec.PRNumber, rec.UpdatedAt = 8, task.At(time.Now())
		return rec, nil
	}, func(task.Record) bool { return false })
	require.NoError(t, err)
	r.await(run, "review")

	id := operator.RequestID(uuid.NewString())
	ann := operator.Owner{Tenant: "invotek", Operator: "ann", Conversation: "c1"}
	_, err = r.app.events.Propose(t.Context(), ann, id, operator.Intent{Repo: "acme/api", Title: "t"})
	require.NoError(t, err)
	path, head := tasksPath+"/"+string(id)+"/release", strings.Repeat("a", 40)
	status, got := r.operate("POST", path, `{"number":8,"head":"`+head+`"}`)
	require.Equal(t, 409, status, "there is no issue")
	require.Equal(t, "Conflict", got.Code)
	for i, call := range []func() (kv.OperatorResult, error){
		func() (kv.OperatorResult, error) { return r.app.events.Confirm(t.Context(), ann, id, 1) },
		func() (kv.OperatorResult, error) {
			return r.app.events.TryBeginAttempt(t.Context(), ann, id, 2, "a1", "b")
		},
		func() (kv.OperatorResult, error) {
			return r.app.events.MarkVerified(t.Context(), ann, id, 3, operator.Evidence{AttemptID: "a1", Issue: operator.Issue{Number: 7, URL: "u"}})
		},
	} {
		res, err := call()
		require.NoError(t, err)
		require.Equal(t, operator.Committed, res.Code, i)
	}
	status, got = r.operate("POST", path, `{"number":8,"head":"`+head+`"}`)
	require.Equal(t, 200, status)
	require.Equal(t, "Committed", got.Code)
	require.Equal(t, head, got.Release.Head)
	rel, err := r.app.reports.releases.Find(t.Context(), 99, 8)
	require.NoError(t, err)
	require.True(t, rel.Covers(head))
	require.Equal(t, ann, rel.Owner)
	a := r.do("POST", r.app.URL()+path, `{"number":9,"head":"`+head+`"}`, signedHeaders("POST", path, `{"number":9,"head":"`+head+`"}`, uuid.NewString())...)
	require.Equal(t, http.StatusNotFound, a.status, "not a pull request that belay opened")
}

// OB-52: what is reported of a run is shown with its task, once each.
func TestOB52EventsOfARun(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	id := r.accept(1)
	post := func(body string) int {
		return r.do("POST", r.app.URL()+"/api/events", body, "Content-Type", "application/json").status
	}
	event := `{"streamId":"` + id + `","type":"progress","data":{"step":"tests"},"id":"first"}`
	require.Equal(t, 202, post(event))
	require.Equal(t, 200, post(event))
	require.Equal(t, 400, post(strings.Replace(event, id, "cockpit-task:"+id, 1)))
	r.restart()
	require.Equal(t, 200, post(event), "over restarts too")
	require.Equal(t, 202, post(strings.Replace(event, "first", "second", 1)))
	var got struct {
		Task struct{ Events []struct{ ID, Type string } }
	}
	r.await(id, "done")
	require.NoError(t, json.Unmarshal([]byte(r.get("/api/github/tasks/"+id).body), &got))
	require.Len(t, got.Task.Events, 2)
	require.Equal(t, "first", got.Task.Events[0].ID)
	natstest.Eventually(t, "the audit trail", func() bool {
		s, err := r.app.js.Stream(t.Context(), kv.StreamAudit)
		require.NoError(t, err)
		_, err = s.GetLastMsgForSubject(t.Context(), "audit.event")
		return err == nil
	})
}

// OT-66: a stream with what is no event of it is an error to its owner, and
// nothing at all to others; nothing is written.
func TestOT66PoisonedRequestOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, operating).start()
	id := uuid.NewString()
	status, _ := r.operate("POST", tasksPath, `{"requestId":"`+id+`","title":"Fix the door","body":""}`)
	require.Equal(t, 201, status)
	_, err := r.app.js.Publish(t.Context(), kv.OperatorSubject("invotek", operator.RequestID(id)), []byte("foreign"))
	require.NoError(t, err)
	path := tasksPath + "/" + id
	for _, as := range []struct {
		operator string
		status   int
		body     string
	}{{"ann", 500, `{"error":"internal error"}`}, {"bob", 404, `{"code":"NotFound"}`}} {
		for _, q := range [][3]string{{"GET", path, ""}, {"POST", path + "/confirm", `{"revision":1}`}, {"POST", path + "/reconcile", `{}`}} {
			h := signedHeaders(q[0], q[1], q[2], uuid.NewString())
			if as.operator != "ann" {
				stamp, nonce := strconv.FormatInt(time.Now().Unix(), 10), uuid.NewString()
				h = []string{
					"Content-Type", "application/json", "X-Belay-Key", "worker", "X-Belay-Timestamp", stamp, "X-Belay-Nonce", nonce,
					"X-Belay-Operator", as.operator, "X-Belay-Conversation", "c1",
					"X-Belay-Signature", ingest.SignOperatorRequest([]byte(deskSecret), q[0], q[1], stamp, nonce, as.operator, "c1", []byte(q[2])),
				}
			}
			a := r.do(q[0], r.app.URL()+q[1], q[2], h...)
			require.Equal(t, as.status, a.status, "%s %v", as.operator, q)
			require.JSONEq(t, as.body, a.body)
		}
	}
	s, err := r.app.js.Stream(t.Context(), kv.StreamOperator)
	require.NoError(t, err)
	require.EqualValues(t, 2, s.CachedInfo().State.Msgs)
}
