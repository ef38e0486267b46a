package relay

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// post makes one try of a callback to a URL.
func post(t *testing.T, url string, change ...func(*CallbackOptions)) Answer {
	t.Helper()
	o := CallbackOptions{Name: "ci", URL: url, Secrets: []redact.Secret{secret('a')}, AllowPrivate: true, Timeout: 5 * time.Second}
	for _, f := range change {
		f(&o)
	}
	c, err := NewCallback(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c.Deliver(t.Context(), Message{ID: "r", Key: "r", Payload: []byte(`{"a":"<&>"}`)})
}

// The vector that the reference libraries of Standard Webhooks publish.
func TestSignatureVector(t *testing.T) {
	t.Parallel()
	for _, s := range []redact.Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		key, err := ParseSecret(s)
		require.NoError(t, err)
		got := Sign([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
		require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", got)
	}
	for _, s := range []redact.Secret{"", "whsec_", "whsec_!!", "c2hvcnQ=", "a plain password of many letters"} {
		_, err := ParseSecret(s)
		require.Error(t, err)
		if len(s) > 8 {
			require.NotContains(t, err.Error(), s.Reveal())
		}
	}
}

// O08: the body is what it was at creation; the signature is made at sending,
// by each secret that is configured then.
func TestO08OB46OB47Request(t *testing.T) {
	t.Parallel()
	rx := newReceiver(t, nil)
	now := time.Unix(1700000000, 0)
	a := post(t, rx.URL+"/hook?x=1", func(o *CallbackOptions) {
		o.Secrets, o.Bearer, o.Now = []redact.Secret{secret('n'), secret('o')}, "bearer-token", func() time.Time { return now }
	})
	require.Equal(t, Answer{Verdict: Delivered}, a)
	req, body := rx.reqs[0], rx.body[0]
	require.Equal(t, `{"a":"<&>"}`, string(body))
	require.Equal(t, "/hook?x=1", req.URL.RequestURI())
	h := req.Header
	require.Equal(t, http.MethodPost, req.Method)
	require.Equal(t, "application/cloudevents+json; charset=utf-8", h.Get("Content-Type"))
	require.Equal(t, "Bearer bearer-token", h.Get("Authorization"))
	require.Equal(t, "r", h.Get("Idempotency-Key"))
	require.Equal(t, "r", h.Get("webhook-id"))
	require.Equal(t, "1700000000", h.Get("webhook-timestamp"))
	signatures := strings.Fields(h.Get("webhook-signature"))
	require.Len(t, signatures, 2, "both secrets during a rotation")
	for i, fill := range []string{"n", "o"} {
		mac := hmac.New(sha256.New, []byte(strings.Repeat(fill, 24)))
		mac.Write([]byte("r.1700000000." + string(body)))
		require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), signatures[i])
	}
}

func TestOB8OB29OB48Statuses(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]Verdict{
		200: Delivered, 201: Delivered, 202: Delivered, 204: Delivered, 299: Delivered,
		301: Final, 302: Final, 304: Final, 307: Final, 308: Final,
		400: Final, 401: Final, 403: Final, 404: Final, 409: Final, 413: Final, 422: Final, 410: Gone,
		408: Refused, 425: Refused, 429: Refused, 500: Refused, 502: Refused, 503: Refused, 504: Refused, 599: Refused,
	} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			var followed bool
			rx := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/elsewhere" {
					followed = true
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(code)
				if code >= 400 {
					_, _ = w.Write([]byte("sorry,\x00 " + secret('a').Reveal() + "\n" + strings.Repeat("x", 2<<20)))
				}
			})
			a := post(t, rx.URL)
			require.Equal(t, want, a.Verdict)
			require.False(t, followed, "redirects are not followed")
			require.Equal(t, 1, rx.times("r"))
			if want == Delivered {
				return
			}
			require.Contains(t, a.Reason, "HTTP "+strconv.Itoa(code), "OB-26")
			require.NotContains(t, a.Reason, secret('a').Reveal(), "OB-51")
			require.Less(t, len(a.Reason), 600)
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, "-5": 0, "soon": 0, "Sun, 01 Mar 2026 12:03:00 GMT": 3 * time.Minute,
		"Sun, 01 Mar 2026 11:00:00 GMT": 0, "9223372036854775807": 1000 * time.Hour,
	} {
		require.Equal(t, want, retryAfter(in, now), in)
	}
	rx := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "7"); w.WriteHeader(429) })
	require.Equal(t, 7*time.Second, post(t, rx.URL).RetryAfter)
}

