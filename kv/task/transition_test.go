package task_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// The whole table of DESIGN §7, written out again by hand.
func TestDT9TableOverEveryTriple(t *testing.T) {
	t.Parallel()
	type triple struct {
		m        task.Move
		from, to task.State
	}
	legal := map[triple]bool{}
	for _, l := range []triple{
		{task.MoveClaim, task.Queued, task.Running},
		{task.MoveFinish, task.Running, task.Completed},
		{task.MoveFinish, task.Running, task.Failed},
		{task.MoveRequeue, task.Running, task.Queued},
		{task.MoveExhaust, task.Running, task.Failed},
		{task.MoveSupersede, task.Queued, task.Superseded},
		{task.MoveSupersede, task.Running, task.Superseded},
		{task.MoveCancel, task.Queued, task.Cancelled},
		{task.MoveCancel, task.Running, task.Cancelled},
		{task.MoveRetry, task.Completed, task.Queued},
		{task.MoveRetry, task.Failed, task.Queued},
		{task.MoveRetry, task.Cancelled, task.Queued},
	} {
		legal[l] = true
	}
	require.Len(t, task.Moves, 7)
	require.Len(t, task.States, 6)
	for _, m := range append(task.Moves, "unknown") {
		for _, from := range append(task.States, "") {
			for _, to := range append(task.States, "") {
				require.Equal(t, legal[triple{m, from, to}], task.Allowed(m, from, to), "%s %s → %s", m, from, to)
				if m != task.MoveRetry && from.Terminal() && from != "" {
					require.False(t, task.Allowed(m, from, to), "an automatic step moves a terminal task")
				}
			}
		}
	}
}

// Every transition function over every state: it moves as the table says, or
// returns the record as it was with ErrState.
func TestTransitionsOverEveryState(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Hour)
	moves := map[string]struct {
		do   func(task.Record) (task.Record, error)
		from map[task.State]task.State
	}{
		"claim": {func(r task.Record) (task.Record, error) { return r.Claim("w", "b", "n", later) },
			map[task.State]task.State{task.Queued: task.Running}},
		"complete": {func(r task.Record) (task.Record, error) {
			return r.Finish(holder, task.Result{State: task.Completed}, later)
		}, map[task.State]task.State{task.Running: task.Completed}},
		"fail": {func(r task.Record) (task.Record, error) {
			return r.Finish(holder, task.Result{State: task.Failed}, later)
		}, map[task.State]task.State{task.Running: task.Failed}},
		"requeue": {func(r task.Record) (task.Record, error) {
			return r.EndAttempt(holder, task.Ending{Outcome: task.OutcomeReleased}, 0, later)
		}, map[task.State]task.State{task.Running: task.Queued}},
		"exhaust": {func(r task.Record) (task.Record, error) {
			return r.EndAttempt(holder, task.Ending{Outcome: task.OutcomeTimeout}, 0, later)
		}, map[task.State]task.State{task.Running: task.Failed}},
		"supersede": {func(r task.Record) (task.Record, error) { return r.Supersede(holder, "x", "r", later) },
			map[task.State]task.State{task.Queued: task.Superseded, task.Running: task.Superseded}},
		"cancel": {func(r task.Record) (task.Record, error) { return r.Cancel("r", later) },
			map[task.State]task.State{task.Queued: task.Cancelled, task.Running: task.Cancelled}},
		"retry": {func(r task.Record) (task.Record, error) { return r.Retry(later) },
			map[task.State]task.State{task.Completed: task.Queued, task.Failed: task.Queued, task.Cancelled: task.Queued}},
	}
	for name, m := range moves {
		for _, s := range task.States {
			r := in(t, s)
			before, err := json.Marshal(&r)
			require.NoError(t, err)
			n, err := m.do(r)
			after, merr := json.Marshal(&r)
			require.NoError(t, merr)
			require.Equal(t, string(before), string(after), "%s changed its receiver", name)
			to, ok := m.from[s]
			if !ok {
				require.ErrorIs(t, err, task.ErrState, "%s %s", name, s)
				require.Equal(t, r, n, "%s %s", name, s)
				continue
			}
			require.NoError(t, err, "%s %s", name, s)
			require.Equal(t, to, n.State, "%s %s", name, s)
			require.Equal(t, task.At(later), n.UpdatedAt, "DT-36: %s %s", name, s)
			if to != task.Running {
				require.Nil(t, n.Open(), "%s %s leaves its attempt open", name, s)
			}
		}
	}
}

