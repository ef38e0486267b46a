package streams_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
)

// embedded returns the set of streams.json.
func embedded(t testing.TB) streams.Set {
	t.Helper()
	set, err := streams.Load(belay.StreamsJSON)
	require.NoError(t, err)
	return set
}

// stream returns a stream of a set, to be changed in place.
func stream(t testing.TB, set streams.Set, name string) *streams.Stream {
	t.Helper()
	i := slices.IndexFunc(set.Streams, func(s streams.Stream) bool { return s.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return &set.Streams[i]
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	const head = `{"streams":[{"name":"S","metadata":{"belay_version":"1"},"consumers":[`
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":           {`{`, "parse streams: unexpected EOF"},
		"text after":        {`{"streams":[]} {}`, "parse streams: text after the end"},
		"unknown field":     {`{"streams":[{"name":"S","max_size":1}]}`, `parse streams: json: unknown field "max_size"`},
		"unknown enum":      {`{"streams":[{"name":"S","discard":"newest"}]}`, `parse streams: nats: can not unmarshal`},
		"duration text":     {`{"streams":[{"name":"S","max_age":"1h"}]}`, "parse streams: json: cannot unmarshal string into Go struct field"},
		"no name":           {`{"streams":[{}]}`, "check streams: stream 0 has no name"},
		"no version":        {`{"streams":[{"name":"S"}]}`, "check streams: stream S: metadata.belay_version is not a positive integer"},
		"version of words":  {`{"streams":[{"name":"S","metadata":{"belay_version":"one"}}]}`, "check streams: stream S: metadata.belay_version is not a positive integer"},
		"twice":             {`{"streams":[{"name":"S","metadata":{"belay_version":"1"}},{"name":"S"}]}`, "check streams: stream S is there twice"},
		"no durable":        {head + `{"name":"c"}]}]}`, "check streams: consumer S/: durable_name is missing"},
		"two names":         {head + `{"name":"b","durable_name":"c"}]}]}`, "check streams: consumer S/c: name differs from durable_name"},
		"push":              {head + `{"durable_name":"c","deliver_subject":"x"}]}]}`, "check streams: consumer S/c: deliver_subject is set, but belay pulls"},
		"no acks":           {head + `{"durable_name":"c","ack_policy":"none"}]}]}`, "check streams: consumer S/c: ack_policy is not explicit"},
		"gives up":          {head + `{"durable_name":"c","ack_policy":"explicit","max_deliver":5}]}]}`, "check streams: consumer S/c: max_deliver is not -1: messages past it would stay, unseen"},
		"J07 backoff":       {head + `{"durable_name":"c","ack_policy":"explicit","max_deliver":-1,"backoff":[1000000000]}]}]}`, "check streams: consumer S/c: backoff is set: it overrides ack_wait and delayed naks"},
		"J11 threshold":     {head + `{"durable_name":"c","ack_policy":"explicit","max_deliver":-1,"inactive_threshold":1000000000}]}]}`, "check streams: consumer S/c: inactive_threshold is set: an idle consumer would be deleted"},
		"two same consumer": {head + `{"durable_name":"c","ack_policy":"explicit","max_deliver":-1},{"durable_name":"c"}]}]}`, "check streams: consumer S/c is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := streams.Load([]byte(c.text))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Each entry is what NATS's own API takes, and nothing is lost on the way.
func TestEntriesAreNATSConfigurations(t *testing.T) {
	t.Parallel()
	var file struct {
		Streams []map[string]json.RawMessage `json:"streams"`
	}
	require.NoError(t, json.Unmarshal(belay.StreamsJSON, &file))
	require.Len(t, file.Streams, 5)
	for _, entry := range file.Streams {
		var consumers []json.RawMessage
		require.NoError(t, json.Unmarshal(entry["consumers"], &consumers))
		for _, c := range consumers {
			roundTrip(t, c, &jetstream.ConsumerConfig{})
		}
		delete(entry, "consumers")
		alone, err := json.Marshal(entry)
		require.NoError(t, err)
		roundTrip(t, alone, &jetstream.StreamConfig{})
	}
}

// roundTrip decodes strictly and checks that every field that has a value
// comes out again.
func roundTrip(t *testing.T, in []byte, into any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(in))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(into), "%s", in)
	out, err := json.Marshal(into)
	require.NoError(t, err)
	var want, got map[string]any
	require.NoError(t, json.Unmarshal(in, &want))
	require.NoError(t, json.Unmarshal(out, &got))
	for k, v := range want {
		require.Equal(t, v, got[k], "%s in %s", k, in)
	}
}

// DESIGN's table of streams, as numbers.
func TestStreamsAreAsDesigned(t *testing.T) {
	t.Parallel()
	set := embedded(t)
	for _, s := range set.Streams {
		require.Equal(t, jetstream.LimitsPolicy, s.Retention, s.Name)
		require.Equal(t, jetstream.FileStorage, s.Storage, s.Name)
		require.False(t, s.AllowDirect, "%s: a direct get may answer from a stale replica", s.Name)
		require.EqualValues(t, -1, s.MaxMsgs, s.Name)
	}
	w := stream(t, set, "WEBHOOKS")
	require.Equal(t, 96*time.Hour, w.Duplicates)
	require.Equal(t, jetstream.DiscardNew, w.Discard)
	require.Equal(t, jetstream.S2Compression, w.Compression)
	require.Zero(t, w.MaxAge)
	require.EqualValues(t, -1, w.MaxBytes)
	require.False(t, w.DenyPurge, "retention purges")

	kv := stream(t, set, "KV_STATE")
	require.Equal(t, []string{"$KV.STATE.>"}, kv.Subjects)
	require.EqualValues(t, 1, kv.MaxMsgsPerSubject)
	require.Equal(t, jetstream.DiscardNew, kv.Discard)
	require.True(t, kv.AllowMsgTTL)
	require.True(t, kv.AllowRollup)
	require.False(t, kv.DenyPurge)

	op := stream(t, set, "OPERATOR")
	require.True(t, op.DenyDelete)
	require.True(t, op.DenyPurge)
	require.True(t, op.DiscardNewPerSubject)
	require.Equal(t, jetstream.DiscardNew, op.Discard)
	require.EqualValues(t, 6, op.MaxMsgsPerSubject)

	day := 24 * time.Hour
	for name, age := range map[string]time.Duration{"EVENTS": 30 * day, "AUDIT": 400 * day} {
		s := stream(t, set, name)
		require.Equal(t, age, s.MaxAge, name)
		require.EqualValues(t, 1<<30, s.MaxBytes, name)
		require.Equal(t, jetstream.DiscardOld, s.Discard, name)
	}
	require.True(t, stream(t, set, "AUDIT").DenyDelete)
}

func TestConsumersAreAsDesigned(t *testing.T) {
	t.Parallel()
	set := embedded(t)
	got := map[string][]string{}
	for _, s := range set.Streams {
		for _, c := range s.Consumers {
			require.Equal(t, jetstream.DeliverAllPolicy, c.DeliverPolicy)
			filters := c.FilterSubjects
			if c.FilterSubject != "" {
				filters = []string{c.FilterSubject}
			}
			got[s.Name+"/"+c.Durable] = filters
		}
	}
	require.Equal(t, map[string][]string{
		"WEBHOOKS/admit": {"webhook.*.*.task.>", "webhook.*.*.ignored.installation_deleted", "webhook.*.*.ignored.closed"},
		"WEBHOOKS/tasks": {"webhook.*.*.task.>"},
		"WEBHOOKS/releases": {
			"webhook.*.*.task.review_pull_request", "webhook.*.*.ignored.self", "webhook.*.*.ignored.unroutable",
			"webhook.*.*.ignored.scope", "webhook.*.*.ignored.closed",
		},
		"KV_STATE/relay":  {"$KV.STATE.outbox.>"},
		"OPERATOR/issues": {"operator.>"},
	}, got)
	w := stream(t, set, "WEBHOOKS").Consumers
	require.Equal(t, 5*time.Second, w[0].AckWait)
	require.Equal(t, 30*time.Second, w[1].AckWait)
	require.Equal(t, -1, w[1].MaxAckPending, "tokens of queued work are never held back")
}

// J02: a copy of a compressed stream does not come back from every kill.
func TestJ02SeveralCopiesAreNotCompressed(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	changes, err := streams.Diff(t.Context(), env.JS, embedded(t), streams.Options{Replicas: 3})
	require.NoError(t, err)
	fields := map[string]string{}
	for _, c := range changes {
		for _, f := range c.Fields {
			if c.Stream == "WEBHOOKS" && c.Consumer == "" {
				fields[f.Name] = f.Want
			}
		}
	}
	require.Equal(t, map[string]string{"num_replicas": "3", "compression": `"none"`}, fields)
}
