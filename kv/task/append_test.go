package task_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

func TestAppendWritesWhatEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, d := draw[task.Record](t), draw[task.Delivery](t)
		if rapid.Bool().Draw(t, "no kind") {
			r.Kind = task.Kind{}
		}
		want, err := json.Marshal(&r)
		require.NoError(t, err)
		got, err := r.Append([]byte("before"))
		require.NoError(t, err)
		require.Equal(t, "before"+string(want), string(got), "a field is missing in Record.Append")
		want, err = json.Marshal(&d)
		require.NoError(t, err)
		got, err = d.Append(nil)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "a field is missing in Delivery.Append")
	})
}

func TestAppendRefusesAKindWithoutAName(t *testing.T) {
	t.Parallel()
	r := queued(t)
	r.Kind = task.Kind{Body: "of no kind"}
	_, err := r.Append(nil)
	require.Error(t, err)
	d := reviewDelivery()
	d.Task.Kind = task.Kind{}
	_, err = d.Append(nil)
	require.Error(t, err)
}

func BenchmarkAppend(b *testing.B) {
	r := queued(b)
	b.ReportAllocs()
	buf := make([]byte, 0, 1<<10)
	for b.Loop() {
		if _, err := r.Append(buf); err != nil {
			b.Fatal(err)
		}
	}
}
