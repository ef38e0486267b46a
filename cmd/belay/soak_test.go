package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSoakAuditFindsEachViolation breaks a clean soak in one way at a time.
func TestSoakAuditFindsEachViolation(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	type world struct {
		accepted map[string]string
		sent     map[string]bool
		list     []soakItem
		notes    []note
		ended    map[string]time.Time
	}
	clean := func() world {
		return world{
			accepted: map[string]string{"d1": "t1", "d2": "t2"}, sent: map[string]bool{"d1": true, "d2": true},
			list: []soakItem{{"t1", "done"}, {"t2", "done"}},
			notes: []note{
				{Event: noteStart, Task: "t1", Attempt: "1", At: at}, {Event: noteEnd, Task: "t1", Attempt: "1", At: at},
				{Event: noteStart, Task: "t2", Attempt: "1", At: at}, {Event: noteStart, Task: "t2", Attempt: "2", At: at},
			},
			ended: map[string]time.Time{"t1": at.Add(time.Second)},
		}
	}
	for _, tt := range []struct {
		name  string
		wreck func(*world)
		want  func(findings) []string
	}{
		{"lost", func(w *world) { w.list = w.list[:1] }, func(f findings) []string { return f.lost }},
		{"extra", func(w *world) { w.list = append(w.list, soakItem{"t3", "done"}) }, func(f findings) []string { return f.extra }},
		{"twice accepted", func(w *world) { w.accepted["d2"] = "t1" }, func(f findings) []string { return f.twice }},
		{"twice listed", func(w *world) { w.list = append(w.list, w.list[0]) }, func(f findings) []string { return f.twice }},
		{"overlap", func(w *world) { w.notes = append(w.notes, note{Event: noteOverlap, Task: "t1"}) }, func(f findings) []string { return f.overlapping }},
		{"one attempt twice", func(w *world) { w.notes = append(w.notes, w.notes[0]) }, func(f findings) []string { return f.overlapping }},
		{"after end", func(w *world) {
			w.notes = append(w.notes, note{Event: noteStart, Task: "t1", Attempt: "2", At: at.Add(time.Minute)})
		}, func(f findings) []string { return f.afterEnd }},
		{"open", func(w *world) { w.list[1].Status = "queued" }, func(f findings) []string { return f.open }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := clean()
			f := audit(w.accepted, w.sent, w.list, w.notes, w.ended)
			require.Zero(t, f.violations(), "%+v", f)
			tt.wreck(&w)
			f = audit(w.accepted, w.sent, w.list, w.notes, w.ended)
			require.NotEmpty(t, tt.want(f))
			require.NotEmpty(t, f.first())
		})
	}
}

func TestSoakAuditFindsEachWrongReply(t *testing.T) {
	t.Parallel()
	list := []soakItem{{"t1", "done"}, {"t2", "failed"}}
	replies := func() []soakReply {
		return []soakReply{{"t1-0", "t1", "delivered"}, {"t2-0", "t2", "delivering"}}
	}
	for _, came := range []map[string]int{{"t1-0": 1}, {"t1-0": 1, "t2-0": 1}} {
		wrong, unknown := auditReplies(list, replies(), came)
		require.Empty(t, wrong)
		require.Equal(t, 1, unknown)
		require.Zero(t, repliesLeft(list, replies()))
	}
	for name, wreck := range map[string]func(r []soakReply, came map[string]int) []soakReply{
		"none":            func(r []soakReply, _ map[string]int) []soakReply { return r[:1] },
		"two of one task": func(r []soakReply, _ map[string]int) []soakReply { r[1].TaskID = "t1"; return r },
		"pending":         func(r []soakReply, _ map[string]int) []soakReply { r[1].Status = "pending"; return r },
		"failed":          func(r []soakReply, _ map[string]int) []soakReply { r[1].Status = "failed"; return r },
		"never came":      func(r []soakReply, came map[string]int) []soakReply { delete(came, "t1-0"); return r },
		"came twice":      func(r []soakReply, came map[string]int) []soakReply { came["t2-0"] = 2; return r },
		"not known":       func(r []soakReply, came map[string]int) []soakReply { came["t3-0"] = 1; return r },
	} {
		came := map[string]int{"t1-0": 1, "t2-0": 1}
		wrong, _ := auditReplies(list, wreck(replies(), came), came)
		require.NotEmpty(t, wrong, name)
	}
}

func TestReadNotesLeavesOutACutLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes")
	none, err := readNotes(path)
	require.NoError(t, err)
	require.Empty(t, none)
	require.NoError(t, note{Task: "t1", Attempt: "1"}.write(path, noteStart))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"event":"end","ta`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	got, err := readNotes(path)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, noteStart, got[0].Event)
}

// A door answers 200 or 503; anything else, and no answer in time, is wrong.
func TestSoakFindsEachWrongAnswer(t *testing.T) {
	t.Parallel()
	var a soakAnswers
	began := time.Now()
	a.note("d1", answer{status: 200}, nil, began)
	a.note("d2", answer{status: 503}, nil, began.Add(-8*time.Second))
	a.note("d2", answer{status: 200}, nil, began)
	require.Empty(t, a.wrong)
	require.Equal(t, 1, a.refused)
	require.GreaterOrEqual(t, a.slowest, 8*time.Second)
	require.Less(t, a.longest, a.slowest, "what was refused leaves no gap between those accepted")
	a.note("d3", answer{}, context.DeadlineExceeded, began)
	a.note("d4", answer{status: 500, body: []byte("oops")}, nil, began)
	require.Len(t, a.wrong, 2)
	require.Contains(t, a.wrong[0], "d3")
	require.Contains(t, a.wrong[1], "oops")
}

// What a process prints when it is ready, of each role.
func TestSoakKnowsWhenAProcessIsReady(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"belay is ready\n  webhook    http://127.0.0.1:3000/webhook\n  metrics    http://127.0.0.1:9464/metrics\n": "http://127.0.0.1:3000",
		"belay is ready\n  role       worker\n  metrics    http://127.0.0.1:9464/metrics\n":                        "",
	} {
		found := make(chan string, 1)
		greeting(strings.NewReader(text), found)
		got, ready := <-found
		require.True(t, ready)
		require.Equal(t, want, got)
	}
	found := make(chan string, 1)
	greeting(strings.NewReader(""), found)
	_, ready := <-found
	require.False(t, ready, "it ended without a word")
}
