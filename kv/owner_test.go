package kv_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// owners are those of one process on a server.
func owners(t *testing.T, env *natstest.Env, hooks *kv.Hooks) (*kv.Owners, *kv.TaskStore) {
	t.Helper()
	s := openStore(t, env)
	s.SetHooks(hooks)
	return kv.NewOwners(s, openLog(t, env.JS)), s
}

// DT-58: eight sources race for an installation, all held before their write:
// one has it, and all say the same one.
func TestDT58OneSourceOwnsAnInstallation(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	const n = 8
	var arrived sync.WaitGroup
	arrived.Add(n)
	var first [n]sync.Once
	got := make([]string, n)
	var done sync.WaitGroup
	for i := range n {
		o, _ := owners(t, env, &kv.Hooks{Before: func(context.Context, string, string) error {
			first[i].Do(func() { arrived.Done(); arrived.Wait() })
			return nil
		}})
		done.Go(func() {
			owner, err := o.Owner(t.Context(), 7, fmt.Sprintf("s%d", i))
			require.NoError(t, err)
			got[i] = owner
		})
	}
	done.Wait()
	for _, owner := range got {
		require.Equal(t, got[0], owner)
	}
	late, _ := owners(t, env, nil)
	owner, err := late.Owner(t.Context(), 7, "late")
	require.NoError(t, err)
	require.Equal(t, got[0], owner, "a process that starts later finds it")
	owner, err = late.Owner(t.Context(), 8, "late")
	require.NoError(t, err)
	require.Equal(t, "late", owner, "another installation is another's")
}

// What is known is not asked again: the store may be gone.
func TestOwnersAskOnce(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	o, _ := owners(t, env, nil)
	_, err := o.Owner(t.Context(), 7, "acme")
	require.NoError(t, err)
	env.JS.Conn().Close()
	for range 3 {
		owner, err := o.Owner(t.Context(), 7, "other")
		require.NoError(t, err)
		require.Equal(t, "acme", owner)
	}
	_, err = o.Owner(soon(t, 0), 8, "other")
	require.Error(t, err)
}

// Deliveries of the time when there was one source alone name their owner.
func TestOwnersKnowTheLog(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	_, err := openLog(t, env.JS).Accept(t.Context(), delivery("g1"))
	require.NoError(t, err)
	o, _ := owners(t, env, nil)
	owner, err := o.Owner(t.Context(), 7, "acme")
	require.NoError(t, err)
	require.Equal(t, task.DefaultSource, owner)
}

// A lost answer of the write that decides is read again.
func TestOwnersReadALostAnswerAgain(t *testing.T) {
	t.Parallel()
	lost := false
	o, _ := owners(t, natstest.New(t), &kv.Hooks{After: func(context.Context, string, string) error {
		if lost {
			return nil
		}
		lost = true
		return kv.ErrUnknown
	}})
	owner, err := o.Owner(t.Context(), 7, "acme")
	require.NoError(t, err)
	require.Equal(t, "acme", owner)
	require.True(t, lost)
}

// Its end does not take an installation from its source.
func TestADeletedInstallationKeepsItsSource(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	o, s := owners(t, env, nil)
	_, err := o.Owner(t.Context(), 7, "acme")
	require.NoError(t, err)
	require.NoError(t, s.MarkDeleted(t.Context(), 7, noon.Time))
	require.NoError(t, s.MarkDeleted(t.Context(), 7, noon.AddDate(0, 0, 1)), "again")
	e, err := openBucket(t, env).Get(t.Context(), kv.InstallationKey(7))
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"source":"acme","deleted_at":"`+noon.String()+`"}`, string(e.Value))
	again, _ := owners(t, env, nil)
	owner, err := again.Owner(t.Context(), 7, "other")
	require.NoError(t, err)
	require.Equal(t, "acme", owner)
	require.NoError(t, s.MarkDeleted(t.Context(), 9, noon.Time), "one that no source was noted of")
}