// What ends without a status: before there was a connection nothing was sent;
// after that nobody can say.
func TestO12NoAnswer(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := closed.Addr().String()
	require.NoError(t, closed.Close())
	a := post(t, "http://"+addr)
	require.Equal(t, Refused, a.Verdict)
	require.Contains(t, a.Reason, "never sent")

	release := make(chan struct{})
	silent := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
	a = post(t, silent.URL, func(o *CallbackOptions) { o.Timeout = 100 * time.Millisecond })
	require.Equal(t, Unknown, a.Verdict)
	require.Contains(t, a.Reason, "no answer after the request was written")
	close(release)

	dropped := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	})
	require.Equal(t, Unknown, post(t, dropped.URL).Verdict)
	require.Equal(t, 1, dropped.times("r"), "the client does not send again by itself")

	require.Equal(t, Refused, post(t, "http://nobody.invalid").Verdict, "no such name")
}

// Each POST has a connection of its own: one that is kept may be closed by the
// recipient at the moment of use, and then nobody can say what it got.
func TestConnectionsAreNotKept(t *testing.T) {
	t.Parallel()
	rx := newReceiver(t, nil)
	g := &rig{t: t}
	c := g.callback("ci", rx.URL)
	for range 3 {
		require.Equal(t, Delivered, c.Deliver(t.Context(), Message{ID: "r", Key: "r", Payload: []byte("{}")}).Verdict)
	}
	from := map[string]bool{}
	for _, req := range rx.reqs {
		from[req.RemoteAddr] = true
		require.True(t, req.Close)
	}
	require.Len(t, from, 3)
}

// A slow body after a 2xx changes nothing and holds nothing.
func TestDeliveredByItsStatusAlone(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	rx := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-release
	})
	require.Equal(t, Delivered, post(t, rx.URL).Verdict)
}

// OB-49: the guard looks at the address that is dialled. The name is public
// when it is asked for the first time and loopback when it is used.
func TestOB49RebindingIsSeenAtDialTime(t *testing.T) {
	t.Parallel()
	rx := newReceiver(t, nil)
	u, err := url.Parse(rx.URL)
	require.NoError(t, err)
	names := newNameServer(t, "127.0.0.1")
	a := post(t, "https://hooks.example.com:"+u.Port(), func(o *CallbackOptions) { o.AllowPrivate, o.Resolver = false, names.resolver() })
	require.Equal(t, Final, a.Verdict)
	require.Contains(t, a.Reason, "address 127.0.0.1 is denied: loopback")
	a = post(t, "http://hooks.example.com:"+u.Port(), func(o *CallbackOptions) { o.Resolver = names.resolver() })
	require.Equal(t, Delivered, a.Verdict, "allowed for development: the guard alone was in the way")
	for _, host := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "0.0.0.0"} {
		a = post(t, "https://"+host+":"+u.Port(), func(o *CallbackOptions) { o.AllowPrivate = false })
		require.Equal(t, Final, a.Verdict, host)
		require.Contains(t, a.Reason, "is denied", host)
	}
	require.Equal(t, 1, rx.times("r"))
}

func TestTLSIsVerified(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(status(204))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	a := post(t, srv.URL)
	require.Equal(t, Refused, a.Verdict, "an unknown authority: nothing was sent")
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	require.Equal(t, Delivered, post(t, srv.URL, func(o *CallbackOptions) { o.RootCAs = roots }).Verdict)
}

