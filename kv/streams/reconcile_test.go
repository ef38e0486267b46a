package streams_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
)

// reconcile reconciles and checks that nothing was in the way.
func reconcile(t testing.TB, js jetstream.JetStream, set streams.Set, o streams.Options) streams.Report {
	t.Helper()
	r, err := streams.Reconcile(t.Context(), js, set, o)
	require.NoError(t, err)
	require.Empty(t, r.Refused)
	return r
}

// names lists what changes are about.
func names(changes []streams.Change) []string {
	out := []string{}
	for _, c := range changes {
		out = append(out, c.Name())
	}
	return out
}

func config(t testing.TB, js jetstream.JetStream, name string) jetstream.StreamConfig {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	return s.CachedInfo().Config
}

func TestSecondReconcileChangesNothing(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	set := embedded(t)
	changes, err := streams.Diff(t.Context(), env.JS, set, streams.Options{})
	require.NoError(t, err)
	require.Len(t, changes, 10)

	r := reconcile(t, env.JS, set, streams.Options{})
	require.Equal(t, []string{"WEBHOOKS", "WEBHOOKS/admit", "WEBHOOKS/tasks", "WEBHOOKS/releases", "KV_STATE", "KV_STATE/relay",
		"OPERATOR", "OPERATOR/issues", "EVENTS", "AUDIT"}, names(r.Created))
	require.Empty(t, r.Updated)

	for range 2 {
		changes, err = streams.Diff(t.Context(), env.JS, set, streams.Options{})
		require.NoError(t, err)
		require.Empty(t, changes)
		require.Equal(t, streams.Report{}, reconcile(t, env.JS, set, streams.Options{}))
		env.Restart()
	}
	require.Equal(t, "1", config(t, env.JS, "EVENTS").Metadata["belay_version"])
}

func TestDefaultsOfServerAreNoDifference(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	set, err := streams.Load([]byte(`{"streams":[{"name":"S","subjects":["b","a"],"metadata":{"belay_version":"1"},
		"consumers":[{"durable_name":"c","ack_policy":"explicit","max_deliver":-1}]}]}`))
	require.NoError(t, err)
	reconcile(t, env.JS, set, streams.Options{})
	set.Streams[0].Subjects = []string{"a", "b"} // their order means nothing
	require.Equal(t, streams.Report{}, reconcile(t, env.JS, set, streams.Options{}))
}

func TestDifferencesAreUpdated(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	set := embedded(t)
	stream(t, set, "EVENTS").MaxAge = 48 * time.Hour
	stream(t, set, "WEBHOOKS").Consumers[0].AckWait = 7 * time.Second
	log := &bytes.Buffer{}

	r := reconcile(t, env.JS, set, streams.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.Equal(t, []string{"WEBHOOKS/admit", "EVENTS"}, names(r.Updated))
	require.Equal(t, "update WEBHOOKS/admit ack_wait: 5000000000 -> 7000000000;", r.Updated[0].String())
	require.Equal(t, []streams.Field{{Name: "max_age", Have: "2592000000000000", Want: "172800000000000"}}, r.Updated[1].Fields)
	require.Contains(t, log.String(), "WEBHOOKS/admit")
	require.Equal(t, 48*time.Hour, config(t, env.JS, "EVENTS").MaxAge)
	require.Equal(t, streams.Report{}, reconcile(t, env.JS, set, streams.Options{}))
}

func TestWhatBelongsToTheOperatorIsKept(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	ctx := t.Context()
	cfg := config(t, env.JS, "EVENTS")
	cfg.Metadata["team"] = "platform"
	cfg.Placement = &jetstream.Placement{Tags: []string{"ssd"}}
	_, err := env.JS.UpdateStream(ctx, cfg)
	require.NoError(t, err)
	until := time.Now().Add(time.Hour)
	_, err = env.JS.PauseConsumer(ctx, "WEBHOOKS", "admit", until)
	require.NoError(t, err)

	set := embedded(t)
	require.Equal(t, streams.Report{}, reconcile(t, env.JS, set, streams.Options{}))
	stream(t, set, "EVENTS").MaxAge = 48 * time.Hour
	stream(t, set, "WEBHOOKS").Consumers[0].AckWait = 7 * time.Second
	require.Len(t, reconcile(t, env.JS, set, streams.Options{}).Updated, 2)
	require.Equal(t, "platform", config(t, env.JS, "EVENTS").Metadata["team"])
	require.Equal(t, []string{"ssd"}, config(t, env.JS, "EVENTS").Placement.Tags)
	c, err := env.JS.Consumer(ctx, "WEBHOOKS", "admit")
	require.NoError(t, err)
	require.True(t, c.CachedInfo().Paused)
}

func TestRefusedUpdateIsReported(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	set := embedded(t)
	stream(t, set, "AUDIT").Storage = jetstream.MemoryStorage
	stream(t, set, "EVENTS").MaxAge = 48 * time.Hour
	stream(t, set, "WEBHOOKS").Consumers[1].DeliverPolicy = jetstream.DeliverNewPolicy

	r, err := streams.Reconcile(t.Context(), env.JS, set, streams.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"EVENTS"}, names(r.Updated))
	require.Equal(t, []string{"WEBHOOKS/tasks", "AUDIT"}, names(r.Refused))
	require.EqualError(t, r.Refused[0].Err, "nats: API error: code=500 err_code=10012 description=deliver policy can not be updated")
	require.Contains(t, r.Refused[1].String(), `update AUDIT storage: "file" -> "memory"; refused: `)
	require.Equal(t, jetstream.FileStorage, config(t, env.JS, "AUDIT").Storage, "never recreated")
}

