package kv_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// readAll follows the cursors to the end and returns the ids.
func readAll(t testing.TB, l *kv.DeliveryLog, q kv.DeliveryQuery) (ids []task.DeliveryID) {
	t.Helper()
	for {
		p, err := l.Page(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(p.Deliveries), q.Limit)
		for _, d := range p.Deliveries {
			ids = append(ids, d.ID)
		}
		if q.Cursor = p.Next; q.Cursor == "" {
			return ids
		}
	}
}

func TestDeliveriesPageNewestFirst(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	require.Empty(t, readAll(t, l, kv.DeliveryQuery{Limit: 1}))
	var all, seven, web []task.DeliveryID
	for i := range 9 {
		d := delivery(task.DeliveryID(fmt.Sprintf("g%d", i)))
		d.InstallationID = 7 + int64(i%2)
		d.Repo = []string{"acme/api", "acme/web", "acme/cli"}[i%3]
		accept(t, l, d)
		all = append([]task.DeliveryID{d.ID}, all...)
		if i%2 == 0 {
			seven = append([]task.DeliveryID{d.ID}, seven...)
		}
		if i%3 == 1 {
			web = append([]task.DeliveryID{d.ID}, web...)
		}
	}
	inst := int64(7)
	for limit := 1; limit <= 10; limit++ {
		require.Equal(t, all, readAll(t, l, kv.DeliveryQuery{Limit: limit}))
		require.Equal(t, seven, readAll(t, l, kv.DeliveryQuery{Limit: limit, Installation: &inst}))
		require.Equal(t, web, readAll(t, l, kv.DeliveryQuery{Limit: limit, Repo: "acme/web"}))
		require.Equal(t, web, readAll(t, l, kv.DeliveryQuery{Limit: limit, Repos: []string{"acme/web", "x"}}))
		require.Empty(t, readAll(t, l, kv.DeliveryQuery{Limit: limit, Repos: []string{}}), "an empty scope sees nothing")
		require.Empty(t, readAll(t, l, kv.DeliveryQuery{Limit: limit, Repos: []string{"x"}, Repo: "acme/web"}), "a filter does not widen the scope")
	}
	p, err := l.Page(t.Context(), kv.DeliveryQuery{})
	require.NoError(t, err)
	require.Len(t, p.Deliveries, 1, "the limit is at least 1")
}

func TestDeliveriesPassOverGapsAndGarbage(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	for i := range 6 {
		accept(t, l, delivery(task.DeliveryID(fmt.Sprintf("g%d", i))))
	}
	_, err := env.JS.Publish(t.Context(), "webhook.7.11.task.fix_issue", []byte("garbage"))
	require.NoError(t, err)
	s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(t.Context(), 4))
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(3)))
	p, err := l.Page(t.Context(), kv.DeliveryQuery{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, []task.DeliveryID{"g5", "g4", "g2"}, readAll(t, l, kv.DeliveryQuery{Limit: 2}))
	require.NoError(t, s.Purge(t.Context()))
	p, err = l.Page(t.Context(), kv.DeliveryQuery{Limit: 2, Cursor: p.Next})
	require.NoError(t, err)
	require.Empty(t, p, "a cursor into what was purged since is the end")
}

func TestDeliveriesCursorGarbage(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	accept(t, l, delivery("g1"))
	for _, bad := range []string{"?", "=", "MQ==", enc("-1"), enc("x"), enc("18446744073709551616")} {
		_, err := l.Page(t.Context(), kv.DeliveryQuery{Limit: 1, Cursor: bad})
		require.ErrorIs(t, err, kv.ErrCursor, bad)
	}
	for far, n := range map[string]int{enc("0"): 0, enc(fmt.Sprint(uint64(math.MaxUint64))): 1} {
		p, err := l.Page(t.Context(), kv.DeliveryQuery{Limit: 1, Cursor: far})
		require.NoError(t, err, "past either end is no error")
		require.Len(t, p.Deliveries, n)
		require.Empty(t, p.Next)
	}
}

