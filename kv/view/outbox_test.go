package view

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// out is a pending record of the outbox: index n of a task, to recipient "u".
func out(taskID string, n int, change ...func(*outbox.Record)) outbox.Record {
	r := outbox.Record{
		V: outbox.Version, ID: outbox.DerivedID(taskID, n), Channel: "callback:ci", To: "u", TaskID: taskID, Index: n,
		Payload: json.RawMessage(`{"big":"payload"}`), Status: outbox.Pending, InstallationID: 7, Repo: "acme/api",
		CreatedAt: outbox.At(noon), UpdatedAt: outbox.At(noon),
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func in(s outbox.Status) func(*outbox.Record) {
	return func(r *outbox.Record) {
		r.Status = s
		if s != outbox.Pending {
			r.Claim = outbox.Claim{Nonce: "n", Boot: "b", At: r.CreatedAt}
		}
	}
}

func to(who string) func(*outbox.Record) { return func(r *outbox.Record) { r.To = who } }

func aged(d time.Duration) func(*outbox.Record) {
	return func(r *outbox.Record) {
		r.CreatedAt, r.UpdatedAt = outbox.At(noon.Add(-d)), outbox.At(noon.Add(-d))
	}
}

func (b *bench) outbox(rs ...outbox.Record) {
	for _, r := range rs {
		v, err := json.Marshal(&r)
		require.NoError(b.t, err)
		b.put("outbox."+string(r.ID), v)
	}
}

// turns are the ids that may be sent now.
func (b *bench) turns() (ids []outbox.ID) {
	for _, p := range b.NextOutbox(func(string, string) int { return 100 }, func(PendingOutbox) bool { return true }) {
		ids = append(ids, p.ID)
	}
	return ids
}

func TestOutboxPageHasEveryFieldAndStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox(out("a", 1, in(outbox.Delivering), func(r *outbox.Record) { r.Attempts, r.LastError = 1, "no answer" }), out("b", 1))
	page, err := b.Outbox(OutboxQuery{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, OutboxItem{
		ID: "a-1", Channel: "callback:ci", To: "u", TaskID: "a", InstallationID: 7, Repo: "acme/api", Index: 1, Status: outbox.Delivering,
		Attempts: 1, LastError: "no answer", CreatedAt: task.At(noon), UpdatedAt: task.At(noon),
	}, page.Items[0])
	require.Len(t, page.Items, 2)
	for status, n := range map[string]int{"pending": 1, "delivering": 1, "delivered": 0, "failed": 0, StatusUnknown: 0, "nonsense": 0} {
		page, err = b.Outbox(OutboxQuery{Status: status, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Items, n, status)
	}
	b.clock.add(outbox.Lease)
	page, err = b.Outbox(OutboxQuery{Status: StatusUnknown, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Items, 1, "the lease is over")
	require.True(t, page.Items[0].Unknown)
	it, ok := b.FindOutbox("a-1")
	require.True(t, ok)
	require.Equal(t, page.Items[0], it)
}

func TestOutboxPagingSeesEachRecordOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := map[outbox.ID]bool{}
	for i := range 50 {
		r := out(fmt.Sprint("t", i), 1, aged(time.Duration(i%7)*time.Second), in(outbox.Statuses[i%4]))
		want[r.ID] = true
		b.outbox(r)
	}
	for _, q := range []OutboxQuery{{}, {Repo: "acme/api"}, {Repos: []string{"acme/api"}}, {Installation: new(int64(7))}, {Channel: "callback:ci"}} {
		q.Limit = 7
		got := map[outbox.ID]bool{}
		var last task.Time
		for {
			page, err := b.Outbox(q)
			require.NoError(t, err)
			for _, it := range page.Items {
				require.False(t, got[it.ID], "twice")
				require.False(t, !last.IsZero() && it.UpdatedAt.After(last.Time), "order")
				got[it.ID], last = true, it.UpdatedAt
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		require.Equal(t, want, got)
	}
	for _, q := range []OutboxQuery{{Repo: "x"}, {Repos: []string{}}, {Installation: new(int64(8))}, {Channel: "x"}, {Task: "x"}} {
		page, err := b.Outbox(q)
		require.NoError(t, err)
		require.Empty(t, page.Items, "out of scope: %+v", q)
	}
	page, err := b.Outbox(OutboxQuery{Task: "t3", Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	for _, bad := range []string{"%", "AA"} {
		_, err = b.Outbox(OutboxQuery{Cursor: bad})
		require.ErrorIs(t, err, ErrCursor)
	}
}

func TestOutboxCountsAndAges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.Equal(t, map[outbox.Status]int{"pending": 0, "delivering": 0, "delivered": 0, "failed": 0}, b.OutboxCounts().ByStatus)
	b.outbox(out("a", 1, aged(time.Minute)), out("b", 1, aged(time.Hour)), out("c", 1, aged(3*time.Minute), in(outbox.Delivering)),
		out("d", 1, in(outbox.Delivering)), out("e", 1, in(outbox.Failed)), out("f", 1, in(outbox.Delivered)))
	c := b.OutboxCounts()
	require.Equal(t, map[outbox.Status]int{"pending": 2, "delivering": 2, "delivered": 1, "failed": 1}, c.ByStatus)
	require.Equal(t, 1, c.Unknown)
	require.Equal(t, time.Hour, c.OldestPending)
	require.Equal(t, time.Minute, c.OldestUnknown)
	require.Len(t, b.AgedOutbox(noon.Add(time.Second), 10), 2, "only what is done ages")
	require.Empty(t, b.AgedOutbox(noon, 10))
	require.Len(t, b.LapsedOutbox(10, func(string) bool { return true }), 1)
	require.Empty(t, b.LapsedOutbox(10, func(string) bool { return false }))
	b.purge("outbox.b-1")
	b.outbox(out("a", 1, in(outbox.Delivered)))
	c = b.OutboxCounts()
	require.Equal(t, 0, c.ByStatus[outbox.Pending])
	require.Zero(t, c.OldestPending)
}

func TestOB34TurnsKeepTheOrderOfALane(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox(out("a", 2), out("a", 10), out("a", 1), out("a", 3, to("w")), out("b", 1))
	require.ElementsMatch(t, []outbox.ID{"a-1", "b-1", "a-3"}, b.turns(), "one of a lane, any of others")
	b.outbox(out("a", 1, in(outbox.Delivering)))
	require.NotContains(t, b.turns(), outbox.ID("a-2"), "its predecessor is being sent")
	b.clock.add(outbox.Lease)
	require.Contains(t, b.turns(), outbox.ID("a-2"), "an unknown one holds up until its lease is over")
	b.outbox(out("a", 1, in(outbox.Failed)))
	require.Contains(t, b.turns(), outbox.ID("a-2"), "a failed one does not hold up")
	require.NotContains(t, b.turns(), outbox.ID("a-10"))
	b.outbox(out("a", 2, in(outbox.Delivered)))
	require.Contains(t, b.turns(), outbox.ID("a-10"))
}

func TestTurnsAreBoundedByRecipient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 1000 {
		b.outbox(out(fmt.Sprintf("dead%04d", i), 1, to("dead"), aged(time.Hour)))
	}
	b.outbox(out("x", 1))
	looked := 0
	got := b.NextOutbox(func(_, who string) int { return map[string]int{"dead": 3, "u": 9}[who] }, func(PendingOutbox) bool { looked++; return true })
	require.Len(t, got, 4)
	require.Equal(t, 4, looked)
	got = b.NextOutbox(func(_, who string) int { return map[string]int{"u": 9}[who] }, func(PendingOutbox) bool { return true })
	require.Len(t, got, 1)
}

// O01: a crash between a task's end and its records leaves intents that show.
func TestO01UnderivedIntents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	done := rec(1, state(task.Completed), func(r *task.Record) {
		r.Intents = []task.Intent{{N: 1, Channel: "c", To: "u", Payload: []byte("{}")}, {N: 2, Channel: "c", To: "u", Payload: []byte("{}")}}
	})
	b.tasks(done, rec(2, state(task.Completed)))
	want := []Underived{{ID: id(1), InstallationID: 7}}
	require.Equal(t, want, b.Underived(10))
	b.outbox(out(string(id(1)), 1))
	require.Equal(t, want, b.Underived(10), "one is still missing")
	b.outbox(out(string(id(1)), 2))
	require.Empty(t, b.Underived(10))
	b.tasks(done)
	require.Empty(t, b.Underived(10), "they are there")
	done.Intents[0].N = 3
	b.tasks(done)
	require.Len(t, b.Underived(10), 1)
	done.State = task.Queued
	b.tasks(done)
	require.Empty(t, b.Underived(10), "a live task sends nothing")
	done.State = task.Failed
	b.tasks(done)
	require.Len(t, b.Underived(10), 1)
	b.purge(keyOf(done))
	require.Empty(t, b.Underived(10))
}

func TestOutboxRecordsThatCannotBeReadAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for key, v := range map[string]string{
		"outbox.new": `{"v":99}`, "outbox.odd": `{"v":1,"id":"odd","status":"sent"}`, "outbox.x": `{"v":1,"id":"y","status":"pending"}`,
	} {
		b.put(key, []byte(v))
	}
	require.Equal(t, 3, b.Poisoned())
	require.Empty(t, b.turns())
	b.purge("outbox.odd")
	require.Equal(t, 2, b.Poisoned())
}

func TestOutboxOlderRevisionsAreIgnored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.outbox(out("a", 1))
	old := b.rev
	b.outbox(out("a", 1, in(outbox.Delivered)))
	v, err := json.Marshal(new(out("a", 1)))
	require.NoError(t, err)
	b.apply(update{key: "outbox.a-1", value: v, rev: old})
	require.Empty(t, b.turns())
}

// A full replay drops what it does not show again; a stream that went back is
// believed.
func TestOutboxFollowsFullReplays(t *testing.T) {
	t.Parallel()
	w := watch(t)
	for i := range 3 {
		v, err := json.Marshal(new(out(fmt.Sprint(i), 1)))
		require.NoError(t, err)
		w.publish(fmt.Sprintf("outbox.%d-1", i), v)
	}
	w.until("three records", func() bool { return w.OutboxCounts().ByStatus[outbox.Pending] == 3 })
	<-w.OutboxChanged()
	w.mu.Lock()
	w.gen++
	w.replies.caughtUp(w.gen)
	w.replies.forgetRevisions()
	w.mu.Unlock()
	require.Empty(t, w.NextOutbox(func(string, string) int { return 1 }, func(PendingOutbox) bool { return true }))
	<-w.OutboxChanged()
}

// DT-99: a page of the outbox walks over the records of its own installation,
// and nothing is kept of one that has none any more.
func TestDT99OutboxOfOneInstallation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	of := func(i int64) func(*outbox.Record) { return func(r *outbox.Record) { r.InstallationID = i } }
	for n := range 20 {
		b.outbox(out("other", n, of(8)))
	}
	b.outbox(out("mine", 0, of(9)), out("mine", 1, of(9), in(outbox.Delivered)))
	for name, c := range map[string]struct {
		q    OutboxQuery
		want int
	}{
		"installation": {OutboxQuery{Installation: new(int64(9))}, 2},
		"its rarest":   {OutboxQuery{Installation: new(int64(9)), Status: "delivered"}, 1},
		"none":         {OutboxQuery{Installation: new(int64(7))}, 0},
	} {
		n := 0
		b.replies.source(&c.q, nil)(func(*reply) bool { n++; return true })
		require.Equal(t, c.want, n, name)
	}
	for n := range 20 {
		b.purge("outbox." + string(outbox.DerivedID("other", n)))
	}
	require.Len(t, b.replies.byInst, 1)
}
