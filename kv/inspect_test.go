package kv_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// stored is a delivery in the log and its task's record.
func stored(t *testing.T, env *natstest.Env, id task.DeliveryID, change func(r *task.Record)) task.Record {
	t.Helper()
	d := delivery(id)
	a, err := openLog(t, env.JS).Accept(t.Context(), d)
	require.NoError(t, err)
	d.Task.ID = kv.TaskID(d.Source, string(d.ID))
	r, err := task.New(d, a.Seq, noon)
	require.NoError(t, err)
	if change != nil {
		change(&r)
	}
	_, err = openStore(t, env).Create(t.Context(), r)
	require.NoError(t, err)
	return r
}

func put(t *testing.T, env *natstest.Env, key string, v any) {
	t.Helper()
	b, ok := v.([]byte)
	if !ok {
		var err error
		b, err = json.Marshal(v)
		require.NoError(t, err)
	}
	_, err := openBucket(t, env).Put(t.Context(), key, b, 0)
	require.NoError(t, err)
}

func inspect(t *testing.T, env *natstest.Env, admitted uint64) kv.Inspection {
	t.Helper()
	in, err := kv.Inspect(t.Context(), env.JS, admitted)
	require.NoError(t, err)
	require.Len(t, in.Problems, min(in.Broken, 100))
	return in
}

func TestInspectWholeStore(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	require.Equal(t, kv.Inspection{}, inspect(t, env, 0), "empty")
	for n := range 450 {
		stored(t, env, task.DeliveryID(fmt.Sprintf("d%d", n)), nil)
	}
	r := stored(t, env, "last", func(r *task.Record) {
		r.State, r.Attempts = task.Running, 3
		r.AttemptLog = []task.Attempt{{N: 1, EndedAt: noon}, {N: 3}}
	})
	key, _ := r.Key()
	require.NoError(t, openStore(t, env).SetPointer(t.Context(), key, task.Pointer{V: task.Version, Task: r.ID, Order: task.Order{Seq: r.DeliverySeq}}, 0))
	_, err := openLog(t, env.JS).Accept(t.Context(), ignored("ping", task.Unroutable))
	require.NoError(t, err)
	rec, err := outbox.New("x-0", "callback:ci", "x", []byte(`{}`), noon.Time)
	require.NoError(t, err)
	rec.TaskID, rec.InstallationID = string(r.ID), 7
	put(t, env, kv.OutboxKey(rec.ID), rec)
	require.Equal(t, kv.Inspection{Deliveries: 452, Tasks: 451, Replies: 1, Pointers: 1}, inspect(t, env, 452))
}