func enc(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// DT-99: of another installation's deliveries, however many, none is read, and
// none makes a page short; of a repository's, names that differ in letter case
// are one.
func TestDT99DeliveriesWithinAScope(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	var mine, web []task.DeliveryID
	for i := range 9 {
		d := delivery(task.DeliveryID(fmt.Sprintf("g%d", i)))
		d.Repo = []string{"acme/api", "Acme/Web", "acme/web"}[i%3]
		accept(t, l, d)
		mine = append([]task.DeliveryID{d.ID}, mine...)
		if i%3 > 0 {
			web = append([]task.DeliveryID{d.ID}, web...)
		}
		fillAs(t, env, "webhook.8.11.ignored.ping", fmt.Sprintf("n%d", i), 500, `{"v":1,"delivery_id":"x","installation_id":8,"repo":"acme/web","routing":"ignored:ping"}`)
	}
	seven := int64(7)
	for limit := 1; limit <= 9; limit++ {
		q := kv.DeliveryQuery{Limit: limit, Installation: &seven}
		require.Equal(t, mine, readFull(t, l, q))
		q.Repos = []string{"ACME/WEB"}
		require.Equal(t, web, readFull(t, l, q))
		q.Repos, q.Repo = nil, "acme/Web"
		require.Equal(t, web, readFull(t, l, q))
	}
	_, err := l.Find(t.Context(), "g1", kv.DeliveryQuery{Installation: &seven, Repos: []string{"acme/web"}})
	require.NoError(t, err)
	eight := int64(8)
	for _, q := range []kv.DeliveryQuery{{Installation: &eight}, {Installation: &seven, Repos: []string{"acme/api"}}, {Repos: []string{}}} {
		_, err = l.Find(t.Context(), "g1", q)
		require.ErrorIs(t, err, kv.ErrNotFound)
	}
}

// readFull is readAll that wants every page but the last to be full.
func readFull(t testing.TB, l *kv.DeliveryLog, q kv.DeliveryQuery) (ids []task.DeliveryID) {
	t.Helper()
	for {
		p, err := l.Page(t.Context(), q)
		require.NoError(t, err)
		for _, d := range p.Deliveries {
			ids = append(ids, d.ID)
		}
		if q.Cursor = p.Next; q.Cursor == "" {
			return ids
		}
		require.Len(t, p.Deliveries, q.Limit, "a page with a cursor is full")
	}
}

// A name that next to nothing has ends its page early, with a cursor.
func TestDeliveriesPageIsBounded(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	accept(t, l, delivery("g1"))
	fill(t, env, "n", 25_000, `{}`)
	q := kv.DeliveryQuery{Limit: 10, Repo: "acme/api"}
	p, err := l.Page(t.Context(), q)
	require.NoError(t, err)
	require.Empty(t, p.Deliveries)
	require.NotEmpty(t, p.Next)
	q.Cursor = p.Next
	require.Equal(t, []task.DeliveryID{"g1"}, readAll(t, l, q))
}

func TestDeliveriesFind(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	_, err := l.Find(t.Context(), "g1", kv.DeliveryQuery{})
	require.ErrorIs(t, err, kv.ErrNotFound)
	fill(t, env, "n", 2500, `{}`) // more than one batch
	accept(t, l, delivery("g1"))
	byHook := delivery("g1")
	byHook.HookID, byHook.PayloadHash = "2", "other"
	accept(t, l, byHook)
	ghes := delivery("g2")
	ghes.Source = "ghes"
	accept(t, l, ghes)
	accept(t, l, delivery("xg1"))
	got, err := l.Find(t.Context(), "g1", kv.DeliveryQuery{})
	require.NoError(t, err)
	require.Equal(t, "2", got.HookID, "the newest of an id")
	require.EqualValues(t, 2502, got.Seq)
	all, err := l.FindAll(t.Context(), "g1", kv.DeliveryQuery{})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "1", all[1].HookID, "the newest comes first")
	got, err = l.Find(t.Context(), "g2", kv.DeliveryQuery{})
	require.NoError(t, err)
	require.Equal(t, "ghes", got.Source)
	_, err = l.Find(t.Context(), "g", kv.DeliveryQuery{})
	require.ErrorIs(t, err, kv.ErrNotFound)

	s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(t.Context(), 2502))
	got, err = l.Find(t.Context(), "g1", kv.DeliveryQuery{})
	require.NoError(t, err)
	require.EqualValues(t, 2501, got.Seq)
	require.NoError(t, s.Purge(t.Context()))
	_, err = l.Find(t.Context(), "g1", kv.DeliveryQuery{})
	require.ErrorIs(t, err, kv.ErrNotFound)
}
