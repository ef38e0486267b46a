package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/redact"
)

// sendTo is the command line of a send to a stub, with a configuration that
// has a secret and a familiar.
func sendTo(t *testing.T, s *stub, args ...string) result {
	t.Helper()
	path := configFile(t, "[server]\nlisten = \""+strings.TrimPrefix(s.URL, "http://")+
		"\"\n[github]\nwebhook_secrets = [\"the-newest-secret\", \"the-old-secret\"]\n"+someFamiliar)
	return tryInput(t, `{"from":"stdin"}`, nil, append([]string{"send", "--config", path}, args...)...)
}

const acceptedTask = `{"ok":true,"task":"t1"}`

func TestSendSignsAsGitHubDoes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		sign("It's a Secret to Everybody", []byte("Hello, World!")), "the vector of GitHub's documentation")

	s := newStub(t, says(200, acceptedTask))
	got := sendTo(t, s, "issues.labeled")
	require.Equal(t, exitOK, got.code, got.err)
	r := s.requests()[0]
	require.Equal(t, "POST /webhook", r.method+" "+r.uri)
	require.Equal(t, "issues", r.header.Get("X-GitHub-Event"))
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, r.header.Get("X-GitHub-Delivery"))
	require.Equal(t, sign("the-newest-secret", []byte(r.body)), r.header.Get("X-Hub-Signature-256"))
	require.Equal(t, "issues.labeled "+r.header.Get("X-GitHub-Delivery")+": task t1 (belay tasks show t1)\n", got.out)
	require.Empty(t, r.header.Get("Authorization"))
}

func TestSendReachesTheFirstFamiliar(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, acceptedTask))
	for _, event := range []string{"issues.labeled", "issues.assigned", "issue_comment.created"} {
		require.Equal(t, exitOK, sendTo(t, s, event).code)
	}
	at := func(i int, path ...string) any { return dig(t, s.requests()[i].body, path...) }
	require.Equal(t, "bug", at(0, "label", "name"))
	require.Equal(t, "2026-03-04T05:06:07.891011Z", at(0, "issue", "updated_at"))
	require.Equal(t, "coven-cody[bot]", at(1, "assignee", "login"))
	require.Equal(t, "@coven-cody status", at(2, "comment", "body"))
}

// dig reads a value of a JSON text.
func dig(t *testing.T, text string, path ...string) any {
	t.Helper()
	var node any
	require.NoError(t, json.Unmarshal([]byte(text), &node))
	for _, key := range path {
		object, ok := node.(map[string]any)
		require.True(t, ok, "%s of %s", key, text)
		node = object[key]
	}
	return node
}

func TestBuiltinPayloadsAreWhole(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"issue_comment.created", "issues.assigned", "issues.labeled", "ping",
		"pull_request.closed", "pull_request.opened", "pull_request.synchronize", "push",
	}, builtin())
	v := newVocabulary(config.Default(""), clock)
	for _, event := range builtin() {
		tree, err := loadPayload(event, nil, v)
		require.NoError(t, err)
		body, err := encode(tree)
		require.NoError(t, err)
		require.NotContains(t, string(body), "$", "%s has a word that nothing replaces", event)
		again, err := loadPayload(event, nil, newVocabulary(config.Default(""), clock))
		require.NoError(t, err)
		require.NotEqual(t, tree, again, "two %s at one time are two bodies", event)
		if _, action, ok := strings.Cut(event, "."); ok {
			require.Equal(t, action, tree["action"])
		}
	}
}

func TestSendSets(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, acceptedTask))
	got := sendTo(t, s, "issues.labeled", "--set", "issue.title=Hello, <world>", "--set", "issue.number=43",
		"--set", "issue.labels.0.name=x=y", "--set", "a.b=true", "--set", `repository.full_name="my/repo"`, "--set", "issue.updated_at=2020-01-01T00:00:00Z")
	require.Equal(t, exitOK, got.code, got.err)
	body := s.requests()[0].body
	require.Equal(t, "Hello, <world>", dig(t, body, "issue", "title"))
	require.Contains(t, body, "<world>", "as GitHub writes it")
	require.InDelta(t, 43, dig(t, body, "issue", "number"), 0)
	require.Equal(t, true, dig(t, body, "a", "b"))
	require.Equal(t, "my/repo", dig(t, body, "repository", "full_name"))
	require.Equal(t, "2020-01-01T00:00:00Z", dig(t, body, "issue", "updated_at"))
	require.Contains(t, body, `"name":"x=y"`)
	for _, bad := range []string{"x", "=1", "action.x=1", "issue.labels.7=1", "issue.labels.x.y=1"} {
		got := sendTo(t, s, "issues.labeled", "--set", bad)
		require.Equal(t, exitUsage, got.code, bad)
		require.Contains(t, got.err, "--set "+bad)
	}
}

