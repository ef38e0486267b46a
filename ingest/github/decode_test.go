package github

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

func sample(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/pull_request_synchronize.json")
	require.NoError(t, err)
	return b
}

func TestDecodeRealPullRequest(t *testing.T) {
	t.Parallel()
	requireLikeOracle(t, "pull_request", sample(t))
	ev, err := Decode("pull_request", sample(t))
	require.NoError(t, err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, &Event{
		Action: "synchronize", Installation: 10, Sender: "mona", Number: 7, Before: beforeSHA, After: headSHA,
		Repository: Repository{
			ID: 4711, FullName: "acme/api", CloneURL: "https://github.com/acme/api.git", DefaultBranch: "main",
		},
		PullRequest: PullRequest{
			Number: 7, Title: "Make naïve retries 😊 polite", Author: "mona", HeadSHA: headSHA, UpdatedAt: at,
			URL: "https://github.com/acme/api/pull/2", Labels: []string{"bug"}, BaseRef: "master",
		},
	}, ev)
}

func TestG27HeadIsHeadSHA(t *testing.T) {
	t.Parallel()
	ev := decode(t, "pull_request", pullEvent("opened"))
	require.Equal(t, headSHA, ev.PullRequest.HeadSHA)
	p := pull()
	delete(p, "head")
	ev = decode(t, "pull_request", with(pullEvent("opened"), object{"pull_request": p}))
	require.Empty(t, ev.PullRequest.HeadSHA, "merge_commit_sha is no substitute")
}

func TestG09AnyText(t *testing.T) {
	t.Parallel()
	body := "{ \"issue\" :\t{\"title\": \"😊 na\u00efve \\u001B[31m \\u2028 \u2028 \\ud83d\\ude0a \\ud83d x \\ud83d\\u0041\", \r\n" +
		"\"body\":\"bad \xff utf-8\", \"number\" : 7 } , \"action\":\"ass\\u0069gned\",\"\\u0073ender\":{\"login\":\"mona\"}}"
	ev, err := Decode("issues", []byte(body))
	require.NoError(t, err)
	require.Equal(t, "😊 naïve \x1b[31m \u2028 \u2028 😊 \ufffd x \ufffdA", ev.Issue.Title)
	require.Equal(t, "bad \ufffd utf-8", ev.Issue.Body)
	require.Equal(t, "assigned", ev.Action)
	require.Equal(t, "mona", ev.Sender)
}

func TestG19DriftElsewhereIsIgnored(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]object{
		"push": with(base(""), object{
			"action": nil, "deleted": "no", "before": 1, "head_commit": []any{1},
			"repository": object{"id": 4711, "full_name": "acme/api", "pushed_at": 1767323045, "created_at": 1},
		}),
		"registry_package": with(base("published"), object{"registry_package": object{"body": object{"a": 1}}}),
		"pull_request": with(pullEvent("opened"), object{
			"number": "7", "pull_request": with(pull(), object{"draft": "false", "title": object{}, "user": "mona"}),
			"sender": nil, "label": "x", "installation": object{"id": "10"},
		}),
	} {
		ev := decode(t, name, payload)
		require.EqualValues(t, 4711, ev.Repository.ID, name)
	}
	ev := decode(t, "push", object{"repository": object{"id": 1, "pushed_at": 1767323045}})
	require.Equal(t, "2026-01-02T03:04:05Z", ev.Repository.PushedAt.Format(time.RFC3339))
}

func TestWrongTypesAreAbsent(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{`null`, `true`, `[]`, `{}`, `-7`, `7.0`, `7e0`, `99999999999999999999`, `"7"`} {
		ev, err := Decode("pull_request", []byte(`{"number":`+wrong+`,"installation":{"id":`+wrong+`}}`))
		require.NoError(t, err, wrong)
		require.Equal(t, &Event{}, ev, wrong)
	}
	for _, wrong := range []string{`null`, `true`, `[]`, `{"a":1}`, `7`, `""`, `"a\u0000b"`} {
		ev, err := Decode("x", []byte(`{"action":`+wrong+`,"label":{"name":`+wrong+`},"sender":`+wrong+`}`))
		require.NoError(t, err, wrong)
		require.Equal(t, &Event{}, ev, wrong)
	}
	ev, err := Decode("pull_request", []byte(`{"number":3000000000}`))
	require.NoError(t, err)
	require.Zero(t, ev.Number)
}

