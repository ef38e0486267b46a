package githubtest_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// rig speaks HTTP with a server, without any client library.
type rig struct {
	*githubtest.Server
	t   *testing.T
	now time.Time
	mu  sync.Mutex
}

func newRig(t *testing.T, o githubtest.Options) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Unix(1_800_000_000, 0)}
	clock := func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.now
	}
	o.Key, o.Now, o.JWTNow = appKey(), clock, clock
	var err error
	r.Server, err = githubtest.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	r.AddInstallation(10, "acme")
	r.AddRepo(10, githubtest.Repo{ID: 100, Owner: "acme", Name: "api"})
	r.AddRepo(10, githubtest.Repo{ID: 101, Owner: "acme", Name: "web"})
	r.AddIssue(100, githubtest.Issue{Number: 7, Title: "x"})
	return r
}

func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// jwt signs claims as an App does.
func (r *rig) jwt(key *rsa.PrivateKey, alg string, claims map[string]any) string {
	r.t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		require.NoError(r.t, err)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := part(map[string]string{"alg": alg, "typ": "JWT"}) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	require.NoError(r.t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func (r *rig) claims(iat, exp time.Duration, iss any) map[string]any {
	return map[string]any{"iat": r.now.Add(iat).Unix(), "exp": r.now.Add(exp).Unix(), "iss": iss}
}

func (r *rig) app() string {
	return r.jwt(appKey(), "RS256", r.claims(-30*time.Second, 90*time.Second, "4711"))
}

// do sends and returns status, headers and body.
func (r *rig) do(method, path, auth string, body any) (int, http.Header, string) {
	r.t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		require.NoError(r.t, err)
		in = bytes.NewReader(b)
	}
	url := path
	if !strings.HasPrefix(path, "http") {
		url = r.URL() + path
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, url, in)
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+auth)
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, resp.Header, string(b)
}

// token gets an installation token; body is the request's.
func (r *rig) token(body any) string {
	r.t.Helper()
	status, _, text := r.do("POST", "app/installations/10/access_tokens", r.app(), body)
	require.Equal(r.t, 201, status, text)
	var out struct{ Token string }
	require.NoError(r.t, json.Unmarshal([]byte(text), &out))
	return out.Token
}

type body = map[string]any

func TestTheAppIsCheckedAsGitHubDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, githubtest.Options{})
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"good":                    {r.app(), 200},
		"a number as issuer":      {r.jwt(appKey(), "RS256", r.claims(0, time.Minute, 4711)), 200},
		"ten minutes":             {r.jwt(appKey(), "RS256", r.claims(0, 10*time.Minute, "4711")), 200},
		"more than ten minutes":   {r.jwt(appKey(), "RS256", r.claims(0, 10*time.Minute+time.Second, "4711")), 401},
		"of the future":           {r.jwt(appKey(), "RS256", r.claims(time.Minute, 2*time.Minute, "4711")), 401},
		"over":                    {r.jwt(appKey(), "RS256", r.claims(-2*time.Minute, 0, "4711")), 401},
		"another App's":           {r.jwt(appKey(), "RS256", r.claims(0, time.Minute, "4712")), 401},
		"another key":             {r.jwt(stranger, "RS256", r.claims(0, time.Minute, "4711")), 401},
		"no algorithm":            {r.jwt(appKey(), "none", r.claims(0, time.Minute, "4711")), 401},
		"nothing":                 {"", 401},
		"an installation's token": {"ghs_x", 401},
	} {
		status, _, text := r.do("GET", "app", c.token, nil)
		require.Equal(t, c.want, status, "%s: %s", name, text)
	}
}

