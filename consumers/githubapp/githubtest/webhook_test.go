package githubtest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// TestDT56ARedeliveryReallyComesWithTheSameGUID: it is a request to the
// webhook, signed anew, and an attempt of its own in the list.
func TestDT56ARedeliveryReallyComesWithTheSameGUID(t *testing.T) {
	t.Parallel()
	again := make(chan githubtest.Delivery, 1)
	r := newRig(t, githubtest.Options{OnRedeliver: func(d githubtest.Delivery) { again <- d }})
	got := make(chan *http.Request, 2)
	status := http.StatusServiceUnavailable
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		got <- req
		w.WriteHeader(status)
	}))
	defer hook.Close()
	r.SetWebhook(hook.URL, "s3cret")
	first := r.Deliver(githubtest.Delivery{GUID: "g1", Event: "issues", Action: "labeled", Payload: json.RawMessage(`{"a":1}`)})
	require.Equal(t, 503, first.StatusCode)
	require.Equal(t, "Invalid HTTP Response: 503", first.Status)
	sent := <-got
	status = http.StatusOK
	code, _, _ := r.do("POST", fmt.Sprintf("app/hook/deliveries/%d/attempts", first.ID), r.app(), nil)
	require.Equal(t, 202, code)
	second := <-got
	for _, h := range []string{"X-GitHub-Delivery", "X-GitHub-Event", "X-Hub-Signature-256", "X-GitHub-Hook-Installation-Target-ID"} {
		require.NotEmpty(t, sent.Header.Get(h), h)
		require.Equal(t, sent.Header.Get(h), second.Header.Get(h), h)
	}
	d := <-again
	require.Equal(t, []any{"g1", "OK", 200, true}, []any{d.GUID, d.Status, d.StatusCode, d.Redelivery})
	require.NotEqual(t, first.ID, d.ID)
	require.Equal(t, d, r.Deliveries()[1])

	hook.Close()
	d = r.Deliver(githubtest.Delivery{GUID: "g2", Event: "issues"})
	require.Equal(t, "failed to connect to host", d.Status)
	require.Equal(t, 502, d.StatusCode)
}

// TestDeliveriesAreKeptForThreeDays and cost the App's own rate limit.
func TestDeliveriesAreKeptForThreeDays(t *testing.T) {
	t.Parallel()
	r := newRig(t, githubtest.Options{AppRateLimit: 4})
	id := r.AddDelivery(githubtest.Delivery{GUID: "g1", StatusCode: 500})
	_, h, text := r.do("GET", "app/hook/deliveries?redelivery=false", r.app(), nil)
	require.Contains(t, text, `"guid":"g1"`)
	require.Equal(t, "3", h.Get("X-RateLimit-Remaining"))
	_, _, text = r.do("GET", "app/hook/deliveries?redelivery=true", r.app(), nil)
	require.Equal(t, "[]\n", text)
	status, _, _ := r.do("GET", "app/hook/deliveries?cursor=1000", r.app(), nil)
	require.Equal(t, 422, status, "a cursor is no id")
	status, _, _ = r.do("GET", fmt.Sprint("app/hook/deliveries/", id), r.app(), nil)
	require.Equal(t, 200, status)
	status, h, _ = r.do("GET", "app/hook/deliveries", r.app(), nil)
	require.Equal(t, 403, status)
	require.Equal(t, "0", h.Get("X-RateLimit-Remaining"))
	r.advance(72*time.Hour + time.Second)
	_, _, text = r.do("GET", "app/hook/deliveries", r.app(), nil)
	require.Equal(t, "[]\n", text)
	status, _, _ = r.do("POST", fmt.Sprintf("app/hook/deliveries/%d/attempts", id), r.app(), nil)
	require.Equal(t, 404, status)
}
