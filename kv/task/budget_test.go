package task_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

func TestSpentOutcomes(t *testing.T) {
	t.Parallel()
	for o, spent := range map[task.Outcome]bool{
		task.OutcomeInterrupted: true, task.OutcomeFailed: true, task.OutcomeTimeout: true, task.OutcomeInfra: true,
		task.OutcomeReleased: false, task.OutcomeParked: false, task.OutcomeCompleted: false,
		task.OutcomeCancelled: false, task.OutcomeSuperseded: false, "": false,
	} {
		require.Equal(t, spent, o.Spent(), o)
	}
}

// run claims and ends an attempt.
func run(t require.TestingT, r task.Record, o task.Outcome, maxRetries int) task.Record {
	n := r.Attempts + 1
	h := task.Holder{N: n, Boot: "b", Nonce: fmt.Sprint(n)}
	r, err := r.Claim("w", h.Boot, h.Nonce, noon)
	require.NoError(t, err)
	require.Equal(t, n, r.Attempts, "DT-34")
	r, err = r.EndAttempt(h, task.Ending{Outcome: o}, maxRetries, noon)
	require.NoError(t, err)
	return r
}

func TestDT76ExhaustedFails(t *testing.T) {
	t.Parallel()
	r := queued(t)
	for range 2 {
		r = run(t, r, task.OutcomeInterrupted, 2)
		require.Equal(t, task.Queued, r.State)
	}
	r = run(t, r, task.OutcomeTimeout, 2)
	require.Equal(t, task.Failed, r.State)
	require.Equal(t, "3 of 3 attempts spent; the last one: timeout", r.Reason)
	require.Equal(t, 3, r.Attempts)
	require.Equal(t, task.OutcomeTimeout, r.AttemptLog[2].Outcome)
}

func TestDT78ReleasedAndParkedAreFree(t *testing.T) {
	t.Parallel()
	r := run(t, queued(t), task.OutcomeInterrupted, 1)
	for range 10 {
		r = run(t, r, task.OutcomeReleased, 1)
		r = run(t, r, task.OutcomeParked, 1)
	}
	require.Equal(t, task.Queued, r.State)
	require.Equal(t, 1, r.Spent())
	require.Equal(t, 21, r.Attempts)
	require.Equal(t, task.Failed, run(t, r, task.OutcomeInfra, 1).State)
}

func TestRetryResetsTheBudgetAndKeepsTheAttempts(t *testing.T) {
	t.Parallel()
	r := run(t, run(t, queued(t), task.OutcomeInterrupted, 1), task.OutcomeInterrupted, 1)
	require.Equal(t, task.Failed, r.State)
	r, err := r.Retry(noon)
	require.NoError(t, err)
	require.Zero(t, r.Spent())
	require.Len(t, r.AttemptLog, 2)
	r = run(t, r, task.OutcomeInterrupted, 1)
	require.Equal(t, task.Queued, r.State)
	require.Equal(t, task.Failed, run(t, r, task.OutcomeInterrupted, 1).State)
}

// DT-35: results are null until the task is terminal again.
func TestDT35RetryClearsResults(t *testing.T) {
	t.Parallel()
	r, err := in(t, task.Completed).Retry(noon)
	require.NoError(t, err)
	want := queued(t)
	want.Attempts, want.BudgetFrom, want.AttemptLog, want.UpdatedAt = 1, 1, r.AttemptLog, r.UpdatedAt
	require.Equal(t, want, r)
}

// J24: the budget of a task counts every spent attempt, also those that the
// capped log has forgotten.
func TestJ24LogIsCappedAndBudgetIsNot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		maxRetries := rapid.IntRange(0, 90).Draw(t, "max retries")
		outcomes := rapid.SliceOfN(rapid.SampledFrom([]task.Outcome{
			task.OutcomeInterrupted, task.OutcomeTimeout, task.OutcomeReleased, task.OutcomeParked,
		}), 0, 250).Draw(t, "outcomes")
		r := task.Record{V: 1, ID: "x", State: task.Queued}
		spent := 0
		for i, o := range outcomes {
			if o.Spent() {
				spent++
			}
			r = run(t, r, o, maxRetries)
			require.Equal(t, spent, r.Spent())
			require.LessOrEqual(t, len(r.AttemptLog), 64)
			require.Equal(t, i+1, r.AttemptLog[len(r.AttemptLog)-1].N, "the oldest go first")
			if o.Spent() && spent > maxRetries {
				require.Equal(t, task.Failed, r.State)
				return
			}
			require.Equal(t, task.Queued, r.State)
		}
	})
}

func TestJ24ForgottenTriesStaySpentUntilRetry(t *testing.T) {
	t.Parallel()
	r := queued(t)
	for range 100 {
		r = run(t, r, task.OutcomeInterrupted, 99)
	}
	require.Equal(t, task.Failed, r.State)
	require.Equal(t, "100 of 100 attempts spent; the last one: interrupted", r.Reason)
	require.Len(t, r.AttemptLog, 64)
	r, err := r.Retry(noon)
	require.NoError(t, err)
	require.Zero(t, r.Spent())
	for range 100 {
		require.Equal(t, task.Queued, r.State)
		r = run(t, r, task.OutcomeInterrupted, 99)
	}
	require.Equal(t, task.Failed, r.State)
}
