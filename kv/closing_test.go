package kv_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// OB-38: whoever ends a task, and by whichever call, writes its intents in the
// same record, and what is to be sent is told once it is written.
func TestOB38EveryEndWritesItsIntents(t *testing.T) {
	t.Parallel()
	s := openStore(t, natstest.New(t))
	var told []task.Record
	s.SetClosing(kv.Closing{
		Intents: func(r task.Record, n int) []task.Intent {
			return []task.Intent{{N: n, Channel: "callback:ci", To: string(r.State), Payload: []byte("{}")}}
		},
		Ended: func(_ context.Context, r task.Record) { told = append(told, r) },
	})
	cancel := func(r task.Record) task.Record {
		c, err := r.Cancel("asked", noon.Time)
		require.NoError(t, err)
		return c
	}
	for name, end := range map[task.DeliveryID]func(task.Record){
		"create": func(r task.Record) {
			_, err := s.Create(t.Context(), cancel(r))
			require.NoError(t, err)
		},
		"update": func(r task.Record) {
			rev, err := s.Create(t.Context(), r)
			require.NoError(t, err)
			require.Empty(t, told, "a queued task sends nothing")
			_, err = s.Update(t.Context(), cancel(r), rev)
			require.NoError(t, err)
		},
		"change": func(r task.Record) {
			_, err := s.Create(t.Context(), r)
			require.NoError(t, err)
			_, _, err = s.Change(t.Context(), 7, r.ID, func(r task.Record) (task.Record, error) { return r.Cancel("asked", noon.Time) }, nil)
			require.NoError(t, err)
		},
	} {
		told = nil
		r := record(t, name)
		end(r)
		got, _, err := s.Get(t.Context(), 7, r.ID)
		require.NoError(t, err)
		require.Equal(t, []task.Intent{{N: 0, Channel: "callback:ci", To: "cancelled", Payload: []byte("{}")}}, got.Intents, name)
		require.Equal(t, []task.Record{got}, told, name)
		_, err = s.Update(t.Context(), got, 1<<40)
		require.ErrorIs(t, err, kv.ErrConflict)
		require.Len(t, told, 1, "%s: an end that lost is told to nobody", name)
	}
}