func TestLastDuplicateWins(t *testing.T) {
	t.Parallel()
	ev, err := Decode("issues", []byte(`{"installation":{"id":1,"id":2},"issue":{"number":1,"title":"x"},`+
		`"issue":{"number":2},"sender":{"login":"a"},"sender":null,"action":"b","action":3,`+
		`"label":{"name":"l"},"label":{},"sender":{"login":"a"},"sender":[],"head_commit":{"timestamp":"2026-01-02T03:04:05Z"},"head_commit":{}}`))
	require.NoError(t, err)
	require.Equal(t, &Event{Installation: 2, Issue: Issue{Number: 2}}, ev)
	ev, err = Decode("issues", []byte(`{"installation":{"id":1},"installation":null,"repository":{"id":1},"repository":0,`+
		`"pull_request":{"head":{"sha":"`+headSHA+`"},"number":1,"head":{}},"comment":{"body":"x"},"comment":{}}`))
	require.NoError(t, err)
	require.Equal(t, &Event{PullRequest: PullRequest{Number: 1}}, ev)
	ev, err = Decode("issues", []byte(`{"pull_request":{"number":1},"pull_request":{},"review":{"body":"x"},"review":1}`))
	require.NoError(t, err)
	require.Equal(t, &Event{}, ev)
}

func TestBadJSON(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, ` `, `{`, `}`, `{}x`, `{}{}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{'a':1}`, `{a:1}`,
		`{"a":tru}`, `{"a":nul`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":[1,]}`,
		`{"a":[1 2]}`, `{"a":"\x"}`, `{"a":"\v"}`, `{"a":"\u12g4"}`, `{"a":"\`, `{"a":"\u1`, "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}",
		"\ufeff{}", "{\"action\":\"01234567\x1f\"}", `{"action":"`, `{"number":1`, `{"issue":{"title":"x}}`,
		`[]`, `null`, `1`, `"x"`, `Hello, World!`, "\x00", "{}\x00", `{"a":NaN}`, `[1`,
	} {
		ev, err := Decode("issues", []byte(body))
		require.ErrorIs(t, err, ErrParse, "%q", body)
		require.Nil(t, ev)
		require.NotEqual(t, ErrParse.Error(), err.Error(), "it says where")
		require.False(t, json.Valid([]byte(body)) && body[0] == '{', "%q", body)
	}
}

func TestDeepNesting(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte { // n levels with the payload's own
		return []byte(`{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`)
	}
	_, err := Decode("x", nested(maxDepth))
	require.NoError(t, err)
	_, err = Decode("x", nested(maxDepth+1))
	require.ErrorIs(t, err, ErrParse)
	for _, open := range []string{`[`, `{"a":`} {
		_, err = Decode("x", []byte(`{"issue":`+strings.Repeat(open, 5<<20/len(open))))
		require.ErrorIs(t, err, ErrParse)
	}
}

func TestTextsAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", task.MaxText)
	c := with(commentBy("mona", long), object{"diff_hunk": long})
	ev := decode(t, "issue_comment", object{
		"issue": with(issue(), object{"title": long, "body": long}), "comment": c, "action": long,
	})
	for _, s := range []string{ev.Issue.Title, ev.Issue.Body, ev.Comment.Body, ev.Comment.DiffHunk} {
		require.Equal(t, task.Cut(long, task.MaxText), s)
	}
	require.Empty(t, ev.Action, "half a name would be another name")
	for n, kept := range map[int]bool{maxName: true, maxName + 1: false, 2 * maxName: false} {
		ev = decode(t, "x", object{"action": strings.Repeat("x", n)})
		require.Equal(t, kept, len(ev.Action) == n, "%d", n)
	}
	ev = decode(t, "label", object{"issue": with(issue(), object{"title": long, "body": long}), "label": object{"name": long}})
	require.Equal(t, long[:maxLine], ev.Issue.Title, "of events without a lane a title is one line")
	require.Empty(t, ev.Issue.Body, "texts that cannot matter are not kept")
	ev = decode(t, "release", object{"release": object{"name": "v1\nmore", "title": "x" + long, "tag_name": long}})
	require.Equal(t, Subject{Name: "v1", Title: "x" + long[:maxLine-2]}, ev.Subject, "no half of a rune, no half of a tag")
}

// Not parallel: it counts what the whole process allocates.
func TestG21AllocationsDoNotGrowWithTheBody(t *testing.T) {
	push := func(size int) []byte {
		commit := `{"id":"` + headSHA + `","message":"` + strings.Repeat(`line\n`, 20) + `","added":["a","b"]},`
		return []byte(`{"commits":[` + strings.Repeat(commit, size/len(commit)) + `{}],"repository":{"id":1}}`)
	}
	title := []byte(`{"pull_request":{"title":"` + strings.Repeat(`\u00e9x`, 3<<20) + `"},"action":"` +
		strings.Repeat("x", 4<<20) + `"}`)
	for name, tt := range map[string]struct {
		body  []byte
		limit uint64
	}{
		"push of 176 KB":    {push(176 << 10), 16 << 10},
		"push of 25 MiB":    {push(25 << 20), 16 << 10},
		"a title of 24 MiB": {title, 4 * task.MaxText},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode("pull_request", tt.body)
		runtime.ReadMemStats(&after)
		require.NoError(t, err, name)
		require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, tt.limit, name)
	}
}

