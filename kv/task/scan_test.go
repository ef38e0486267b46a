package task_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

// fill sets every field of v, down to the last, to something or at times to
// nothing; a field that is added is filled too.
func fill(t *rapid.T, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *task.Time:
		if rapid.Bool().Draw(t, "at") {
			*x = task.At(noon.Add(time.Duration(rapid.Int64Range(-1e6, 1e6).Draw(t, "seconds")) * time.Second))
		}
		return
	case *task.Kind:
		*x = drawKind(t)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z:/_.-]{1,12}`), rapid.String()).Draw(t, "s"))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rapid.OneOf(rapid.Just(0), rapid.Int()).Draw(t, "n")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "u"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "b"))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
			return
		}
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(t, e)
			v.Set(reflect.Append(v, e))
		}
	default:
		t.Fatalf("no way to fill a %s", v.Type())
	}
}

func drawKind(t *rapid.T) task.Kind {
	var k task.Kind
	v := reflect.ValueOf(&k).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.Struct || rapid.Bool().Draw(t, "custom") {
			fill(t, v.Field(i))
		}
	}
	k.Name = rapid.SampledFrom(task.KindNames).Draw(t, "kind")
	return k
}

func draw[T any](t *rapid.T) T {
	var v T
	fill(t, reflect.ValueOf(&v).Elem())
	return v
}

// mutate spoils a text, or says the same in another way.
func mutate(t *rapid.T, b []byte) []byte {
	bits := []string{
		`null`, `"x"`, `1`, `-0`, `1.0`, `1e2`, `01`, `true`, `{}`, `[]`, `,`, `:`, ` `, "\n", `\u0041`, `\u00`, `\x`, `"`, "\x01", "\xff", `}`, `]`, `{"kind":"custom"}`,
		`"id":"y",`, `"ID":"y",`, `"attempt_log":[{"n":2}],`, `"kind":null,`, `"v":1,`, `"new":[{"a":[1,2.5e-3,"\ud800"]}],`, `"task":{"once":true},`,
	}
	for range rapid.IntRange(1, 3).Draw(t, "mutations") {
		at := rapid.IntRange(0, len(b)).Draw(t, "at")
		if rapid.Bool().Draw(t, "behind a member") {
			for at < len(b) && (at == 0 || b[at-1] != ',' && b[at-1] != '{') {
				at++
			}
		}
		cut := rapid.SampledFrom([]int{0, 0, 0, 1, 2, 9}).Draw(t, "cut")
		end := min(len(b), at+cut)
		bit := rapid.SampledFrom(bits).Draw(t, "bit")
		b = append(append(append([]byte{}, b[:at]...), bit...), b[end:]...)
	}
	return b
}

// agrees checks a fast reading against encoding/json's.
func agrees[T any, P interface {
	*T
	task.Scannable
}](t *rapid.T, b []byte) bool {
	var fast, slow T
	if !P(&fast).Scan(b) {
		require.Zero(t, fast, "what is refused is left as it was")
		return false
	}
	require.NoError(t, json.Unmarshal(b, &slow), "%s", b)
	require.Equal(t, slow, fast, "%s", b)
	return true
}

func TestScanReadsWhatIsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, d := draw[task.Record](t), draw[task.Delivery](t)
		b, err := json.Marshal(&r)
		require.NoError(t, err)
		require.True(t, agrees[task.Record](t, b), "a field is missing in Record.Scan: %s", b)
		b, err = json.MarshalIndent(&d, "", "\t")
		require.NoError(t, err)
		require.True(t, agrees[task.Delivery](t, b), "a field is missing in Delivery.Scan: %s", b)
	})
}

func TestScanNeverReadsOtherThanEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, d := draw[task.Record](t), draw[task.Delivery](t)
		b, err := json.Marshal(&r)
		require.NoError(t, err)
		agrees[task.Record](t, mutate(t, b))
		b, err = json.Marshal(&d)
		require.NoError(t, err)
		agrees[task.Delivery](t, mutate(t, b))
	})
}

// A field that this build does not know is for encoding/json to pass over, so
// that one that is forgotten in Scan is slow and not lost.
func TestScanLeavesUnknownFieldsToEncodingJSON(t *testing.T) {
	t.Parallel()
	var r task.Record
	require.True(t, r.Scan([]byte(`{"v":1,"id":"x"}`)))
	require.Equal(t, task.ID("x"), r.ID)
	require.False(t, r.Scan([]byte(`{"v":1,"id":"y","surface":1}`)))
	require.Equal(t, task.ID("x"), r.ID)
	var d task.Delivery
	require.False(t, d.Scan([]byte(`{"v":1,"task":{"new":1}}`)))
}

func TestScanTakesOneWholeObject(t *testing.T) {
	t.Parallel()
	all := func([]byte, []byte) bool { return true }
	for text, want := range map[string]bool{
		` { "a" : [ { "b" : -1.5e+3 } , "\"\\\/\b\f\n\r\t\u00aF" , true , false , null , [ ] , { } ] , "c" : 0 } `: true, `{}`: true,
		``: false, `[]`: false, `null`: false, `{`: false, `{"a"}`: false, `{"a":}`: false, `{"a":1,}`: false, `{,"a":1}`: false, `{"a":1}x`: false,
		`{"a":1 "b":2}`: false, `{"a":[1,]}`: false, `{"a":[1 2]}`: false, `{"a":01}`: false, `{"a":+1}`: false, `{"a":.5}`: false, `{"a":1.}`: false, `{"a":1e}`: false,
		`{"a":-}`: false, `{"a":tru}`: false, `{"a":"\u00g0"}`: false, `{"a":"\u00"}`: false, `{"a":"\x"}`: false, `{"a":"` + "\n" + `"}`: false, `{"a":"x}`: false, `{"A":1}`: false,
		`{"a\u0062":1}`: false, `{"ſ":1}`: false, `{a:1}`: false, `{"a":{"b":1}`: false, `{"a":{"b"}}`: false, `{"a":{1:2}}`: false,
	} {
		require.Equal(t, want, task.Scan([]byte(text), all), text)
		if want {
			require.True(t, json.Valid([]byte(text)))
		}
	}
	deep := make([]byte, 0, 200)
	for range 90 {
		deep = append(deep, '[')
	}
	require.False(t, task.Scan(append([]byte(`{"a":`), deep...), all))
	require.False(t, task.Scan([]byte(`{"a":1}`), func([]byte, []byte) bool { return false }))
}
