package redact_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

const (
	live  = "tok-live/0123456789"
	run20 = "ABCDEFGHIJ0123456789"
)

// jwt is a token of the kind that carries a JWT.
const jwt = "ghs_1234567_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2lnbmF0-dXJl_Q"

// cases are the rules of REQUIREMENTS §Contract, each with what must stay.
var cases = map[string]struct{ in, want string }{
	"nothing":               {"plain text, ghost, github, x-axis", "plain text, ghost, github, x-axis"},
	"live":                  {"a " + live + " b", "a [redacted-token] b"},
	"live twice, touching":  {live + live, "[redacted-token]"},
	"live cut short":        {live[:len(live)-1], live[:len(live)-1]},
	"live in JSON":          {`{"t":"quo\"ted\u003c"}`, `{"t":"[redacted-token]"}`},
	"live in plain JSON":    {`{"t":"quo\"ted<"}`, `{"t":"[redacted-token]"}`},
	"live in a URL":         {"?t=quo%22ted%3C&x=1", "?t=[redacted-token]&x=1"},
	"ghs":                   {"x ghs_" + run20 + ".", "x [redacted-token]."},
	"ghp":                   {"ghp_" + run20 + " ", "[redacted-token] "},
	"gho":                   {"gho_" + run20 + "\n", "[redacted-token]\n"},
	"ghu":                   {"ghu_" + run20, "[redacted-token]"},
	"ghr":                   {"ghr_" + run20 + "-", "[redacted-token]-"},
	"github_pat":            {"=github_pat_11A_" + run20 + ";", "=[redacted-token];"},
	"19 characters":         {"ghs_" + run20[1:] + " ghp_", "ghs_" + run20[1:] + " ghp_"},
	"other prefix":          {"ghx_" + run20, "ghx_" + run20},
	"behind letters":        {"xxghp_" + run20, "xx[redacted-token]"},
	"with a JWT":            {"t " + jwt + ". Then", "t [redacted-token]. Then"},
	"userinfo":              {"https://x-access-token:abc@github.com/a/b", "https://[redacted-token]@github.com/a/b"},
	"userinfo with a token": {"https://x-access-token:ghs_" + run20 + "@h", "https://[redacted-token]@h"},
	"userinfo, empty":       {"x-access-token: none", "x-access-token: none"},
	"basic header":          {"basic eC1hY2Nlc3MtdG9rZW46YWJj\n", "basic [redacted-token]\n"},
	"live behind a token":   {"ghs_" + run20 + live + "!", "[redacted-token]!"},
	"token behind live":     {live + "ghs_" + run20 + "!", "[redacted-token]!"},
	"overlapping live":      {"one-two-three", "[redacted-token]"},
	"longest live":          {"longest-of-all.", "[redacted-token]."},
	"shorter live":          {"longest-of-a", "[redacted-token]-of-a"},
	"utf-8":                 {"é" + live + "ü", "é[redacted-token]ü"},
}

func redactor() *redact.Redactor {
	return redact.New(live, `quo"ted<`, "one-two", "two-three", "longest", "longest-of-all", "", "abc")
}

// TestDT105Cases is the scan with its negative control: without a redactor
// the secrets are there.
func TestDT105Cases(t *testing.T) {
	t.Parallel()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, redactor().String(c.in))
			require.Equal(t, c.want, redactor().String(redactor().String(c.in)), "a second pass changes nothing")
		})
	}
	all := ""
	for _, c := range cases {
		all += c.in + "\n"
	}
	require.Contains(t, all, live, "control")
	out := redactor().String(all)
	require.NotContains(t, out, live)
	require.NotRegexp(t, `(gh[spour]|github_pat)_\w{20}`, out)
	require.NotRegexp(t, `x-access-token:\S+@`, out)
}

// TestDT42EveryCut writes each case cut in two at every byte, and byte by byte.
func TestDT42EveryCut(t *testing.T) {
	t.Parallel()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for cut := range len(c.in) + 1 {
				require.Equal(t, c.want, stream(t, c.in[:cut], c.in[cut:]), "cut at %d", cut)
			}
			require.Equal(t, c.want, stream(t, strings.Split(c.in, "")...))
		})
	}
}

func stream(t *testing.T, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := redactor().Writer(&b)
	for _, p := range parts {
		n, err := io.WriteString(w, p)
		require.NoError(t, err)
		require.Equal(t, len(p), n)
	}
	require.NoError(t, w.Close())
	return b.String()
}

func TestContainsKnowsLiveValuesOnly(t *testing.T) {
	t.Parallel()
	r := redactor()
	require.True(t, r.Contains("x"+live+"x"))
	require.True(t, r.Contains(`{"t":"quo\"ted\u003c"}`))
	require.False(t, r.Contains("ghs_"+run20), "a shape is no live value")
	require.False(t, r.Contains("abc"), "too short to be one")
	require.False(t, redact.New().Contains(live), "control")
}

func TestAddReachesOpenWriters(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	r := redact.New()
	w := r.Writer(&b)
	_, err := io.WriteString(w, live+" ")
	require.NoError(t, err)
	r.Add(live)
	_, err = io.WriteString(w, live)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Equal(t, live+" "+redact.Marker, b.String())
}

func TestWriterReturnsTheTargetsError(t *testing.T) {
	t.Parallel()
	want := errors.New("full")
	w := redact.New().Writer(refuse{want})
	n, err := io.WriteString(w, "abc")
	require.ErrorIs(t, err, want)
	require.Zero(t, n)
}

type refuse struct{ err error }

func (r refuse) Write([]byte) (int, error) { return 0, r.err }

// FuzzStream holds the one law of the package: however a text is cut, the
// writer passes on what String returns, and no live value is in it.
func FuzzStream(f *testing.F) {
	for _, c := range cases {
		f.Add(c.in, uint16(3), uint16(11))
	}
	f.Fuzz(func(t *testing.T, s string, a, b uint16) {
		i := min(int(a), len(s))
		j := i + min(int(b), len(s)-i)
		want := redactor().String(s)
		require.Equal(t, want, stream(t, s[:i], s[i:j], s[j:]))
		require.NotContains(t, strings.ReplaceAll(want, redact.Marker, "\x00"), live)
	})
}

func BenchmarkWriter(b *testing.B) {
	w := redactor().Writer(io.Discard)
	p := bytes.Repeat([]byte("the quick brown fox goes to x and e; "), 1000)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		_, _ = w.Write(p)
	}
}
