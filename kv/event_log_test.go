package kv_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/redact"
)

func openEvents(t *testing.T, env *natstest.Env) *kv.EventLog {
	t.Helper()
	l, err := kv.OpenEventLog(t.Context(), env.JS, redact.New("a-live-token-value"), func() time.Time { return noon.Time })
	require.NoError(t, err)
	return l
}

func report(stream, id string) kv.StreamEvent {
	return kv.StreamEvent{ID: id, Stream: stream, Type: "progress", Data: json.RawMessage(`{"step":"` + id + `"}`), By: "service"}
}

func ids(events []kv.StreamEvent) []string {
	out := []string{}
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

// OT-28: a reserved stream is refused for whoever asks; nothing is appended.
func TestOT28ReservedStreamsAreRefused(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openEvents(t, env)
	for _, stream := range []string{
		"cockpit-task:00000000-0000-4000-8000-000000000001", "COCKPIT-Task:x", "  cockpit-task:", "operator.acme.x", "Operator.x", "operator",
	} {
		_, err := l.Append(t.Context(), report(stream, "e1"))
		require.ErrorIs(t, err, kv.ErrReserved, stream)
	}
	require.Zero(t, messages(t, env, kv.StreamEvents))
	_, err := l.Append(t.Context(), report("operators", "e1"))
	require.NoError(t, err)
}

// OB-52: an id is taken once a stream, for a day, by the event itself, and
// over restarts.
func TestOB52EventIsDedupedOverRestarts(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithSyncAlways())
	l := openEvents(t, env)
	add := func(stream, id string) bool {
		dup, err := l.Append(t.Context(), report(stream, id))
		require.NoError(t, err)
		return dup
	}
	require.False(t, add("run", "e1"))
	require.True(t, add("run", "e1"))
	require.False(t, add("other", "e1"), "nobody takes ids of another stream")
	// What failed before it was stored has not taken its id.
	l.Hooks = &kv.Hooks{Before: func(context.Context, string, string) error { return kv.ErrUnknown }}
	_, err := l.Append(t.Context(), report("run", "e2"))
	require.ErrorIs(t, err, kv.ErrUnknown)
	l.Hooks = nil
	require.False(t, add("run", "e2"))
	env.Restart()
	l = openEvents(t, env)
	require.True(t, add("run", "e1"))
	require.True(t, add("run", "e2"))
	require.EqualValues(t, 3, messages(t, env, kv.StreamEvents))
	s, err := env.JS.Stream(t.Context(), kv.StreamEvents)
	require.NoError(t, err)
	require.Equal(t, 24*time.Hour, s.CachedInfo().Config.Duplicates)
}

func TestEventsOfAStream(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openEvents(t, env)
	got, err := l.Last(t.Context(), "run", 20)
	require.NoError(t, err)
	require.Empty(t, got)
	for i := range 30 {
		for _, stream := range []string{"run", "other"} {
			_, err := l.Append(t.Context(), report(stream, fmt.Sprint(i)))
			require.NoError(t, err)
		}
	}
	got, err = l.Last(t.Context(), "run", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"27", "28", "29"}, ids(got))
	require.Equal(t, kv.StreamEvent{V: 1, ID: "29", Stream: "run", Type: "progress", Data: json.RawMessage(`{"step":"29"}`), By: "service", At: noon}, got[2])
	got, err = l.Last(t.Context(), "run", 100)
	require.NoError(t, err)
	require.Len(t, got, 30)
	got, err = l.Last(t.Context(), "ru", 100)
	require.NoError(t, err)
	require.Empty(t, got)
}

// Events that are appended at once point back at the same one; none is missed.
func TestEventsAppendedAtOnce(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	var all sync.WaitGroup
	all.Add(6)
	var wg sync.WaitGroup
	first := openEvents(t, env)
	_, err := first.Append(t.Context(), report("run", "first"))
	require.NoError(t, err)
	for i := range 6 {
		l := openEvents(t, env)
		l.Hooks = &kv.Hooks{Before: func(context.Context, string, string) error { all.Done(); all.Wait(); return nil }}
		wg.Go(func() {
			if _, err := l.Append(context.Background(), report("run", fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_, err = first.Append(t.Context(), report("run", "last"))
	require.NoError(t, err)
	got, err := first.Last(t.Context(), "run", 20)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"first", "0", "1", "2", "3", "4", "5", "last"}, ids(got))
	require.Equal(t, "first", got[0].ID)
	require.Equal(t, "last", got[7].ID)
}

// DT-105: no secret is kept, in whatever place of the data.
func TestDT105EventsAreRedacted(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openEvents(t, env)
	e := report("run", "e1")
	e.Data = json.RawMessage(`{"a-live-token-value":["x a-live-token-value y"]}`)
	_, err := l.Append(t.Context(), e)
	require.NoError(t, err)
	s, err := env.JS.Stream(t.Context(), kv.StreamEvents)
	require.NoError(t, err)
	m, err := s.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.NotContains(t, string(m.Data), "a-live-token-value")
	require.Contains(t, string(m.Data), "[redacted-token]")
}
