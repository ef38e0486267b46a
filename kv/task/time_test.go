package task_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

// DT-28: fixed width, UTC, microseconds: text order is time order.
func TestDT28TimesSortAsText(t *testing.T) {
	t.Parallel()
	draw := rapid.Custom(func(t *rapid.T) task.Time {
		zone := time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "zone"))
		return task.At(time.Unix(rapid.Int64Range(-60e9, 250e9).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).In(zone))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		require.Equal(t, a.UTC().Format(task.TimeLayout), a.String())
		require.Len(t, a.String(), 27)
		require.Equal(t, a.Compare(b.Time), strings.Compare(a.String(), b.String()))
		j, err := json.Marshal(a)
		require.NoError(t, err)
		var back task.Time
		require.NoError(t, json.Unmarshal(j, &back))
		require.Equal(t, a, back, "== holds after a round trip")
		text, err := a.MarshalText()
		require.NoError(t, err)
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, a, back)
	})
}

func TestTimeReadsWhatGitHubWrites(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"2026-03-01T12:00:00Z"`:           "2026-03-01T12:00:00.000000Z",
		`"2026-03-01T13:00:00.5+01:00"`:    "2026-03-01T12:00:00.500000Z",
		`"2026-03-01T12:00:00.123456789Z"`: "2026-03-01T12:00:00.123456Z",
		`""`:                               "",
		`null`:                             "",
		`"0001-01-01T00:00:00Z"`:           "",
	} {
		var got task.Time
		require.NoError(t, json.Unmarshal([]byte(in), &got), in)
		require.Equal(t, want, got.String(), in)
		require.Equal(t, want == "", got.IsZero())
	}
	for _, bad := range []string{`1`, `"yesterday"`, `{}`, `"9999-12-31T23:59:59-01:00"`, `"0000-01-01T00:00:00+01:00"`, `"2026-13-01T00:00:00Z"`} {
		var got task.Time
		require.Error(t, json.Unmarshal([]byte(bad), &got), bad)
	}
	b, err := json.Marshal(struct {
		A task.Time `json:"a"`
		B task.Time `json:"b,omitzero"`
	}{})
	require.NoError(t, err)
	require.Equal(t, `{"a":""}`, string(b))
}
