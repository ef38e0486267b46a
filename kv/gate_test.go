package kv_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

func TestOT92GatesAreKeptUntilRemoved(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, err := kv.OpenGateStore(t.Context(), env.JS)
	require.NoError(t, err)
	g := kv.Gate{Source: "default", InstallationID: 7, RepoID: 99, Repo: "acme/api", Number: 8, Operator: task.Operator{RequestID: "r1"}}
	none, err := s.Find(t.Context(), 99, 8)
	require.NoError(t, err)
	require.Nil(t, none)
	require.NoError(t, s.Close(t.Context(), g))
	require.NoError(t, s.Note(t.Context(), g, "abc", "success", time.Now()))
	require.NoError(t, s.Close(t.Context(), g), "one that is there stays")
	got, err := s.Find(t.Context(), 99, 8)
	require.NoError(t, err)
	require.Equal(t, []string{"abc", "success", "r1"}, []string{got.Head, got.Conclusion, got.Operator.RequestID})
	all, err := s.All(t.Context())
	require.NoError(t, err)
	require.Equal(t, []kv.Gate{*got}, all)
	require.NoError(t, s.Remove(t.Context(), g))
	all, err = s.All(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	require.ErrorIs(t, s.Note(t.Context(), g, "abc", "success", time.Now()), kv.ErrNotFound, "a note makes no gate")
}
