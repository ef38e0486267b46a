package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	signSecret = "an-operator-key-of-some-length"
	requestUID = "0b8f6a52-6f0e-4d8e-9a3e-0c6a4d1f2e3b"
	oneRequest = `{"id":"` + requestUID + `","state":"proposed","revision":1,"owner":{"tenant":"invotek","operator":"ann","conversation":"c1"},` +
		`"repo":"acme/site","title":"Fix the door\u001b[31m","body":"It squeaks.","proposedAt":"2026-03-04T05:04:07.000000Z",` +
		`"expiresAt":"2026-03-05T05:04:07.000000Z","updatedAt":"2026-03-04T05:04:07.000000Z"}`
)

// ann is the environment of an operator.
var ann = []string{"BELAY_SIGN_KEY=worker", "BELAY_SIGN_SECRET=" + signSecret, "BELAY_SIGN_AS=ann", "BELAY_SIGN_CONVERSATION=c1"}

// wantSigned checks a request's signature by the words of the README.
func wantSigned(t *testing.T, r request, key, secret, operator, conversation string) {
	t.Helper()
	h := r.header
	require.Equal(t, key, h.Get("X-Belay-Key"))
	require.Equal(t, operator, h.Get("X-Belay-Operator"))
	require.Equal(t, conversation, h.Get("X-Belay-Conversation"))
	require.Equal(t, strconv.FormatInt(clock.Unix(), 10), h.Get("X-Belay-Timestamp"))
	require.GreaterOrEqual(t, len(h.Get("X-Belay-Nonce")), 16)
	sum := sha256.Sum256([]byte(r.body))
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(strings.Join([]string{
		r.method, r.uri, h.Get("X-Belay-Timestamp"), h.Get("X-Belay-Nonce"), operator, conversation, hex.EncodeToString(sum[:]),
	}, "\n") + "\n"))
	require.Equal(t, "v1="+hex.EncodeToString(mac.Sum(nil)), h.Get("X-Belay-Signature"))
}

