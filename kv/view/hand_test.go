package view

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func TestHandedRecordIsTakenOnce(t *testing.T) {
	t.Parallel()
	v := newBench(t)
	r := rec(1)
	v.Hand(r, 5)
	got, rev, ok := v.Handed(r.ID)
	require.True(t, ok)
	require.Equal(t, r, got)
	require.EqualValues(t, 5, rev)
	_, _, ok = v.Handed(r.ID)
	require.False(t, ok)
	require.Zero(t, v.handedSize)
}

func TestHandedRecordIsDroppedByANewerRevision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		rev  uint64
		u    update
		want bool
	}{
		{"its own", 5, update{rev: 5}, true},
		{"an older one", 5, update{rev: 4}, true},
		{"a newer one", 5, update{rev: 6}, false},
		{"its purge", 5, update{rev: 6, deleted: true}, false},
		{"a newer one that cannot be read", 5, update{rev: 6, value: []byte("{")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := newBench(t)
			r := rec(1)
			v.Hand(r, c.rev)
			c.u.key = keyOf(r)
			if c.u.value == nil {
				c.u.value = mustJSON(r)
			}
			v.apply(c.u)
			_, _, ok := v.Handed(r.ID)
			require.Equal(t, c.want, ok)
			require.Zero(t, v.handedSize)
		})
	}
}

// The watch may be faster than the answer to the write.
func TestRecordThatIsHandedTooLateIsNotKept(t *testing.T) {
	t.Parallel()
	v := newBench(t)
	r := rec(1)
	v.apply(update{key: keyOf(r), value: mustJSON(r), rev: 6})
	v.Hand(r, 5)
	_, _, ok := v.Handed(r.ID)
	require.False(t, ok)
	v.Hand(r, 6)
	_, _, ok = v.Handed(r.ID)
	require.True(t, ok)
	running := rec(2, state(task.Running))
	v.Hand(running, 7)
	_, _, ok = v.Handed(running.ID)
	require.False(t, ok, "only what can be claimed")
}

func TestHandedRecordsAreBounded(t *testing.T) {
	t.Parallel()
	v := newBench(t)
	kept, n := 0, 2*maxHanded/(1<<20)
	for i := range n {
		r := rec(i)
		r.Kind.IssueBody = strings.Repeat("x", 1<<20)
		v.Hand(r, uint64(i+1))
		require.LessOrEqual(t, v.handedSize, maxHanded)
	}
	for i := range n {
		if _, _, ok := v.Handed(rec(i).ID); ok {
			kept++
		}
	}
	require.Greater(t, kept, n/4)
	require.Less(t, kept, n)
	require.Zero(t, v.handedSize)
}

func TestReplayForgetsWhatWasHanded(t *testing.T) {
	t.Parallel()
	v := newBench(t)
	known, gone := rec(1), rec(2)
	v.Hand(known, 5)
	v.Hand(gone, 6)
	v.apply(update{key: keyOf(known), value: mustJSON(known), rev: 5})
	v.caughtUp(true)
	_, _, ok := v.Handed(gone.ID)
	require.False(t, ok)
	_, _, ok = v.Handed(known.ID)
	require.True(t, ok)
	v.Hand(known, 5)
	v.forgetRevisions()
	_, _, ok = v.Handed(known.ID)
	require.False(t, ok, "the stream went back: its revisions mean nothing")
}
