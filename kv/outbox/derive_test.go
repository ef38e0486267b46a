package outbox_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/outbox"
)

var origin = outbox.Origin{TaskID: "task", InstallationID: 7, Repo: "acme/api", At: noon}

func TestOB13OB38DeriveIsPure(t *testing.T) {
	t.Parallel()
	intents := []outbox.Intent{
		{N: 1, Channel: "callback:ci", To: "u", Payload: []byte("{\"a\": \"<b>\",\n \"n\": 12345678901234567890}")},
		{N: 2, Channel: "callback:ci", To: "u", Payload: []byte(`[]`)},
	}
	one, two := outbox.Derive(origin, intents), outbox.Derive(origin, intents)
	require.Equal(t, one, two)
	require.Equal(t, outbox.ID("task-1"), one[0].ID)
	require.Equal(t, outbox.ID("task-2"), one[1].ID)
	require.Equal(t, `{"a":"<b>","n":12345678901234567890}`, string(one[0].Payload), "no number and no letter changes")
	for i, r := range one {
		require.NoError(t, r.Check())
		require.Equal(t, outbox.Pending, r.Status)
		require.Equal(t, intents[i].N, r.Index)
		require.Equal(t, "task", r.TaskID)
		require.Equal(t, int64(7), r.InstallationID)
		require.Equal(t, outbox.At(noon), r.CreatedAt)
	}
}

// O07: what cannot be sent becomes a record that fails, not a loop.
func TestO07DeriveOfWhatIsNoPayload(t *testing.T) {
	t.Parallel()
	for name, p := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "half": []byte(`{"a":`), "binary": {0xff, 0xfe}, "huge": []byte(`"` + strings.Repeat("x", outbox.MaxPayload) + `"`),
	} {
		r := outbox.Derive(origin, []outbox.Intent{{N: 1, To: strings.Repeat("y", 3*outbox.MaxName), Payload: p}})[0]
		require.NoError(t, r.Check(), name)
		var said string
		require.NoError(t, json.Unmarshal(r.Payload, &said), name)
		require.Contains(t, said, "belay: ", name)
	}
}

func TestOB15PayloadIsJSON(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "x", "{", `{"a":1}{`, "\"\xff\""} {
		_, err := outbox.New("i", "c", "t", []byte(bad), noon)
		require.ErrorIs(t, err, outbox.ErrInvalid, "%q", bad)
	}
	for _, r := range []outbox.Record{
		{Channel: "c", Payload: []byte("1")}, {ID: "i", Payload: []byte("1")}, {ID: "i", Channel: "c"},
		{ID: "i", Channel: "c", To: strings.Repeat("x", outbox.MaxName+1), Payload: []byte("1")},
		{ID: outbox.ID(strings.Repeat("x", outbox.MaxID+1)), Channel: "c", Payload: []byte("1")},
	} {
		require.ErrorIs(t, r.Check(), outbox.ErrInvalid)
	}
}

// Freezing is stable: what is stored is what was frozen, through any number of
// encodings.
func TestFreezeIsStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, err := json.Marshal(map[string]any{"s": rapid.String().Draw(t, "s"), "n": rapid.Float64().Draw(t, "n")})
		require.NoError(t, err)
		one, err := outbox.Freeze(in)
		require.NoError(t, err)
		two, err := outbox.Freeze(one)
		require.NoError(t, err)
		require.Equal(t, string(one), string(two))
	})
}

func TestOB34OrderWithinALane(t *testing.T) {
	t.Parallel()
	a := outbox.Place{Index: 1, CreatedAt: noon.Add(time.Hour), ID: "z"}
	b := outbox.Place{Index: 2, CreatedAt: noon, ID: "a"}
	require.True(t, a.Before(b))
	require.False(t, b.Before(a))
	require.True(t, outbox.Place{Index: 1, CreatedAt: noon}.Before(a))
	end := noon.Add(outbox.Lease)
	require.True(t, outbox.Blocks(outbox.Pending, time.Time{}, noon))
	require.True(t, outbox.Blocks(outbox.Delivering, end, noon))
	require.False(t, outbox.Blocks(outbox.Delivering, end, end), "an unknown one holds nobody up")
	require.False(t, outbox.Blocks(outbox.Failed, end, noon), "a failed one holds nobody up")
	require.False(t, outbox.Blocks(outbox.Delivered, end, noon))

	r := at(t, outbox.Pending)
	_, ordered := r.Lane()
	require.False(t, ordered, "without a task there is no order")
	r.TaskID = "task"
	lane, ordered := r.Lane()
	require.True(t, ordered)
	require.Equal(t, outbox.Lane{TaskID: "task", Channel: r.Channel, To: r.To}, lane)
}

func TestTextIsCutAtARune(t *testing.T) {
	t.Parallel()
	r, err := at(t, outbox.Delivering).Attempt(strings.Repeat("é", outbox.MaxText), time.Time{}, noon)
	require.NoError(t, err)
	require.LessOrEqual(t, len(r.LastError), outbox.MaxText)
	require.True(t, json.Valid([]byte(`"`+r.LastError+`"`)))
	require.NotContains(t, r.LastError, "\ufffd")
}

func TestTime(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`""`: "", `null`: "", `"2026-03-01T12:00:00.123456789+02:00"`: "2026-03-01T10:00:00.123456Z",
	} {
		var x outbox.Time
		require.NoError(t, json.Unmarshal([]byte(in), &x), in)
		require.Equal(t, want, x.String())
	}
	for _, bad := range []string{`1`, `"yesterday"`} {
		var x outbox.Time
		require.Error(t, json.Unmarshal([]byte(bad), &x))
	}
	text, err := outbox.Time{}.MarshalText()
	require.NoError(t, err)
	require.Empty(t, text)
}