func TestOB50InvalidCallbacksAreRefused(t *testing.T) {
	t.Parallel()
	good := CallbackOptions{Name: "ci", URL: "https://ci.example/hook?key=abcdef", Secrets: []redact.Secret{secret('a')}}
	c, err := NewCallback(good)
	require.NoError(t, err)
	require.Equal(t, "https://ci.example/hook", Label(c.url.String()), "no secret of the query in what is shown")
	require.False(t, c.Idempotent())
	for name, f := range map[string]func(*CallbackOptions){
		"no url": func(o *CallbackOptions) { o.URL = "" }, "http": func(o *CallbackOptions) { o.URL = "http://ci.example" },
		"file": func(o *CallbackOptions) { o.URL = "file:///etc/passwd" }, "no host": func(o *CallbackOptions) { o.URL = "https:///x" },
		"user": func(o *CallbackOptions) { o.URL = "https://u:p@ci.example" }, "garbage": func(o *CallbackOptions) { o.URL = "https://%zz" },
		"fragment": func(o *CallbackOptions) { o.URL += "#x" }, "no secret": func(o *CallbackOptions) { o.Secrets = nil },
		"bad secret": func(o *CallbackOptions) { o.Secrets = []redact.Secret{"hunter2"} },
		"timeout":    func(o *CallbackOptions) { o.Timeout = time.Hour }, "negative": func(o *CallbackOptions) { o.Timeout = -1 },
	} {
		bad := good
		f(&bad)
		_, err := NewCallback(bad)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// O07: a payload that is no event is not sent.
func TestO07UnrenderablePayload(t *testing.T) {
	t.Parallel()
	g := &rig{t: t}
	rx := newReceiver(t, nil)
	c := g.callback("ci", rx.URL)
	for _, p := range []string{"", `"belay: payload is not JSON"`, "[]"} {
		require.Equal(t, Unrenderable, c.Deliver(context.Background(), Message{ID: "r", Key: "r", Payload: []byte(p)}).Verdict)
	}
	require.Zero(t, rx.times("r"))
}

func TestEventIsACloudEvent(t *testing.T) {
	t.Parallel()
	at := task.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	rec := task.Record{
		ID: "11111111-2222-3333-4444-555555555555", State: task.Failed, Kind: task.Kind{Name: task.FixIssue}, Title: "T", Repo: "acme/api",
		CloneURL: "https://github.com/acme/api.git", InstallationID: 7, FamiliarID: "cody", Reason: "spent", Attempts: 3,
		Summary: strings.Repeat("s", 1<<20), CreatedAt: at, UpdatedAt: at,
	}
	in, err := CallbackIntent(rec, 4, "ci", "https://ci.example/hook")
	require.NoError(t, err)
	require.Equal(t, "callback:ci", in.Channel)
	require.Less(t, len(in.Payload), 64<<10)
	var e map[string]any
	require.NoError(t, json.Unmarshal(in.Payload, &e))
	data := e["data"].(map[string]any)
	delete(e, "data")
	require.Equal(t, map[string]any{
		"specversion": "1.0", "id": string(outbox.DerivedID(string(rec.ID), 4)), "source": "https://github.com/acme/api",
		"type": "run.belay.task.failed", "subject": string(rec.ID), "time": "2026-03-01T12:00:00.000000Z", "datacontenttype": "application/json",
	}, e)
	require.Equal(t, "failed", data["state"])
	require.Equal(t, "spent", data["reason"])
	require.Equal(t, "fix_issue", data["kind"])
	again, err := CallbackIntent(rec, 4, "ci", "https://ci.example/hook")
	require.NoError(t, err)
	require.Equal(t, in, again, "made from the record alone")

	for clone, want := range map[string]string{"": "/installations/7", "https://u:p@h/x.git": "/installations/7", "http://h/x.git": "/installations/7"} {
		rec.CloneURL = clone
		require.Equal(t, want, source(rec))
	}
	rec.State = task.Running
	_, err = CallbackIntent(rec, 1, "ci", "")
	require.ErrorIs(t, err, task.ErrState)
}
