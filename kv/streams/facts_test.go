package streams_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
)

// The facts about JetStream that belay's protocols lean on, on the streams of
// streams.json.

// errWrongLastSequence is the server's code for a lost compare-and-set.
const errWrongLastSequence = 10071

// bucket opens STATE.
func bucket(t testing.TB, env *natstest.Env) jetstream.KeyValue {
	t.Helper()
	kv, err := env.JS.KeyValue(t.Context(), "STATE")
	require.NoError(t, err)
	return kv
}

// requireCode checks the error code of JetStream's answer.
func requireCode(t testing.TB, err error, code jetstream.ErrorCode) {
	t.Helper()
	var js jetstream.JetStreamError
	require.ErrorAs(t, err, &js)
	require.NotNil(t, js.APIError())
	require.Equal(t, code, js.APIError().ErrorCode)
}

func TestFactSameMsgIDIsADuplicateAlsoAfterRestart(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	publish := func(subject, body string) *jetstream.PubAck {
		ack, err := env.JS.Publish(t.Context(), subject, []byte(body), jetstream.WithMsgID("d-1"))
		require.NoError(t, err)
		return ack
	}
	first := publish("webhook.1.2.task.review", "one")
	require.False(t, first.Duplicate)
	for range 2 {
		again := publish("webhook.1.2.ignored.action", "two")
		require.True(t, again.Duplicate)
		require.Equal(t, first.Sequence, again.Sequence, "of the stored message, whatever the subject")
		env.Restart()
	}

	// The window is rebuilt from what is still stored.
	s, err := env.JS.Stream(t.Context(), "WEBHOOKS")
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context()))
	require.True(t, publish("webhook.1.2.task.review", "one").Duplicate, "kept in memory")
	env.Restart()
	require.False(t, publish("webhook.1.2.task.review", "one").Duplicate)
}

func TestFactWrongRevisionIs10071(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	kv := bucket(t, env)
	rev, err := kv.Create(t.Context(), "task.1.a", []byte("1"))
	require.NoError(t, err)
	_, err = kv.Create(t.Context(), "task.1.a", []byte("2"))
	require.ErrorIs(t, err, jetstream.ErrKeyExists)
	requireCode(t, err, errWrongLastSequence)
	_, err = kv.Update(t.Context(), "task.1.a", []byte("2"), rev+1)
	requireCode(t, err, errWrongLastSequence)
	_, err = kv.Update(t.Context(), "task.1.a", []byte("2"), rev)
	require.NoError(t, err)
}

func TestFactReadSeesOwnWrite(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	kv := bucket(t, env)
	other, err := jetstream.New(env.Connect())
	require.NoError(t, err)
	reader, err := other.KeyValue(t.Context(), "STATE")
	require.NoError(t, err)
	for range 100 {
		rev, err := kv.Put(t.Context(), "task.1.a", nil)
		require.NoError(t, err)
		e, err := reader.Get(t.Context(), "task.1.a")
		require.NoError(t, err)
		require.Equal(t, rev, e.Revision())
	}
}

func TestFactCreateAgainAfterDeleteAndPurge(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	kv := bucket(t, env)
	create := func() error {
		_, err := kv.Create(t.Context(), "seen.a", nil)
		return err
	}
	require.NoError(t, create())
	require.NoError(t, kv.Delete(t.Context(), "seen.a"))
	require.NoError(t, create(), "a delete marker does not hold")
	require.NoError(t, kv.Purge(t.Context(), "seen.a"))
	require.NoError(t, create(), "a purge marker does not hold")
	s, err := env.JS.Stream(t.Context(), "KV_STATE")
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.STATE.seen.a")))
	require.NoError(t, create(), "nor does a purged subject, which leaves nothing behind")
}

func TestFactTTLBlocksCreateUntilItExpires(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	kv := bucket(t, env)
	watch, err := kv.Watch(t.Context(), "seen.*", jetstream.UpdatesOnly())
	require.NoError(t, err)
	_, err = kv.Create(t.Context(), "seen.a", []byte("1"), jetstream.KeyTTL(time.Second))
	require.NoError(t, err)
	_, err = kv.Create(t.Context(), "seen.a", nil)
	require.ErrorIs(t, err, jetstream.ErrKeyExists)
	natstest.Eventually(t, "the key to expire", func() bool {
		_, err := kv.Get(t.Context(), "seen.a")
		return err != nil
	})
	rev, err := kv.Create(t.Context(), "seen.a", []byte("2"))
	require.NoError(t, err)
	require.EqualValues(t, 1, (<-watch.Updates()).Revision())
	require.Equal(t, rev, (<-watch.Updates()).Revision(), "an expiry sends no event")
}

func TestFactUpdateDropsTTL(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	kv := bucket(t, env)
	ttl := func() string {
		s, err := env.JS.Stream(t.Context(), "KV_STATE")
		require.NoError(t, err)
		m, err := s.GetLastMsgForSubject(t.Context(), "$KV.STATE.seen.a")
		require.NoError(t, err)
		return m.Header.Get(jetstream.MsgTTLHeader)
	}
	rev, err := kv.Create(t.Context(), "seen.a", nil, jetstream.KeyTTL(time.Hour))
	require.NoError(t, err)
	require.NotEmpty(t, ttl())
	_, err = kv.Update(t.Context(), "seen.a", nil, rev)
	require.NoError(t, err)
	require.Empty(t, ttl())
}

// Hence KV_STATE is managed as a stream.
func TestFactCreateOrUpdateKeyValueRewritesSettings(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	_, err := env.JS.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "STATE", LimitMarkerTTL: time.Hour})
	require.NoError(t, err)
	r := reconcile(t, env.JS, embedded(t), streams.Options{})
	require.Equal(t, []string{"KV_STATE"}, names(r.Updated))
}

// J23: a publish that no stream takes is an error.
func TestFactPublishWithoutStreamFails(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := env.JS.Publish(ctx, "webhook.1.2.task.review", nil)
	require.ErrorIs(t, err, jetstream.ErrNoStreamResponse)
}

// Hence retention purges by the records, never by an ack floor alone.
func TestFactPurgeDropsUnackedMessages(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	_, err := env.JS.Publish(t.Context(), "webhook.1.2.task.review", nil)
	require.NoError(t, err)
	s, err := env.JS.Stream(t.Context(), "WEBHOOKS")
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(2)))
	c, err := env.JS.Consumer(t.Context(), "WEBHOOKS", "tasks")
	require.NoError(t, err)
	require.Zero(t, c.CachedInfo().NumPending)
	require.Zero(t, c.CachedInfo().NumAckPending)
}

// OPERATOR: a request id has one beginning over all tenants, at most six
// events, and nobody takes one away.
func TestFactOperatorSubject(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	expect := func(subject string) error {
		m := nats.NewMsg(subject)
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "0")
		m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, "operator.*.u1")
		_, err := env.JS.PublishMsg(t.Context(), m)
		return err
	}
	require.NoError(t, expect("operator.acme.u1"))
	requireCode(t, expect("operator.other.u1"), errWrongLastSequence)

	var err error
	for range 5 {
		_, err = env.JS.Publish(t.Context(), "operator.acme.u1", nil)
		require.NoError(t, err)
	}
	_, err = env.JS.Publish(t.Context(), "operator.acme.u1", nil)
	requireCode(t, err, 10077)
	s, err := env.JS.Stream(t.Context(), "OPERATOR")
	require.NoError(t, err)
	require.Error(t, s.DeleteMsg(t.Context(), 1))
	require.Error(t, s.Purge(t.Context()))
}