func TestOperatorCommands(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"code":"Existing","task":`+oneRequest+`,"release":{"number":8,"head":"abc"}}`))
	head := strings.Repeat("a", 40)
	for i, row := range []struct{ args, method, uri, body string }{
		{"propose --title T --body B --id " + requestUID, "POST", "/api/operator/tasks", `{"body":"B","requestId":"` + requestUID + `","title":"T"}`},
		{"show " + requestUID, "GET", "/api/operator/tasks/" + requestUID, ""},
		{"confirm --revision 1 " + requestUID, "POST", "/api/operator/tasks/" + requestUID + "/confirm", `{"revision":1}`},
		{"reconcile " + requestUID, "POST", "/api/operator/tasks/" + requestUID + "/reconcile", `{}`},
		{"reconcile --revision 4 " + requestUID, "POST", "/api/operator/tasks/" + requestUID + "/reconcile", `{"revision":4}`},
		{"release --pull 8 --head " + head + " " + requestUID, "POST", "/api/operator/tasks/" + requestUID + "/release", `{"head":"` + head + `","number":8}`},
	} {
		got := try(t, ann, append([]string{"operator"}, append(strings.Fields(row.args), "--server", s.URL)...)...)
		require.Equal(t, exitOK, got.code, "%s: %s", row.args, got.err)
		r := s.requests()[i]
		require.Equal(t, row.method, r.method)
		require.Equal(t, row.uri, r.uri)
		require.Equal(t, row.body, r.body)
		wantSigned(t, r, "worker", signSecret, "ann", "c1")
		for _, want := range []string{requestUID, "proposed", `Fix the door\x1b[31m`, "ann in c1, tenant invotek", "#8 at abc", "belay operator confirm " + requestUID + " --revision 1"} {
			require.Contains(t, got.out, want)
		}
	}
	got := try(t, ann, "operator", "show", requestUID, "--server", s.URL, "-o", "json")
	var out struct{ Task struct{ Title string } }
	require.NoError(t, json.Unmarshal([]byte(got.out), &out))
	require.Equal(t, "Fix the door\x1b[31m", out.Task.Title)
	nonces := map[string]bool{}
	for _, r := range s.requests() {
		nonces[r.header.Get("X-Belay-Nonce")] = true
	}
	require.Len(t, nonces, 7, "each has its own")

	got = tryInput(t, "from stdin", ann, "operator", "propose", "--title", "T", "--body-file", "-", "--server", s.URL)
	require.Equal(t, exitOK, got.code, got.err)
	body := s.requests()[7].body
	require.Contains(t, body, "from stdin")
	require.Regexp(t, `"requestId":"[0-9a-f]{8}-[0-9a-f-]{27}"`, body)
}

// The key is that of the flags, of the environment, or of the configuration
// and then only for its own address.
func TestOperatorKeys(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, `{"code":"Existing","task":`+oneRequest+`}`))
	dir := t.TempDir()
	secret, conf := filepath.Join(dir, "key"), filepath.Join(dir, "belay.toml")
	require.NoError(t, os.WriteFile(secret, []byte("a-secret-of-a-file-of-its-own\n"), 0o600))
	require.NoError(t, os.WriteFile(conf, []byte("[server]\nlisten = \""+strings.TrimPrefix(s.URL, "http://")+"\"\n[operator]\nrepo = \"acme/site\"\n"+
		"[[operator.keys]]\nid = \"one\"\nsecret = \"0123456789abcdef0123\"\n[[operator.keys]]\nid = \"two\"\nsecret = \"fedcba9876543210fedc\"\n"+
		"[[familiars]]\nid = \"cody\"\nbot_username = \"cody[bot]\"\n"), 0o600))
	me := ann[2:]
	for i, row := range []struct {
		env         []string
		args        []string
		key, secret string
	}{
		{me, []string{"--config", conf}, "one", "0123456789abcdef0123"},
		{me, []string{"--config", conf, "--key", "two"}, "two", "fedcba9876543210fedc"},
		{me, []string{"--config", conf, "--key", "three", "--secret-file", secret}, "three", "a-secret-of-a-file-of-its-own"},
		{ann, []string{"--config", conf}, "worker", signSecret},
		{ann, []string{"--server", s.URL, "--secret-file", secret, "--key", "k"}, "k", "a-secret-of-a-file-of-its-own"},
	} {
		got := try(t, row.env, append([]string{"operator", "show", requestUID}, row.args...)...)
		require.Equal(t, exitOK, got.code, got.err)
		wantSigned(t, s.requests()[i], row.key, row.secret, "ann", "c1")
	}
	n := len(s.requests())
	for want, row := range map[string]struct {
		env  []string
		args []string
	}{
		"--as is missing":              {ann[:2], nil},
		"--conversation is missing":    {ann[:3], nil},
		"--secret-file is missing":     {me, []string{"--server", s.URL}},
		"--key is missing":             {ann[1:], []string{"--server", s.URL}},
		"no such key":                  {me, []string{"--config", conf, "--key", "three"}},
		"read --secret-file":           {me, []string{"--config", conf, "--secret-file", filepath.Join(dir, "none")}},
		"is no request's id":           {ann, []string{"--server", s.URL, "UPPER"}},
		"there is no key to sign with": {me, []string{"--config", withoutKeys(t, conf)}},
		"--revision is missing":        {ann, []string{"confirm"}},
		"--pull and --head are needed": {ann, []string{"release", "--pull", "1"}},
		"--title is missing":           {ann, []string{"propose"}},
		"write a UUID in lower case":   {ann, []string{"propose", "--title", "t", "--id", "X"}},
		"none of the others can be":    {ann, []string{"propose", "--title", "t", "--body", "b", "--body-file", "f"}},
	} {
		args := append([]string{"operator", "show", requestUID}, row.args...)
		if len(row.args) > 0 && !strings.HasPrefix(row.args[0], "-") {
			args = append([]string{"operator"}, row.args...)
			if row.args[0] != "propose" {
				args = append(args, requestUID)
			}
		}
		if len(row.args) == 3 && row.args[2] == "UPPER" {
			args = []string{"operator", "show", "UPPER", "--server", s.URL}
		}
		got := try(t, row.env, args...)
		require.NotEqual(t, exitOK, got.code, want)
		require.Contains(t, got.err, want)
		require.NotContains(t, got.err, signSecret)
	}
	require.Len(t, s.requests(), n, "nothing was sent")
}

// withoutKeys is the configuration without [operator].
func withoutKeys(t *testing.T, conf string) string {
	t.Helper()
	b, err := os.ReadFile(conf)
	require.NoError(t, err)
	text := string(b)
	from, to := strings.Index(text, "[operator]"), strings.Index(text, "[[familiars]]")
	path := filepath.Join(t.TempDir(), "belay.toml")
	require.NoError(t, os.WriteFile(path, []byte(text[:from]+text[to:]), 0o600))
	return path
}

// Each answer that is no success says what it means, and what to do.
func TestOperatorAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		body   string
		want   []string
	}{
		"Conflict":  {409, `{"code":"Conflict","task":` + strings.Replace(oneRequest, "proposed", "approved", 1) + `}`, []string{"conflict", "approved at revision 1", "belay operator show " + requestUID}},
		"Uncertain": {504, `{"code":"Uncertain"}`, []string{"nobody knows yet", "--id " + requestUID}},
		"NotFound":  {404, `{"code":"NotFound"}`, []string{"not found", "operator ann in conversation c1", "--as"}},
		"Forbidden": {403, `{"code":"Forbidden"}`, []string{"forbidden", "belay doctor --online"}},
		"Expired":   {410, `{"code":"Expired"}`, []string{"expired", "propose it anew"}},
		"401":       {401, `{"ok":false,"error":"unauthorized"}`, []string{"unauthorized", "clocks"}},
		"blocked":   {503, `{"error":"operator tasks are blocked until [operator] keys and repo are set"}`, []string{"[operator] keys", "belay doctor"}},
		"400":       {400, `{"error":"parameter title must be one line"}`, []string{"parameter title"}},
		"no belay":  {200, `<html>`, []string{"check --server"}},
	} {
		s := newStub(t, says(row.status, row.body))
		got := try(t, ann, "operator", "confirm", requestUID, "--revision", "1", "--server", s.URL)
		require.Equal(t, exitError, got.code, name)
		require.Empty(t, got.out)
		for _, want := range row.want {
			require.Contains(t, got.err, want, name)
		}
	}
	s := newStub(t, says(409, `{"code":"Conflict"}`))
	got := try(t, ann, "operator", "confirm", requestUID, "--revision", "1", "--server", s.URL, "-o", "json")
	require.Equal(t, exitError, got.code)
	require.JSONEq(t, `{"code":"Conflict"}`, got.out, "scripts see the code")
}

// What was reported of a task is shown with it.
func TestTasksShowEvents(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, strings.Replace(oneTask, `"outbox":[]`,
		`"outbox":[],"events":[{"id":"e1","type":"progress","data":{"step":"a\u001b[31m"},"at":"2026-03-04T05:04:00.000000Z"},{"id":"e2","type":"heartbeat","at":"2026-03-04T05:04:05.000000Z"}]`, 1)))
	got := try(t, nil, "tasks", "show", "t1", "--server", s.URL)
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "\nevent 2026-03-04T05:04:00.000000Z progress {\"step\":\"a\\u001b[31m\"}\nevent 2026-03-04T05:04:05.000000Z heartbeat\n")
}
