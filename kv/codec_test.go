package kv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// A record that is too large is cut, not refused: its task must end.
func TestRecordTooLargeIsCut(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	s, b := openStore(t, env), openBucket(t, env)
	big := strings.Repeat("\x01ä", 300<<10)
	for i, grow := range []func(*task.Record){
		func(r *task.Record) { r.Summary = big },
		func(r *task.Record) { r.Kind = task.Kind{Name: task.FixIssue, IssueBody: big, IssueTitle: big} },
		func(r *task.Record) { r.Branch, r.PRURL, r.CheckRunURL, r.Title, r.Reason = big, big, big, big, big },
		func(r *task.Record) {
			for n := range 64 {
				r.AttemptLog = append(r.AttemptLog, task.Attempt{N: n + 1, Tail: big[:64<<10], Detail: big[:64<<10], EndedAt: noon})
			}
		},
	} {
		r := record(t, task.DeliveryID(fmt.Sprint(i)))
		grow(&r)
		log := r.AttemptLog
		rev, err := s.Create(t.Context(), r)
		require.NoError(t, err)
		e, err := b.Get(t.Context(), kv.TaskKey(7, r.ID))
		require.NoError(t, err)
		require.LessOrEqual(t, len(e.Value), task.MaxRecord)
		got, _, err := s.Get(t.Context(), 7, r.ID)
		require.NoError(t, err)
		require.Contains(t, got.Summary+got.Kind.IssueBody+got.Branch+tail(got), "[cut by belay]")
		require.Len(t, got.AttemptLog, len(log))
		if len(log) > 0 {
			require.Len(t, log[0].Tail, 64<<10, "the caller's record is not written to")
		}
		_, err = s.Update(t.Context(), got, rev)
		require.NoError(t, err)
	}
	r := record(t, "small")
	r.Summary = strings.Repeat("a", 100<<10)
	_, err := s.Create(t.Context(), r)
	require.NoError(t, err)
	got, _, err := s.Get(t.Context(), 7, r.ID)
	require.NoError(t, err)
	require.Equal(t, r, got, "what fits is kept")
	r = record(t, "huge")
	r.Intents = []task.Intent{{Payload: make([]byte, 1<<20)}}
	_, err = s.Create(t.Context(), r)
	require.ErrorIs(t, err, kv.ErrTooLarge)
}

func tail(r task.Record) string {
	if len(r.AttemptLog) == 0 {
		return ""
	}
	return r.AttemptLog[0].Tail
}
