package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

// TestX06SecretNeverPrints puts a secret through every way out at hand.
func TestX06SecretNeverPrints(t *testing.T) {
	t.Parallel()
	const value = "hunter2-hunter2"
	s := redact.Secret(value)
	type config struct {
		Token  redact.Secret
		Inner  *redact.Secret
		List   []redact.Secret
		ByName map[string]redact.Secret
	}
	c := config{s, &s, []redact.Secret{s}, map[string]redact.Secret{"a": s}}

	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v", "%t", "%10s", "%!"} {
		fmt.Fprintf(&b, verb+"\n", s)
		fmt.Fprintf(&b, verb+"\n", c)
		fmt.Fprintf(&b, verb+"\n", &s)
	}
	fmt.Fprintln(&b, s, c, fmt.Errorf("mint %v: %w", s, fmt.Errorf("%s", s)))
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(h).Info("minted", "token", s, "config", c, slog.Group("g", "t", s))
	}
	require.NoError(t, json.NewEncoder(&b).Encode(c))

	require.NotContains(t, b.String(), value)
	require.NotContains(t, b.String(), fmt.Sprintf("%x", value))
	require.Contains(t, b.String(), redact.Hidden)

	require.Equal(t, value, s.Reveal())
	require.Contains(t, fmt.Sprint(string(s)), value, "control")
	require.Empty(t, fmt.Sprint(redact.Secret("")), "unset shows as unset")
}
