package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv/task"
)

// At debug level, through acceptance, refusals, store errors, panics and
// denials, no secret, token, signature or text of a payload is logged.
func TestX06NoSecretIsLogged(t *testing.T) {
	t.Parallel()
	const token = "bearer-token-of-the-service"
	var fault error
	blow := false
	d := newDoor(t, func(o *Options) {
		o.Access = func() Access { return Access{Mode: ModeToken, ServiceToken: sha256.Sum256([]byte(token))} }
		o.Tasks, o.TaskStore = &taskFake{}, &taskFake{}
	})
	d.log.before = func(context.Context, task.Delivery) error {
		if blow {
			panic("ghs_0123456789abcdefghijklmnop " + testSecret)
		}
		return fault
	}
	body := labeled(1)
	body["issue"].(object)["body"] = "-----BEGIN RSA PRIVATE KEY----- ghp_0123456789abcdefghijklmnop"
	h := hook{event: "issues", guid: "one", body: encode(t, body), header: map[string]string{"Authorization": "Bearer " + token}}
	signature := sign(testSecret, h.body)
	require.Equal(t, 200, d.post(h).status)
	require.Equal(t, 401, d.post(hook{event: "issues", guid: "two", body: h.body, secret: "wrong-secret"}).status)
	require.Equal(t, 400, d.post(hook{event: "issues", guid: "two", body: []byte(`{"ghp_0123456789abcdefghijklmnop":`)}).status)
	require.Equal(t, 409, d.post(hook{event: "issues", guid: "one", body: encode(t, labeled(2))}).status)
	fault = errors.New("the store is away")
	require.Equal(t, 503, d.post(hook{event: "issues", guid: "three", body: h.body}).status)
	blow = true
	require.Equal(t, 500, d.post(hook{event: "issues", guid: "four", body: h.body}).status)
	for _, auth := range []string{"Bearer " + token, "Bearer wrong-token", "Basic " + token} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.base+"/api/github/tasks?token="+token, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", auth)
		d.do(req)
	}
	logs := d.logs.String()
	for _, there := range []string{"webhook accepted", "webhook refused", "webhook not stored", "request panicked", `"github_event":"issues"`, `"task_id":`} {
		require.Contains(t, logs, there) // else the check below could not fail
	}
	for _, secret := range []string{
		testSecret, token, "wrong-secret", "wrong-token", "ghp_", "ghs_", "PRIVATE KEY", "Authorization", "Bearer",
		strings.TrimPrefix(signature, "sha256="),
	} {
		require.NotContains(t, logs, secret)
	}
}

// A class of error is logged once in 10 s, and the next line says how often
// it was not.
func TestErrorsAreLoggedOnceInTenSeconds(t *testing.T) {
	t.Parallel()
	c := newClock()
	d := newDoor(t, func(o *Options) { o.Now = c.now })
	bad := hook{event: "issues", guid: "one", body: []byte("{}"), secret: "wrong"}
	count := func() int { return strings.Count(d.logs.String(), `"class":"invalid_signature"`) }
	for range 5 {
		require.Equal(t, 401, d.post(bad).status)
	}
	require.Equal(t, 1, count())
	require.Equal(t, 400, d.post(hook{event: "issues", guid: "one", body: []byte("{")}).status)
	require.Contains(t, d.logs.String(), `"class":"parse"`, "another class has its own time")
	c.move(logEvery)
	require.Equal(t, 401, d.post(bad).status)
	require.Equal(t, 2, count())
	require.Contains(t, d.logs.String(), `"like_it_not_logged":4`)
	require.Equal(t, "6", d.metric(`belay_webhook_rejections_total{reason="invalid_signature"}`), "all are counted")
}

// A panic ends its request with a 500 and nothing else: the connection lives,
// what was reserved is given back, and the next request is served.
func TestPanicsAreAnswered(t *testing.T) {
	t.Parallel()
	boom := true
	d := newDoor(t, func(o *Options) {
		cfg := o.Config
		o.Config = func() *github.Config {
			if boom {
				var nothing *github.Config
				return &github.Config{Source: nothing.Source}
			}
			return cfg()
		}
	})
	h := hook{event: "issues", guid: "one", body: encode(t, labeled(1))}
	got := d.post(h)
	require.Equal(t, 500, got.status)
	require.Equal(t, object{"error": "internal error"}, got.json(t))
	require.NotEqual(t, "close", got.header.Get("Connection"))
	require.Equal(t, "1", d.metric("belay_http_panics_total"))
	require.Equal(t, "1", d.metric(`belay_webhook_rejections_total{reason="panic"}`))
	require.Equal(t, "0", d.metric("belay_webhook_requests_in_flight"))
	require.Zero(t, d.budget.used.Load())
	require.Contains(t, d.logs.String(), `"github_delivery_id":"one"`)
	require.Contains(t, d.logs.String(), "nil pointer")
	boom = false
	require.Equal(t, 200, d.post(h).status)
	require.Len(t, d.log.all(), 1)
}

// An answer that was begun cannot become a 500: its connection is cut, so
// that nobody takes the part for the whole.
func TestPanicAfterTheAnswerBeganCutsTheConnection(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	base := d.listen(d.recover(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("part"))
		_ = http.NewResponseController(w).Flush()
		panic("late")
	})))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base, nil)
	require.NoError(t, err)
	res, err := d.client.Do(req)
	require.NoError(t, err)
	_, err = io.ReadAll(res.Body)
	require.NoError(t, res.Body.Close())
	require.Error(t, err)
	require.Equal(t, "1", d.metric("belay_http_panics_total"))
}

func TestLimiterCountsWhatItDrops(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := newLimiter(func() time.Time { return now })
	_, ok := l.allow("a")
	require.True(t, ok)
	for range 3 {
		_, ok = l.allow("a")
		require.False(t, ok)
	}
	now = now.Add(logEvery - 1)
	_, ok = l.allow("a")
	require.False(t, ok)
	now = now.Add(1)
	dropped, ok := l.allow("a")
	require.True(t, ok)
	require.Equal(t, 4, dropped)
}
