package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func TestInstallationsAndTheirAccounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.Empty(t, b.Installations())
	b.tasks(rec(1, inst(9)), rec(2), rec(3, inst(9), func(r *task.Record) {
		r.Repo, r.UpdatedAt = "newer/name", task.At(noon.Add(time.Second))
	}), rec(4, inst(5), func(r *task.Record) { r.Kind = task.Kind{Name: task.CommandReply} }))
	require.Equal(t, []int64{7, 9}, b.Installations())
	require.Equal(t, "acme", b.Account(7))
	require.Equal(t, "newer", b.Account(9))
	require.Empty(t, b.Account(5))
	i, ok := b.InstallationOf(id(1))
	require.True(t, ok)
	require.EqualValues(t, 9, i)
	gone := rec(1, inst(9)).Uninstall(noon)
	b.tasks(gone)
	i, ok = b.InstallationOf(id(1))
	require.True(t, ok, "a tombstone has one too")
	require.EqualValues(t, 9, i)
	_, ok = b.InstallationOf(id(77))
	require.False(t, ok)
}