func TestEventKeepsNothingOfTheBody(t *testing.T) {
	t.Parallel()
	body := sample(t)
	ev, err := Decode("pull_request", body)
	require.NoError(t, err)
	want, err := Decode("pull_request", sample(t))
	require.NoError(t, err)
	clear(body)
	require.Equal(t, want, ev)
}

func TestNamesHaveTheirAlphabets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ok   func(string) bool
		yes  []string
		nope []string
	}{
		{isLogin, []string{"mona", "dependabot[bot]", "a-b", "mona_acme"}, []string{"", "a/b", "a b", "a.b", "é", "a\n"}},
		{isRepo, []string{"acme/my.repo", "acme/..x", "acme/.github", "a-b/c_d"}, []string{
			"", "acme", "acme/", "/x", "acme/..", "acme/.", "a/b/c", "acme/naïve", "acme/a b", "acme/a\r\nX: y",
		}},
		{isSHA, []string{headSHA, strings.Repeat("0f", 32)}, []string{"", "abc", headSHA + "a", strings.Repeat("g", 40)}},
		{isURL, []string{"https://github.com/acme/api.git", "http://ghes/a/b"}, []string{
			"", "ext::sh -c x", "file:///etc", "-uhttps://x", "https://x y", "https://x\n", "git@github.com:a/b",
		}},
		{isPlain, []string{"good first issue", "feat/naïve@x", "😊"}, []string{"", "a\x1b[31m", "a\n", "\u0085"}},
		{isID, []string{"1", "12345678901234567890"}, []string{"", "1a", "123456789012345678901", "-1"}},
	} {
		for _, s := range tt.yes {
			require.True(t, tt.ok(s), "%q", s)
		}
		for _, s := range tt.nope {
			require.False(t, tt.ok(s), "%q", s)
		}
	}
}

func payloads() []object {
	return []object{
		issuesEvent("assigned"), issueCommentEvent(true, "@cody fix \x1b😊"), submittedEvent(nil), reviewCommentEvent("x"),
		with(base("labeled"), object{"label": object{"name": "x"}, "assignee": account("a[bot]"), "deleted": true}),
	}
}

func requireLikeOracle(t require.TestingT, event string, body []byte) {
	want, ok := oracle(event, body)
	got, err := Decode(event, body)
	if !ok {
		require.ErrorIs(t, err, ErrParse, "%q", body)
		return
	}
	require.NoError(t, err, "%q", body)
	require.Equal(t, want, got, "%q", body)
}

// TestDecodeProperty edits good payloads at random and compares with
// encoding/json, the good and the broken ones alike.
func TestDecodeProperty(t *testing.T) {
	t.Parallel()
	bits := rapid.SampledFrom([]string{
		"", "{", "}", "[", "]", ",", ":", `"`, `\`, `\u00e9`, `\ud83d`, `\ude0a`, "\xff", "\x00", "\n", "0", "-", "1e5", ".5",
		"null", "true", "false", `"id":3,`, `"number":"x",`, `"action":"y",`, `{"a":[1]},`, " \t\r\n", "é", "x",
	})
	rapid.Check(t, func(t *rapid.T) {
		body, err := json.Marshal(rapid.SampledFrom(payloads()).Draw(t, "payload"))
		require.NoError(t, err)
		for range rapid.IntRange(0, 4).Draw(t, "edits") {
			from := rapid.IntRange(0, len(body)).Draw(t, "from")
			to := min(len(body), from+rapid.IntRange(0, 3).Draw(t, "length"))
			body = slices.Replace(body, from, to, []byte(bits.Draw(t, "bit"))...)
			requireLikeOracle(t, "issue_comment", body)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, p := range payloads() {
		b, err := json.Marshal(p)
		require.NoError(f, err)
		f.Add("issue_comment", b)
	}
	f.Add("push", []byte(`{"deleted":true,"head_commit":{"timestamp":"2026-01-02T03:04:05.5+01:00"},"repository":{"pushed_at":1767323045}}`))
	f.Add("issues", []byte(`{"issue":{"title":"\ud83d\ude0a\ud83d\u0041\"\\\/\b\f\n\r\t","title":"`+"\xff"+`"},"\u0061ction":"x"}`))
	f.Add("x", []byte(`{"a":[{"b":[-0.1e+5,1E-3,0,true,false,null,"",{},[]]}]}`))
	f.Add("x", []byte(`[1,2`))
	for event, payload := range ruledPayloads() {
		b, err := json.Marshal(payload)
		require.NoError(f, err)
		f.Add(event, b)
	}
	f.Add("issues", []byte(`{"issue":{"labels":["a",{"name":"b"},{"name":[]},7,null,{"name":"c\u0001"}],"html_url":"ext::x"},"ref":"a\u0000"}`))
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		requireLikeOracle(t, event, body)
	})
}
