package main

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSafe(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain naïve 😊": "plain naïve 😊",
		"a\x1b[31mb":    `a\x1b[31mb`,
		"a\nb\tc\rd":    `a\nb\tc\rd`,
		"\x00\x7f":      `\x00\x7f`,
		"\u0085\u009b":  `\u0085\u009b`,
		"\u2028\u2029":  `\u2028\u2029`,
		"\u202e\u2066":  `\u202e\u2066`,
		"\ufeff":        `\ufeff`,
		"\xff\xfe":      `\xff\xfe`,
		"\U000e0041":    `\U000e0041`,
	} {
		require.Equal(t, want, safe(in), "%q", in)
	}
	require.Equal(t, "a\n\tb\\r\\x1b", safeText("a\n\tb\r\x1b"))
}

func TestSafeNeverLetsControlThrough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		out := safe(in)
		require.True(t, utf8.ValidString(out))
		for _, r := range out {
			require.True(t, visible(r), "%U of %q", r, in)
		}
		require.Equal(t, out, safe(out), "what is safe stays as it is")
	})
}

func TestCutAndAge(t *testing.T) {
	t.Parallel()
	require.Equal(t, "äöü", cut("äöü", 3))
	require.Equal(t, "äö…", cut("äöüß", 3))
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for stamp, want := range map[string]string{
		"2026-01-01T23:59:59.500000Z": "0s ago", "2026-01-01T23:59:30.000000Z": "30s ago", "2026-01-01T23:00:01Z": "59m ago",
		"2025-12-31T00:00:01Z": "47h ago", "2025-12-31T00:00:00Z": "2d ago", "2026-01-03T00:00:00Z": "0s ago", "soon": "soon",
	} {
		require.Equal(t, want, age(stamp, now), stamp)
	}
}
