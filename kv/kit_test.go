package kv_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

var noon = task.At(time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC))

// delivery is a review's webhook, as ingest hands it to the log.
func delivery(id task.DeliveryID) task.Delivery {
	return task.Delivery{
		V: task.Version, Source: task.DefaultSource, ID: id, HookID: "1", Event: "pull_request", Action: "opened",
		InstallationID: 7, RepoID: 11, Repo: "acme/api", Number: 5, PayloadHash: "hash-" + string(id), ReceivedAt: noon,
		Task: &task.Spec{
			FamiliarID: "fam", HeadSHA: "sha", CloneURL: "https://github.com/acme/api.git", Once: true, Review: &task.Review{UpdatedAt: noon},
			Kind: task.Kind{Name: task.ReviewPullRequest, PRNumber: 5, PRTitle: "Fix", Reason: "opened"},
		},
	}
}

func ignored(id task.DeliveryID, why task.Reason) task.Delivery {
	return task.Delivery{
		V: task.Version, Source: task.DefaultSource, ID: id, Event: "ping", PayloadHash: "hash-" + string(id),
		Routing: task.Ignored(why), ReceivedAt: noon,
	}
}

func openLog(t testing.TB, js jetstream.JetStream) *kv.DeliveryLog {
	t.Helper()
	l, err := kv.OpenDeliveryLog(context.Background(), js)
	require.NoError(t, err)
	return l
}

func openStore(t testing.TB, env *natstest.Env) *kv.TaskStore {
	t.Helper()
	s, err := kv.OpenTaskStore(context.Background(), env.JS)
	require.NoError(t, err)
	return s
}

func openBucket(t testing.TB, env *natstest.Env) *kv.Bucket {
	t.Helper()
	b, err := kv.OpenBucket(context.Background(), env.JS)
	require.NoError(t, err)
	return b
}

// record is the queued record of a delivery.
func record(t testing.TB, id task.DeliveryID) task.Record {
	t.Helper()
	d := delivery(id)
	d.Task.ID = kv.TaskID(d.Source, string(id))
	r, err := task.New(d, 1, noon)
	require.NoError(t, err)
	return r
}

// messages counts what a stream holds.
func messages(t testing.TB, env *natstest.Env, stream string) uint64 {
	t.Helper()
	s, err := env.JS.Stream(context.Background(), stream)
	require.NoError(t, err)
	return s.CachedInfo().State.Msgs
}

// soon is a context for calls that are to run into their deadline.
func soon(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