func TestTokensHaveTheirScope(t *testing.T) {
	t.Parallel()
	r := newRig(t, githubtest.Options{Permissions: map[string]string{"contents": "read", "issues": "write"}})
	for name, in := range map[string]any{
		"more than granted":    body{"permissions": body{"contents": "write"}},
		"not granted at all":   body{"permissions": body{"checks": "read"}},
		"no level":             body{"permissions": body{"contents": "root"}},
		"another's repository": body{"repository_ids": []int{999}},
		"an unknown name":      body{"repositories": []string{"nope"}},
	} {
		status, _, _ := r.do("POST", "app/installations/10/access_tokens", r.app(), in)
		require.Equal(t, 422, status, name)
	}
	status, _, _ := r.do("POST", "app/installations/11/access_tokens", r.app(), nil)
	require.Equal(t, 404, status)
	r.Suspend(10, true)
	status, _, _ = r.do("POST", "app/installations/10/access_tokens", r.app(), nil)
	require.Equal(t, 403, status)
	r.Suspend(10, false)

	one := r.token(body{"repository_ids": []int{100}, "permissions": body{"contents": "read"}})
	status, _, _ = r.do("GET", "repos/acme/api/git/ref/heads/main", one, nil)
	require.Equal(t, 200, status)
	status, _, _ = r.do("GET", "repos/acme/web/git/ref/heads/main", one, nil)
	require.Equal(t, 404, status, "outside of its repository")
	status, _, text := r.do("POST", "repos/acme/api/issues/7/comments", one, body{"body": "x"})
	require.Equal(t, 403, status)
	require.Contains(t, text, "Resource not accessible by integration")
	require.Equal(t, 403, r.Mutations()[0].Status, "refusals are recorded")
	require.Equal(t, "contents:read metadata:read", r.Mutations()[0].Token)
	require.Zero(t, r.Count(githubtest.OpCreateComment))

	all := r.token(nil)
	status, _, _ = r.do("GET", "repos/acme/web", all, nil)
	require.Equal(t, 200, status)
	r.advance(time.Hour)
	status, _, _ = r.do("GET", "repos/acme/web", all, nil)
	require.Equal(t, 401, status, "after its hour")
	require.Len(t, r.Grants(), 2)
}

func TestWhatGitHubRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, githubtest.Options{})
	tok := r.token(nil)
	r.SetBranch(100, "fix", githubtest.SHA("fix"))
	r.SetBranch(100, "same", githubtest.SHA("acme/api"))
	main := githubtest.SHA("acme/api")
	long := strings.Repeat("x", 65537)
	for name, c := range map[string]struct {
		path string
		in   body
		want int
	}{
		"check run":                 {"check-runs", body{"name": "n", "head_sha": main}, 201},
		"check run without a name":  {"check-runs", body{"head_sha": main}, 422},
		"check run of no commit":    {"check-runs", body{"name": "n", "head_sha": githubtest.SHA("?")}, 422},
		"check run, no conclusion":  {"check-runs", body{"name": "n", "head_sha": main, "status": "completed"}, 422},
		"check run, odd conclusion": {"check-runs", body{"name": "n", "head_sha": main, "conclusion": "great"}, 422},
		"check run, long":           {"check-runs", body{"name": "n", "head_sha": main, "output": body{"title": "t", "summary": long[:65536]}}, 422},
		"check run, no summary":     {"check-runs", body{"name": "n", "head_sha": main, "output": body{"title": "t"}}, 422},
		"comment":                   {"issues/7/comments", body{"body": long[:65536]}, 201},
		"comment, long":             {"issues/7/comments", body{"body": long}, 422},
		"comment, empty":            {"issues/7/comments", body{}, 422},
		"comment on nothing":        {"issues/99/comments", body{"body": "x"}, 404},
		"issue":                     {"issues", body{"title": "t"}, 201},
		"issue without title":       {"issues", body{"body": "b"}, 422},
		"pull of no branch":         {"pulls", body{"title": "t", "head": "gone", "base": "main"}, 422},
		"pull onto nothing":         {"pulls", body{"title": "t", "head": "fix", "base": "gone"}, 422},
		"pull of nothing":           {"pulls", body{"title": "t", "head": "same", "base": "main"}, 422},
		"pull without title":        {"pulls", body{"head": "fix", "base": "main"}, 422},
	} {
		status, _, text := r.do("POST", "repos/acme/api/"+c.path, tok, c.in)
		require.Equal(t, c.want, status, "%s: %s", name, text)
	}
	pull := body{"title": "t", "head": "fix", "base": "main", "draft": true}
	status, _, _ := r.do("POST", "repos/acme/api/pulls", tok, pull)
	require.Equal(t, 201, status)
	status, _, text := r.do("POST", "repos/acme/api/pulls", tok, pull)
	require.Equal(t, 422, status)
	require.Contains(t, text, "A pull request already exists for acme:fix.")
	stranger := r.AddComment(100, githubtest.Comment{Number: 7, Login: "bob", Body: "x"})
	status, _, _ = r.do("PATCH", fmt.Sprint("repos/acme/api/issues/comments/", stranger), tok, body{"body": "y"})
	require.Equal(t, 403, status, "nobody edits another's comment here")
}

func TestListsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	r := newRig(t, githubtest.Options{})
	tok := r.token(nil)
	main := githubtest.SHA("acme/api")
	for range 3 {
		_, _, _ = r.do("POST", "repos/acme/api/check-runs", tok, body{"name": "n", "head_sha": main})
	}
	count := func(query string) int {
		_, _, text := r.do("GET", "repos/acme/api/commits/main/check-runs?"+query, tok, nil)
		var out struct {
			Runs []json.RawMessage `json:"check_runs"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &out), text)
		return len(out.Runs)
	}
	require.Equal(t, 1, count(""), "the latest of each name")
	require.Equal(t, 3, count("filter=all"))
	require.Equal(t, 0, count("filter=all&app_id=1"))
	require.Equal(t, 0, count("filter=all&status=completed"))
	require.Equal(t, 2, count("filter=all&per_page=2"))

	for i := range 5 {
		_, _, _ = r.do("POST", "repos/acme/api/issues", tok, body{"title": fmt.Sprint(i), "labels": []string{"l"}})
		r.advance(time.Minute)
	}
	next, seen := "repos/acme/api/issues?creator=belay-test[bot]&labels=l&per_page=2", 0
	for next != "" {
		_, h, text := r.do("GET", next, tok, nil)
		var page []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &page), text)
		seen += len(page)
		next, _, _ = strings.Cut(strings.TrimPrefix(h.Get("Link"), "<"), ">")
	}
	require.Equal(t, 5, seen)
	_, _, text := r.do("GET", "repos/acme/api/issues?since="+r.now.Add(-90*time.Second).UTC().Format(time.RFC3339), tok, nil)
	require.Equal(t, 1, strings.Count(text, `"title"`), "those updated since")
}

func TestDeliveriesCanBeListedAndAskedForAgain(t *testing.T) {
	t.Parallel()
	again := make(chan githubtest.Delivery, 1)
	r := newRig(t, githubtest.Options{OnRedeliver: func(d githubtest.Delivery) { again <- d }})
	var first int64
	for i := range 5 {
		n := r.AddDelivery(githubtest.Delivery{GUID: fmt.Sprint("g", i), Event: "issues", Action: "assigned", StatusCode: 502, Payload: json.RawMessage(`{"a":1}`)})
		if i == 0 {
			first = n
		}
	}
	next, seen := "app/hook/deliveries?per_page=2", []string{}
	for next != "" {
		_, h, text := r.do("GET", next, r.app(), nil)
		var page []struct{ GUID string }
		require.NoError(t, json.Unmarshal([]byte(text), &page), text)
		for _, d := range page {
			seen = append(seen, d.GUID)
		}
		next, _, _ = strings.Cut(strings.TrimPrefix(h.Get("Link"), "<"), ">")
	}
	require.Equal(t, []string{"g4", "g3", "g2", "g1", "g0"}, seen)
	_, _, text := r.do("GET", fmt.Sprint("app/hook/deliveries/", first), r.app(), nil)
	require.Contains(t, text, `"payload":{"a":1}`)
	status, _, _ := r.do("POST", fmt.Sprintf("app/hook/deliveries/%d/attempts", first), r.app(), nil)
	require.Equal(t, 202, status)
	got := <-again
	require.Equal(t, "g0", got.GUID)
	require.True(t, got.Redelivery)
	require.Len(t, r.Deliveries(), 6)
	status, _, _ = r.do("POST", "app/hook/deliveries/1/attempts", r.app(), nil)
	require.Equal(t, 404, status)
}

func TestTheRateLimitIsCountedAndShown(t *testing.T) {
	t.Parallel()
	r := newRig(t, githubtest.Options{RateLimit: 2})
	tok := r.token(nil)
	for i, want := range []string{"1", "0"} {
		status, h, _ := r.do("GET", "repos/acme/api", tok, nil)
		require.Equal(t, 200, status, i)
		require.Equal(t, want, h.Get("X-RateLimit-Remaining"))
	}
	status, h, text := r.do("GET", "repos/acme/api", tok, nil)
	require.Equal(t, 403, status)
	require.Contains(t, text, "API rate limit exceeded")
	require.Equal(t, fmt.Sprint(r.now.Add(time.Hour).Unix()), h.Get("X-RateLimit-Reset"))
	r.advance(time.Hour)
	tok = r.token(nil)
	status, _, _ = r.do("GET", "repos/acme/api", tok, nil)
	require.Equal(t, 200, status)
}
