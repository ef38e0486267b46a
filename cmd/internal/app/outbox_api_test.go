package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// boxItem is one outbox record of the API.
type boxItem struct {
	ID, Channel, To, TaskID, Status, LastError string
	Unknown                                    bool
	Attempts                                   int
}

func (r *rig) outbox(query string) []boxItem {
	r.t.Helper()
	a := r.get("/api/github/outbox" + query)
	require.Equal(r.t, http.StatusOK, a.status, a.body)
	var out struct{ Outbox []boxItem }
	require.NoError(r.t, json.Unmarshal([]byte(a.body), &out))
	return out.Outbox
}

// OB-39: a recipient that takes the message and never answers: the record is
// shown as unknown once its lease is over, is never sent again by itself, and
// a person settles it.
func TestOB39UnknownIsSettledByAPerson(t *testing.T) {
	t.Parallel()
	var posts atomic.Int32
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if posts.Add(1) == 1 {
			<-release
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(release) })
	var ahead atomic.Int64
	rc := newReceiver(t)
	r := newRig(t, calling(rc), func(r *rig) {
		r.cfg.Callbacks[0].URL, r.cfg.Callbacks[0].Timeout = srv.URL+"/hook?token=hidden", time.Second
		r.opts.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}).start()
	id := r.accept(1)
	r.await(id, "done")
	natstest.Eventually(t, "the try to end", func() bool {
		box := r.outbox("?task=" + id)
		return len(box) == 1 && box[0].Attempts == 1
	})
	got := r.outbox("")[0]
	require.Equal(t, boxItem{
		ID: id + "-0", Channel: "callback:ci", To: srv.URL + "/hook", TaskID: id, Status: "delivering", Attempts: 1, LastError: got.LastError,
	}, got)
	require.Contains(t, got.LastError, "no answer after the request was written")
	require.Empty(t, r.outbox("?unknown=true"))
	resolve := func(body string) answer {
		return r.do(http.MethodPost, r.app.URL()+"/api/github/outbox/"+id+"-0/resolve", body, "Content-Type", "application/json")
	}
	require.Equal(t, http.StatusConflict, resolve(`{"as":"resend","reason":"they lost it"}`).status, "not unknown yet")

	ahead.Store(int64(3 * time.Minute))
	require.Len(t, r.outbox("?unknown=true"), 1)
	require.EqualValues(t, 1, posts.Load(), "never sent again by itself")
	require.Equal(t, http.StatusBadRequest, resolve(`{"as":"resend"}`).status)
	a := resolve(`{"as":"resend","reason":"they lost it"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, http.StatusOK, resolve(`{"as":"resend","reason":"again"}`).status, "the answer may have been lost: it may be asked again")
	natstest.Eventually(t, "the new record to be delivered", func() bool { return len(r.outbox("?status=delivered&task="+id)) == 1 })
	require.Equal(t, http.StatusConflict, resolve(`{"as":"delivered","reason":"x"}`).status)
	require.EqualValues(t, 2, posts.Load(), "sent once more, however often it was asked for")
	require.Empty(t, r.outbox("?unknown=true"))

	var one struct{ Task struct{ Outbox []boxItem } }
	require.NoError(t, json.Unmarshal([]byte(r.get("/api/github/tasks/"+id).body), &one))
	require.Len(t, one.Task.Outbox, 2, "the task shows both")
	require.Equal(t, http.StatusNotFound, r.do(http.MethodPost, r.app.URL()+"/api/github/outbox/nobody/resolve",
		`{"as":"failed","reason":"x"}`, "Content-Type", "application/json").status)
}
