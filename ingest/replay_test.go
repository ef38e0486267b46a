package ingest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// payloadFake is GitHub's log with one payload.
type payloadFake struct {
	body  string
	err   error
	asked []string
}

func (p *payloadFake) Payload(_ context.Context, source string, id task.DeliveryID, _ time.Time) (http.Header, []byte, error) {
	p.asked = append(p.asked, source+" "+string(id))
	return http.Header{headerHookID: {"17"}}, []byte(p.body), p.err
}

// TestDT99AReplayKeepsToTheScope: what a caller may not see it cannot replay,
// and GitHub is not asked for it.
func TestDT99AReplayKeepsToTheScope(t *testing.T) {
	t.Parallel()
	ignored := kv.Logged{Seq: 3, Delivery: task.Delivery{
		Source: "default", ID: "g1", Event: "issues", Action: "labeled", InstallationID: 7, RepoID: 99, Repo: "acme/api",
		PayloadHash: "first-hash", Routing: task.Ignored(task.Unroutable),
	}}
	fake := &taskFake{deliveries: []kv.Logged{ignored}}
	gh := &payloadFake{body: `{"action":"labeled","label":{"name":"bug"},"installation":{"id":7},"repository":{"id":99,"full_name":"acme/api"},` +
		`"issue":{"number":1,"title":"t","user":{"login":"o"}},"sender":{"login":"o"}}`}
	d := newDoor(t, func(o *Options) { o.Deliveries, o.Payloads = deliveryFake{fake}, gh })
	seven, eight := int64(7), int64(8)
	replay := func(sc Scope, id string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/deliveries/"+id+"/replay", strings.NewReader("{}"))
		return serve(d.scoped(), r.WithContext(context.WithValue(r.Context(), callerKey{}, Caller{Name: "tenant", Scope: sc})))
	}
	for _, sc := range []Scope{{Installation: &eight}, {Installation: &seven, Repos: []string{"acme/web"}}, {Repos: []string{}}} {
		require.Equal(t, http.StatusNotFound, replay(sc, "g1").Code)
	}
	require.Equal(t, http.StatusNotFound, replay(Scope{}, "a%3Ab").Code)
	require.Empty(t, gh.asked)
	w := replay(Scope{Installation: &seven}, "g1")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, []string{"default g1"}, gh.asked)
	stored := d.log.all()[0]
	require.Equal(t, []any{task.DeliveryID("replay:g1"), task.DeliveryID("g1"), "first-hash", "17"},
		[]any{stored.ID, stored.ReplayOf, stored.PayloadHash, stored.HookID})
	require.Equal(t, AuditReplay, d.audit.entries[0].Kind)

	gh.err = errors.Join(ErrGitHub, errors.New("secret detail"))
	w = replay(Scope{}, "g1")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "30", w.Header().Get("Retry-After"))
	require.NotContains(t, w.Body.String(), "secret detail")
	gh.err, gh.body = nil, strings.Repeat(" ", int(d.o.MaxBody)+1)
	require.Equal(t, http.StatusRequestEntityTooLarge, replay(Scope{}, "g1").Code)
	d.replaying.Lock()
	defer d.replaying.Unlock()
	require.Equal(t, http.StatusServiceUnavailable, replay(Scope{}, "g1").Code, "one at a time: each holds a payload")
}
