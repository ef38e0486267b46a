package consumers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// steps lists the store steps on keys with a prefix, as `op key`.
type steps struct {
	mu   sync.Mutex
	list []string
}

func (s *steps) hooks(prefix string) *kv.Hooks {
	return &kv.Hooks{Before: func(_ context.Context, op, key string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if strings.HasPrefix(key, prefix) {
			s.list = append(s.list, op+" "+key)
		}
		return nil
	}}
}

func (s *steps) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

func TestANewTaskIsAdmittedWithoutARead(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	var s steps
	b.store.SetHooks(s.hooks("task."))
	once := issue(2)
	once.Task.Once = true
	for _, d := range []task.Delivery{issue(1), once} {
		id := b.admitted(d)
		require.Equal(t, task.Queued, b.record(id).State)
		require.Equal(t, "create "+kv.TaskKey(7, id), s.made()[0])
		s.list = nil
	}
}

// A replay of the log costs a read and touches nothing else.
func TestAKnownTaskIsAdmittedByOneRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	d := issue(1)
	d.Task.Once = true
	id := b.admitted(d)
	var s steps
	b.store.SetHooks(s.hooks(""))
	require.NoError(t, b.admitAt(1))
	require.Equal(t, []string{"get " + kv.TaskKey(7, id)}, s.made())
}

// What the view does not know is left alone all the same: records that were
// admitted, that ended, of a newer belay and that nobody can read.
func TestARecordThatTheViewDoesNotKnowIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value string }{
		{"admitted", ""}, {"newer", `{"v":99,"id":"x"}`}, {"corrupt", `{"v":1`},
	} {
		for _, once := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/once %v", c.name, once), func(t *testing.T) {
				t.Parallel()
				env := natstest.New(t)
				b, other := newBench(t, env), newBench(t, env)
				b.stopView()
				d := issue(1)
				d.Task.Once = once
				id := other.accept(d)
				if c.value == "" {
					require.NoError(t, other.admitAt(1))
				} else {
					put(t, env, kv.TaskKey(7, id), c.value)
				}
				bucket, err := env.JS.KeyValue(t.Context(), "STATE")
				require.NoError(t, err)
				want, err := bucket.Get(t.Context(), kv.TaskKey(7, id))
				require.NoError(t, err)
				_, known := b.view.Standing(id)
				require.False(t, known)
				require.NoError(t, b.admitAt(1))
				got, err := bucket.Get(t.Context(), kv.TaskKey(7, id))
				require.NoError(t, err)
				require.Equal(t, want.Revision(), got.Revision())
			})
		}
	}
}