func TestDT66FinishWritesAllTogether(t *testing.T) {
	t.Parallel()
	n, err := running(t).Finish(holder, task.Result{
		State: task.Failed, Status: task.ResultFailure, Branch: "b", PRNumber: 9, PRURL: "u", CheckRunURL: "c",
		Summary: "s", Reason: "r", Detail: "d", Tail: "t",
	}, noon.Add(time.Second))
	require.NoError(t, err)
	require.Equal(t, task.ResultFailure, n.ResultStatus)
	require.Equal(t, []any{"b", 9, "u", "c", "s", "r"}, []any{n.Branch, n.PRNumber, n.PRURL, n.CheckRunURL, n.Summary, n.Reason})
	require.Equal(t, []task.Attempt{{
		N: 1, Worker: "w", Boot: "boot", Nonce: "nonce", StartedAt: task.At(noon), EndedAt: task.At(noon.Add(time.Second)),
		Outcome: task.OutcomeFailed, Detail: "d", Tail: "t",
	}}, n.AttemptLog)

	r := running(t)
	r.CheckRunURL = "early" // DT-35: set before the end
	n, err = r.Finish(holder, task.Result{State: task.Completed}, noon)
	require.NoError(t, err)
	require.Equal(t, "early", n.CheckRunURL)
	require.Equal(t, task.OutcomeCompleted, n.AttemptLog[0].Outcome)

	_, err = running(t).Finish(holder, task.Result{State: task.Cancelled}, noon)
	require.ErrorIs(t, err, task.ErrState, "a finish ends completed or failed")
}

func TestDT71Fence(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]task.Holder{
		"number": {N: 2, Boot: "boot", Nonce: "nonce"},
		"boot":   {N: 1, Boot: "other", Nonce: "nonce"},
		"nonce":  {N: 1, Boot: "boot", Nonce: "other"},
		"zero":   {},
	} {
		r := running(t)
		require.False(t, r.Holds(h), name)
		n, err := r.Finish(h, task.Result{State: task.Completed}, noon)
		require.ErrorIs(t, err, task.ErrFence, name)
		require.Equal(t, r, n)
		n, err = r.EndAttempt(h, task.Ending{Outcome: task.OutcomeInterrupted}, 2, noon)
		require.ErrorIs(t, err, task.ErrFence, name)
		require.Equal(t, r, n)
		_, err = r.Supersede(h, "x", "r", noon)
		require.ErrorIs(t, err, task.ErrFence, "DT-49: %s", name)
	}
	// One who was cancelled, and one who was claimed away, hold nothing.
	r, err := running(t).Cancel("asked", noon)
	require.NoError(t, err)
	_, err = r.Finish(holder, task.Result{State: task.Completed}, noon)
	require.ErrorIs(t, err, task.ErrState)
	r, err = running(t).EndAttempt(holder, task.Ending{Outcome: task.OutcomeInterrupted}, 5, noon)
	require.NoError(t, err)
	r, err = r.Claim("w2", "boot2", "nonce2", noon)
	require.NoError(t, err)
	_, err = r.Finish(holder, task.Result{State: task.Completed}, noon)
	require.ErrorIs(t, err, task.ErrFence)
}

func TestDueAndNotBefore(t *testing.T) {
	t.Parallel()
	r, err := running(t).EndAttempt(holder, task.Ending{Outcome: task.OutcomeInfra, NotBefore: noon.Add(time.Minute)}, 5, noon)
	require.NoError(t, err)
	require.False(t, r.Due(noon.Add(59*time.Second)))
	require.True(t, r.Due(noon.Add(time.Minute)))
	for _, s := range task.States {
		x := in(t, s)
		require.Equal(t, s == task.Queued, x.Due(noon), s)
	}
	c, err := r.Cancel("asked", noon)
	require.NoError(t, err)
	require.True(t, c.NotBefore.IsZero(), "a terminal record waits for nothing")
	r, err = r.Claim("w", "b", "n", noon)
	require.NoError(t, err)
	require.True(t, r.NotBefore.IsZero())
}
