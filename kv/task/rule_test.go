package task_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// A rule's task has the key of its group; without a group it has none, and a
// review that a rule made has that of every review.
func TestKeyOfARulesTask(t *testing.T) {
	t.Parallel()
	made := func(k task.Kind, group string) task.Record {
		r, err := task.New(task.Delivery{
			V: task.Version, Source: "default", ID: "g1", Event: "push", InstallationID: 7, RepoID: 11, Repo: "acme/api",
			Task: &task.Spec{ID: "t1", FamiliarID: "cody", Kind: k, Rule: &task.Rule{Name: "deploy", Group: group}},
		}, 3, task.At(time.Now()))
		require.NoError(t, err)
		require.Equal(t, &task.Rule{Name: "deploy", Group: group}, r.Rule)
		return r
	}
	custom := task.Kind{Name: task.Custom, Custom: task.CustomKind{Name: "deploy", Event: "push"}}
	r := made(custom, task.BranchGroup("main"))
	k, ok := r.Key()
	require.True(t, ok)
	require.Equal(t, task.SupersedeKey{InstallationID: 7, RepoID: 11, FamiliarID: "cody", Rule: "deploy", Group: "@main"}, k)
	require.Equal(t, "acme/api@main", r.SupersedeKey)
	require.Equal(t, "7/11#0/cody/deploy@main", k.String())
	r = made(custom, task.PullGroup(5))
	require.Equal(t, "acme/api#5", r.SupersedeKey)
	r = made(custom, "")
	_, ok = r.Key()
	require.False(t, ok)
	require.Empty(t, r.SupersedeKey)
	r = made(task.Kind{Name: task.ReviewPullRequest, PRNumber: 5}, task.PullGroup(5))
	k, _ = r.Key()
	require.Equal(t, task.SupersedeKey{InstallationID: 7, RepoID: 11, Number: 5, FamiliarID: "cody"}, k)
	require.Equal(t, "acme/api#5", r.SupersedeKey)
	require.Equal(t, "7/11#5/cody", k.String())
}
