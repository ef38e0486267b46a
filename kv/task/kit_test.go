package task_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	holder = task.Holder{N: 1, Boot: "boot", Nonce: "nonce"}
)

func reviewDelivery() task.Delivery {
	return task.Delivery{
		V: task.Version, Source: task.DefaultSource, ID: "g1", HookID: "1", Event: "pull_request", Action: "opened",
		InstallationID: 7, RepoID: 11, Repo: "acme/api", Number: 5, PayloadHash: "abc",
		Routing: task.ToTask("id"), ReceivedAt: task.At(noon),
		Task: &task.Spec{
			ID: "id", FamiliarID: "fam", HeadSHA: "sha",
			Kind: task.Kind{Name: task.ReviewPullRequest, PRNumber: 5, PRTitle: "Fix", Reason: "opened"},
		},
	}
}

func queued(t testing.TB) task.Record {
	t.Helper()
	r, err := task.New(reviewDelivery(), 3, task.At(noon))
	require.NoError(t, err)
	return r
}

func running(t testing.TB) task.Record {
	t.Helper()
	r, err := queued(t).Claim("w", "boot", "nonce", noon)
	require.NoError(t, err)
	return r
}

// in returns a record that came to a state by the transitions themselves.
func in(t testing.TB, s task.State) task.Record {
	t.Helper()
	var r task.Record
	var err error
	switch s {
	case task.Queued:
		return queued(t)
	case task.Running:
		return running(t)
	case task.Completed, task.Failed:
		r, err = running(t).Finish(holder, task.Result{State: s, Status: task.ResultSuccess, Summary: "sum", Branch: "b", PRNumber: 9, PRURL: "u", Reason: "why"}, noon)
	case task.Superseded:
		r, err = queued(t).Supersede(task.Holder{}, "other", task.ReasonSuperseded, noon)
	case task.Cancelled:
		r, err = queued(t).Cancel("asked", noon)
	}
	require.NoError(t, err)
	require.Equal(t, s, r.State)
	return r
}