func TestSendFiles(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, acceptedTask))
	text := `{"action":"x","id":12345678901234567890,"issue":{"updated_at":"2001-01-01T00:00:00Z","created_at":"2001-01-01T00:00:00Z","closed_at":null},"repository":{"pushed_at":1000}}`
	path := filepath.Join(t.TempDir(), "p.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

	require.Equal(t, exitOK, sendTo(t, s, "issues.labeled", "--file", path).code)
	require.JSONEq(t, `{"action":"labeled","id":12345678901234567890,"issue":{"updated_at":"2026-03-04T05:06:07.891011Z","created_at":"2001-01-01T00:00:00Z","closed_at":null},"repository":{"pushed_at":1772600767}}`,
		s.requests()[0].body)
	require.Contains(t, s.requests()[0].body, "12345678901234567890", "numbers stay as they are")

	require.Equal(t, exitOK, sendTo(t, s, "brand_new", "--file", path, "--raw", "--form").code)
	r := s.requests()[1]
	require.Equal(t, "application/x-www-form-urlencoded", r.header.Get("Content-Type"))
	require.Equal(t, sign("the-newest-secret", []byte(r.body)), r.header.Get("X-Hub-Signature-256"), "over the form's bytes")
	form, err := url.ParseQuery(r.body)
	require.NoError(t, err)
	require.Equal(t, text, form.Get("payload"))

	require.Equal(t, exitOK, sendTo(t, s, "x", "--file", "-").code)
	require.JSONEq(t, `{"from":"stdin"}`, s.requests()[2].body)

	require.NoError(t, os.WriteFile(path, []byte("[1]"), 0o600))
	got := sendTo(t, s, "x", "--file", path)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "no JSON object")
	got = sendTo(t, s, "check_run")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "issues.labeled")
	require.Equal(t, exitError, sendTo(t, s, "x", "--file", path+"x").code)
	require.Len(t, s.requests(), 3)
}

func TestSendManyAndOneID(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"ok":true,"task":"t1","duplicate":true}`))
	require.Equal(t, 3, strings.Count(sendTo(t, s, "ping", "--count", "3").out, "\n"))
	ids := map[string]bool{}
	for _, r := range s.requests() {
		ids[r.header.Get("X-GitHub-Delivery")] = true
	}
	require.Len(t, ids, 3)
	got := sendTo(t, s, "ping", "--delivery", "mine")
	require.Contains(t, got.out, "ping mine: a duplicate: task t1")
	require.Equal(t, "mine", s.requests()[3].header.Get("X-GitHub-Delivery"))
	require.NotEqual(t, s.requests()[0].body, s.requests()[1].body)

	require.Equal(t, exitOK, sendTo(t, s, "ping", "--delivery", "mine", "--count", "2").code)
	require.Equal(t, s.requests()[4].body, s.requests()[5].body, "a redelivery is the same again")
}

func TestSendPrintsAnswers(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		status int
		body   string
		want   string
		code   int
	}{
		"pong":      {200, `{"ok":true,"pong":true}`, "pong\n", exitOK},
		"ignored":   {200, `{"ok":true,"ignored":"scope"}`, "ignored: scope (the trigger is switched off: for pull requests set pull_request = true under [review])\n", exitOK},
		"duplicate": {200, `{"ok":true,"ignored":"closed","duplicate":true}`, "a duplicate: ignored: closed\n", exitOK},
		"401":       {401, `{"error":"invalid signature"}`, "invalid signature: the server has another webhook secret", exitError},
		"409":       {409, `{"error":"delivery id reused with another body"}`, "leave --delivery out", exitError},
		"503":       {503, `{"error":"storage unavailable"}`, "storage unavailable: try again in 30 s", exitError},
		"404":       {404, `not found`, "answered 404, and not as belay does: check --server", exitError},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r request) {
				w.Header().Set("Retry-After", "30")
				says(row.status, row.body)(w, r)
			})
			got := sendTo(t, s, "ping")
			require.Equal(t, row.code, got.code)
			require.Contains(t, got.out, row.want)
			if row.code != exitOK {
				require.Contains(t, got.err, "1 of 1 not accepted")
			}
			got = sendTo(t, s, "ping", "-o", "json", "--delivery", "d")
			require.Equal(t, row.code, got.code)
			if json.Valid([]byte(row.body)) {
				require.JSONEq(t, `{"event":"ping","delivery":"d","status":`+strconv.Itoa(row.status)+`,"answer":`+row.body+`}`, got.out)
			}
		})
	}
}

func TestSendSecrets(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, acceptedTask))
	dir := t.TempDir()
	path := configFile(t, "[storage]\ndir = \""+dir+"\"\n"+someFamiliar)
	got := try(t, nil, "send", "ping", "--config", path, "--server", s.URL)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "start `belay serve` once")
	require.Empty(t, s.requests())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "webhook-secret"), []byte("made-by-serve\n"), 0o600))
	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, []byte("of-a-file\n"), 0o600))
	for i, row := range []struct {
		args   []string
		secret string
	}{{nil, "made-by-serve"}, {[]string{"--secret", "of-the-flag"}, "of-the-flag"}, {[]string{"--secret-file", other}, "of-a-file"}} {
		got := try(t, nil, append([]string{"send", "ping", "--config", path, "--server", s.URL}, row.args...)...)
		require.Equal(t, exitOK, got.code, got.err)
		require.NotContains(t, got.out+got.err, row.secret)
		r := s.requests()[i]
		require.Equal(t, sign(redact.Secret(row.secret), []byte(r.body)), r.header.Get("X-Hub-Signature-256"))
	}
}