func TestRefusedCreationFails(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	set := embedded(t)
	stream(t, set, "EVENTS").Subjects = []string{"webhook.>"}
	_, err := streams.Reconcile(t.Context(), env.JS, set, streams.Options{})
	require.ErrorContains(t, err, "create EVENTS: ")
	require.ErrorContains(t, err, "subjects overlap with an existing stream")
}

func TestNewerStoreIsLeftAlone(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	set := embedded(t)
	require.Len(t, reconcile(t, env.JS, set, streams.Options{Version: 3}).Updated, 5)
	stream(t, set, "AUDIT").MaxAge = time.Hour
	require.NoError(t, env.JS.DeleteConsumer(t.Context(), "WEBHOOKS", "tasks"))
	before := config(t, env.JS, "AUDIT")

	r, err := streams.Reconcile(t.Context(), env.JS, set, streams.Options{Version: 2})
	require.ErrorIs(t, err, streams.ErrNewerStore)
	require.EqualError(t, err, "stream WEBHOOKS was made by a newer belay (schema version 3, this one knows 2): "+
		"nothing was changed; start that version, or use another store")
	require.Equal(t, streams.Report{}, r)
	require.Equal(t, before, config(t, env.JS, "AUDIT"))
	_, err = env.JS.Consumer(t.Context(), "WEBHOOKS", "tasks")
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
}

// One stream of five is enough, whatever its place in the file.
func TestOneNewerStreamIsEnough(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	cfg := config(t, env.JS, "AUDIT")
	for _, v := range []string{"2", "v1"} {
		cfg.Metadata["belay_version"] = v
		_, err := env.JS.UpdateStream(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, env.JS.DeleteStream(t.Context(), "EVENTS"))
		_, err = streams.Reconcile(t.Context(), env.JS, embedded(t), streams.Options{})
		require.ErrorIs(t, err, streams.ErrNewerStore)
		require.ErrorContains(t, err, "stream AUDIT")
		_, err = env.JS.Stream(t.Context(), "EVENTS")
		require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "nothing was changed")
		_, err = env.JS.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS"})
		require.NoError(t, err)
	}
}

// Made by hand or by an older belay: taken over, and stamped.
func TestOlderStoreIsTakenOver(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	cfg := config(t, env.JS, "EVENTS")
	cfg.Metadata = nil
	_, err := env.JS.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"EVENTS"}, names(reconcile(t, env.JS, embedded(t), streams.Options{}).Updated))
	require.Len(t, reconcile(t, env.JS, embedded(t), streams.Options{Version: 2}).Updated, 5)
	require.Equal(t, "2", config(t, env.JS, "EVENTS").Metadata["belay_version"])
}

// J21: a durable that somebody deleted comes back.
func TestDeletedConsumerIsMadeAgain(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	_, err := env.JS.Publish(t.Context(), "webhook.1.2.task.review", []byte("x"))
	require.NoError(t, err)
	require.NoError(t, env.JS.DeleteConsumer(t.Context(), "WEBHOOKS", "tasks"))
	require.Equal(t, []string{"WEBHOOKS/tasks"}, names(reconcile(t, env.JS, embedded(t), streams.Options{}).Created))
	c, err := env.JS.Consumer(t.Context(), "WEBHOOKS", "tasks")
	require.NoError(t, err)
	require.EqualValues(t, 1, c.CachedInfo().NumPending, "it starts from the oldest message")
}

func TestReplicasOfOptionsWin(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	set := embedded(t)
	changes, err := streams.Diff(t.Context(), env.JS, set, streams.Options{Replicas: 3, Version: 2})
	require.NoError(t, err)
	require.Equal(t, embedded(t), set, "the set itself is not touched")
	require.Len(t, changes, 5)
	require.Equal(t, "update WEBHOOKS compression: \"s2\" -> \"none\"; metadata: {\"belay_version\":\"1\"} -> {\"belay_version\":\"2\"}; num_replicas: 1 -> 3;", changes[0].String())

	r, err := streams.Reconcile(t.Context(), env.JS, embedded(t), streams.Options{Replicas: 3})
	require.NoError(t, err)
	require.Len(t, r.Refused, 5, "one server has no place for three replicas")
}

// A disk that cannot reserve max_bytes gets a smaller stream, not a belay that
// does not start.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams(), natstest.WithMaxFileStore(800<<20))
	r, err := streams.Reconcile(t.Context(), env.JS, embedded(t), streams.Options{})
	require.NoError(t, err)
	require.Len(t, r.Created, 8)
	require.Equal(t, []string{"EVENTS", "AUDIT"}, names(r.Refused))
	require.EqualValues(t, 512<<20, config(t, env.JS, "EVENTS").MaxBytes)
	require.EqualValues(t, 256<<20, config(t, env.JS, "AUDIT").MaxBytes)
	require.Contains(t, r.Refused[0].String(), "create EVENTS max_bytes: 536870912 -> 1073741824; refused: ")

	r, err = streams.Reconcile(t.Context(), env.JS, embedded(t), streams.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"EVENTS", "AUDIT"}, names(r.Refused), "the file's size is tried at every start")
}

func TestReconcileEndsWithItsContext(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := streams.Reconcile(ctx, env.JS, embedded(t), streams.Options{})
	require.ErrorIs(t, err, context.Canceled)
}