// DT-19: what a record names exists.
func TestDT19InspectFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	review := task.SupersedeKey{InstallationID: 7, RepoID: 11, Number: 5, FamiliarID: "fam"}
	reply := func(change func(r *outbox.Record)) outbox.Record {
		r, err := outbox.New("x-0", "callback:ci", "x", []byte(`{}`), noon.Time)
		require.NoError(t, err)
		change(&r)
		return r
	}
	rows := map[string]struct {
		breaks func(t *testing.T, env *natstest.Env)
		says   string
	}{
		"no record": {func(t *testing.T, env *natstest.Env) {
			_, err := openLog(t, env.JS).Accept(t.Context(), delivery("lost"))
			require.NoError(t, err)
		}, "delivery 2 (lost): its task "},
		"no delivery": {func(t *testing.T, env *natstest.Env) {
			stored(t, env, "b", func(r *task.Record) { r.DeliverySeq = 99 })
		}, "(99) is not in the log, which ends at 2"},
		"another's delivery": {func(t *testing.T, env *natstest.Env) {
			stored(t, env, "b", func(r *task.Record) { r.DeliverySeq = 1 })
		}, "delivery 1 is not of this task"},
		"purged delivery of a live task": {func(t *testing.T, env *natstest.Env) {
			stored(t, env, "b", nil)
			require.NoError(t, openLog(t, env.JS).PurgeBelow(t.Context(), 2))
		}, "it is queued, but its delivery a (1) was purged"},
		"torn record": {func(t *testing.T, env *natstest.Env) { put(t, env, "task.7.x", []byte(`{"v":1,"id":`)) }, "task.7.x: "},
		"swapped record": {func(t *testing.T, env *natstest.Env) {
			put(t, env, "task.7.x", stored(t, env, "b", nil))
		}, "task.7.x: it is the record of task.7."},
		"open attempt": {func(t *testing.T, env *natstest.Env) {
			stored(t, env, "b", func(r *task.Record) { r.Attempts, r.AttemptLog = 1, []task.Attempt{{N: 1}} })
		}, "attempt 1 is open, the task is queued"},
		"attempts out of order": {func(t *testing.T, env *natstest.Env) {
			stored(t, env, "b", func(r *task.Record) { r.Attempts, r.AttemptLog = 1, []task.Attempt{{N: 2, EndedAt: noon}} })
		}, "attempt 2 after 0 of 1"},
		"running without attempt": {func(t *testing.T, env *natstest.Env) {
			stored(t, env, "b", func(r *task.Record) { r.State = task.Running })
		}, "running without an attempt"},
		"reply of nothing": {func(t *testing.T, env *natstest.Env) {
			put(t, env, "outbox.x-0", reply(func(r *outbox.Record) { r.TaskID = "nobody" }))
		}, "outbox.x-0: task nobody has no record"},
		"torn reply":    {func(t *testing.T, env *natstest.Env) { put(t, env, "outbox.x-0", []byte(`{`)) }, "outbox.x-0: "},
		"swapped reply": {func(t *testing.T, env *natstest.Env) { put(t, env, "outbox.y", reply(func(*outbox.Record) {})) }, "it is the record of x-0"},
		"pointer to nothing": {func(t *testing.T, env *natstest.Env) {
			put(t, env, kv.SupersedeKey(review), task.Pointer{V: task.Version, Task: "nobody", Order: task.Order{Seq: 1}})
		}, "task nobody has no record"},
		"torn pointer":  {func(t *testing.T, env *natstest.Env) { put(t, env, kv.SupersedeKey(review), []byte(`{`)) }, "supersede.7.11.5.fam: "},
		"torn gate":     {func(t *testing.T, env *natstest.Env) { put(t, env, kv.GateKey(11, 5), []byte(`{`)) }, "gate.11.5: "},
		"torn delivery": {func(t *testing.T, env *natstest.Env) { publish(t, env, "webhook.7.11.task.fix_issue", "{") }, "delivery 2: "},
		"torn request": {func(t *testing.T, env *natstest.Env) {
			publish(t, env, "operator.invotek.7b1c1d39-6a52-4a0e-9d4c-6e0c8f3f5b1e", "{")
		}, "operator.invotek.7b1c1d39"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			stored(t, env, "a", nil)
			row.breaks(t, env)
			in := inspect(t, env, 100)
			require.NotEmpty(t, in.Problems)
			require.Contains(t, in.Problems[0], row.says, "%v", in.Problems)
		})
	}
}

func publish(t *testing.T, env *natstest.Env, subject, data string) {
	t.Helper()
	_, err := env.JS.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: []byte(data)})
	require.NoError(t, err)
}

func TestInspectOfWhatWasNotAdmittedYet(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	_, err := openLog(t, env.JS).Accept(t.Context(), delivery("new"))
	require.NoError(t, err)
	require.Zero(t, inspect(t, env, 0).Broken)
	require.Equal(t, 1, inspect(t, env, 1).Lost)
}

// A store that is torn apart does not fill the memory with what is wrong.
func TestInspectBoundsItsProblems(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	for n := range 150 {
		put(t, env, fmt.Sprintf("outbox.%d", n), []byte("{"))
	}
	in := inspect(t, env, 0)
	require.Equal(t, 150, in.Broken)
	require.Len(t, in.Problems, 100)
}

func TestBeatingAndAdmitted(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	n, err := kv.Beating(t.Context(), env.JS)
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = openStore(t, env).Beat(t.Context(), "b1", "one")
	require.NoError(t, err)
	n, err = kv.Beating(t.Context(), env.JS)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, openStore(t, env).EndBeats(t.Context(), "b1"))
	n, err = kv.Beating(t.Context(), env.JS)
	require.NoError(t, err)
	require.Zero(t, n, "it said goodbye")
	require.NoError(t, env.JS.DeleteConsumer(t.Context(), kv.StreamWebhooks, kv.ConsumerAdmit))
	admitted, err := kv.Admitted(t.Context(), env.JS)
	require.NoError(t, err)
	require.Zero(t, admitted)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cancel()
	_, err = kv.Inspect(ctx, env.JS, 0)
	require.Error(t, err)
}
