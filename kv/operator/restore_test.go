package operator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A restored store licenses nothing: after what Restored appends, no state of
// a request lets an attempt begin.
func TestRestoredLicensesNothing(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := Owner{"invotek", "ann", "c1"}
	life := []Event{
		Propose("id", o, Intent{}, at).Append, &Approved{At: at}, &AttemptStarted{At: at, AttemptID: "a1", Holder: "boot", LeaseUntil: at.Add(time.Minute)},
		&OutcomeUnknown{At: at, AttemptID: "a1"}, &Submitted{At: at, AttemptID: "a1", Issue: Issue{Number: 1}}, &Delivered{At: at},
	}
	appended := map[State]int{StateProposed: 3, StateApproved: 2}
	var task Task
	for _, e := range life {
		var err error
		task, err = task.Fold(e)
		require.NoError(t, err)
		r := task
		events := r.Restored(at.Add(time.Hour))
		require.Len(t, events, appended[task.State], task.State)
		for _, e := range events {
			r, err = r.Fold(e)
			require.NoError(t, err)
		}
		require.NotContains(t, []State{StateProposed, StateApproved}, r.State)
		require.Nil(t, r.Begin(o, r.Revision, "a2", "boot", at).Append)
		require.Nil(t, r.Confirm(o, r.Revision, at).Append)
		if len(events) > 0 {
			require.Equal(t, StateUnknown, r.State)
			require.Equal(t, ReasonRestored, r.Reason)
			require.True(t, r.IsAttempt("a1"), "whatever its attempt was called")
			require.Equal(t, at, r.AttemptedSince())
			require.NotNil(t, r.Reconcile(o, r.Revision, Evidence{Owner: o, AttemptID: r.AttemptID, Issue: Issue{Number: 1}}, at).Append)
		}
		require.False(t, r.IsAttempt(""))
		require.False(t, task.IsAttempt("a2"))
	}
	old, _ := Task{}.Fold(life[0])
	require.Empty(t, old.Restored(at.Add(ProposalLife)), "nobody can confirm it any more")
}
