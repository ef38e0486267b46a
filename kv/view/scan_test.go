package view

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

// fill sets every field, one that is added too.
func fill(t *rapid.T, v reflect.Value) {
	if at, ok := v.Addr().Interface().(*task.Time); ok {
		*at = task.At(noon.Add(time.Duration(rapid.Int64Range(-1e6, 1e6).Draw(t, "seconds")) * time.Second))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "s"))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rapid.Int().Draw(t, "n")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "u"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "b"))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, "len"), 3))
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	default:
		t.Fatalf("no way to fill a %s", v.Type())
	}
}

func TestScanReadsWhatEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s, fast, slow shape
		fill(t, reflect.ValueOf(&s).Elem())
		b, err := json.Marshal(&s)
		require.NoError(t, err)
		require.True(t, fast.Scan(b), "%s", b)
		require.NoError(t, json.Unmarshal(b, &slow))
		require.Equal(t, slow, fast, "a field is missing in shape.Scan: %s", b)

		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[at] = rapid.SampledFrom([]byte(`"{}[],:\0 x`)).Draw(t, "byte")
		fast, slow = shape{}, shape{}
		if !fast.Scan(b) {
			require.Zero(t, fast)
			return
		}
		require.NoError(t, json.Unmarshal(b, &slow), "%s", b)
		require.Equal(t, slow, fast, "%s", b)
	})
}

// A whole record, with what the index passes over.
func TestScanPassesOverTheRest(t *testing.T) {
	t.Parallel()
	r := terminal(3)
	r.Kind.PRTitle, r.CloneURL, r.BeatenBy = "a \"title\"", "https://git.example", &task.Order{Seq: 1}
	r.Intents = []task.Intent{{N: 1, Channel: "c", Payload: []byte("x")}}
	var fast, slow shape
	b := mustJSON(r)
	require.True(t, fast.Scan(b))
	require.NoError(t, json.Unmarshal(b, &slow))
	require.Equal(t, slow, fast)
}

func BenchmarkDecode(b *testing.B) {
	value := mustJSON(terminal(7))
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		var s shape
		if err := task.Decode(value, &s, &s.V); err != nil {
			b.Fatal(err)
		}
	}
}

// Values that no closed list has are shown as they are.
func TestEntriesKeepWhatNoListHas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status task.ResultStatus
		kind   string
	}{
		{"", "fix_issue"}, {task.ResultSuccess, "fix_issue"}, {task.ResultNeedsInput, "review_pull_request"}, {"of_the_future", "fix_issue"}, {"partial", "of_the_future"}, {"", ""},
	} {
		s := shape{State: task.Completed, ResultStatus: c.status, Kind: shapeKind{task.KindName(c.kind)}}
		it := s.entry([16]byte{1}, 1).item()
		require.Equal(t, task.Completed, it.State)
		require.Equal(t, c.status, it.ResultStatus)
		require.Equal(t, c.kind, string(it.Kind))
	}
	plain := shape{State: task.Completed, ResultStatus: task.ResultSuccess, Kind: shapeKind{task.FixIssue}}
	require.Nil(t, plain.entry([16]byte{1}, 1).result, "most tasks need no more than the entry")
}
