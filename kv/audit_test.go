package kv_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func openAudit(t *testing.T, env *natstest.Env, o kv.AuditOptions) *kv.AuditLog {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	l, err := kv.OpenAuditLog(t.Context(), env.JS, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.Close(ctx)
	})
	return l
}

// trail closes the log and reads it back, newest first.
func trail(t *testing.T, env *natstest.Env, l *kv.AuditLog) []kv.AuditEntry {
	t.Helper()
	require.NoError(t, l.Close(t.Context()))
	var out []kv.AuditEntry
	for q := (kv.AuditQuery{Limit: 1000}); ; {
		p, err := l.Page(t.Context(), q)
		require.NoError(t, err)
		out = append(out, p.Entries...)
		if q.Cursor = p.Next; q.Cursor == "" {
			return out
		}
	}
}

func TestAuditKeepsEveryMutationNewestFirst(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	c := newClock()
	l := openAudit(t, env, kv.AuditOptions{Now: c.now})
	l.Record("interrupted", "t1", "acme/api", "attempt 1 of boot b")
	c.add(time.Second)
	l.Mutation(t.Context(), kv.AuditEntry{Kind: "retry", Caller: "service", InstallationID: 7, Repo: "acme/api", TaskID: "t2", Detail: "queued"})
	c.add(time.Second)
	l.Mutation(t.Context(), kv.AuditEntry{Kind: "conflict", Caller: "github", DeliveryID: "g1"})
	at := task.At(newClock().now())
	require.Equal(t, []kv.AuditEntry{
		{V: 1, At: task.At(at.Add(2 * time.Second)), Kind: "conflict", Caller: "github", DeliveryID: "g1"},
		{V: 1, At: task.At(at.Add(time.Second)), Kind: "retry", Caller: "service", InstallationID: 7, Repo: "acme/api", TaskID: "t2", Detail: "queued"},
		{V: 1, At: at, Kind: "interrupted", TaskID: "t1", Repo: "acme/api", Detail: "attempt 1 of boot b"},
	}, trail(t, env, l))
	s, err := env.JS.Stream(t.Context(), kv.StreamAudit)
	require.NoError(t, err)
	m, err := s.GetLastMsgForSubject(t.Context(), "audit.retry.7")
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"at":"2026-03-01T12:00:01.000000Z","kind":"retry","caller":"service","installation_id":7,"repo":"acme/api","task_id":"t2","detail":"queued"}`, string(m.Data))
	require.Zero(t, l.Dropped())
}

// DT-99: every read and every denial is audited; reads per caller and minute.
func TestDT99ReadsAndDenialsAreCounted(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	c := newClock()
	l := openAudit(t, env, kv.AuditOptions{Now: c.now})
	for range 3 {
		l.Read("service", 0, "tasks")
	}
	l.Read("service", 0, "deliveries")
	l.Read("tenant:acme", 7, "tasks")
	for range 4 {
		l.Denied("GET /api/github/tasks", "10.0.0.1")
	}
	c.add(time.Minute)
	l.Read("service", 0, "tasks")
	var got []string
	for _, e := range trail(t, env, l) {
		got = append(got, strings.Join([]string{e.At.Format("04:05"), e.Kind, e.Caller, e.Detail, string(rune('0' + e.Count))}, "|"))
	}
	require.Equal(t, []string{
		"01:00|read|service|tasks 1|1",
		"00:00|read|tenant:acme|tasks 1|1",
		"00:00|read|service|deliveries 1, tasks 3|4",
		"00:00|denied|10.0.0.1|GET /api/github/tasks 3|3",
		"00:00|denied|10.0.0.1|GET /api/github/tasks|1",
	}, got)
}

func TestAuditFloodOfDenialsLeavesRoom(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	c := newClock()
	l := openAudit(t, env, kv.AuditOptions{Now: c.now, Queue: 4096})
	total := 0
	for i := range 5000 {
		l.Denied("GET /"+strings.Repeat("x", i%50), "10.0.0."+strings.Repeat("1", i%2000))
	}
	es := trail(t, env, l)
	for _, e := range es {
		total += e.Count
		require.LessOrEqual(t, len(e.Detail), 2<<10)
	}
	require.Equal(t, 5000, total, "every denial is counted")
	require.Less(t, len(es), 2100)
	require.Zero(t, l.Dropped())
}

func TestDT105AuditRedacts(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openAudit(t, env, kv.AuditOptions{})
	secret := "ghp_" + strings.Repeat("a", 36)
	l.Record("poison", "", "", "value "+secret+strings.Repeat("ä", 4000))
	e := trail(t, env, l)[0]
	require.NotContains(t, e.Detail, secret)
	require.Contains(t, e.Detail, "[redacted-token]")
	require.LessOrEqual(t, len(e.Detail), 2<<10)
}

func TestAuditNeverBlocksAndCountsWhatIsLost(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	held, entered := make(chan struct{}), make(chan struct{}, 100)
	l := openAudit(t, env, kv.AuditOptions{Queue: 2, Hooks: &kv.Hooks{Before: func(ctx context.Context, _, _ string) error {
		entered <- struct{}{}
		select {
		case <-held:
		case <-ctx.Done():
		}
		return nil
	}}})
	l.Record("a", "", "", "")
	<-entered // the drain holds one, two wait, the others are lost
	for range 5 {
		l.Record("b", "", "", "")
	}
	require.EqualValues(t, 3, l.Dropped())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.Mutation(ctx, kv.AuditEntry{Kind: "retry"})
	require.EqualValues(t, 4, l.Dropped())

	waits := make(chan struct{})
	go func() {
		l.Mutation(t.Context(), kv.AuditEntry{Kind: "cancel"})
		close(waits)
	}()
	close(held)
	<-waits
	require.Len(t, trail(t, env, l), 4)
	require.EqualValues(t, 4, l.Dropped())
	l.Record("late", "", "", "")
	require.EqualValues(t, 5, l.Dropped())
}

func TestAuditSurvivesLostAnswersAndBoundsClose(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	var mu sync.Mutex
	lost := 2
	l := openAudit(t, env, kv.AuditOptions{Hooks: &kv.Hooks{After: func(context.Context, string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if lost--; lost >= 0 {
			return kv.ErrUnknown
		}
		return nil
	}}})
	l.Record("a", "", "", "")
	l.Record("b", "", "", "")
	require.Len(t, trail(t, env, l), 2, "a lost answer makes no second entry")

	dead := openAudit(t, env, kv.AuditOptions{Hooks: &kv.Hooks{Before: func(context.Context, string, string) error {
		return kv.ErrUnknown
	}}})
	dead.Record("a", "", "", "")
	dead.Record("b", "", "", "")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := dead.Close(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualValues(t, 2, dead.Dropped())
}

// DT-99: a page is picked by installation, repository, kind, caller and task
// before it is made, so it is full, and what is of others is not even read.
func TestDT99AuditPagesWithinAScope(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	of := map[task.ID]int64{"t2": 8, "t9": 8}
	l := openAudit(t, env, kv.AuditOptions{Queue: 4096, Installation: func(id task.ID) (int64, bool) { i, ok := of[id]; return i, ok }})
	for i := range 600 {
		l.Mutation(t.Context(), kv.AuditEntry{
			Kind: []string{"retry", "cancel"}[i%2], InstallationID: int64(i % 3), Repo: []string{"acme/api", "Acme/Web"}[i/3%2], Caller: "c", Detail: fmt.Sprint(i),
		})
	}
	l.Record("interrupted", "t2", "acme/api", "of 8, which only its task tells")
	l.Record("interrupted", "t3", "acme/api", "of a task that is not known")
	l.Read("tenant:x", 8, "tasks")
	require.NoError(t, l.Close(t.Context()))
	_, err := env.JS.Publish(t.Context(), "audit.x", []byte("garbage"))
	require.NoError(t, err)
	read := func(q kv.AuditQuery) (out []string) {
		for {
			p, err := l.Page(t.Context(), q)
			require.NoError(t, err)
			for _, e := range p.Entries {
				out = append(out, e.Detail)
			}
			if q.Cursor = p.Next; q.Cursor == "" {
				return out
			}
			require.Len(t, p.Entries, q.Limit, "a page with a cursor is full")
		}
	}
	want := func(keep func(i int) bool) (out []string) {
		for i := 599; i >= 0; i-- {
			if keep(i) {
				out = append(out, fmt.Sprint(i))
			}
		}
		return out
	}
	one, eight := int64(1), int64(8)
	require.Equal(t, want(func(i int) bool { return i%3 == 1 }), read(kv.AuditQuery{Limit: 7, Installation: &one}))
	web := func(i int) bool { return i%3 == 1 && i/3%2 == 1 }
	require.Equal(t, want(web), read(kv.AuditQuery{Limit: 7, Installation: &one, Repos: []string{"ACME/web"}}))
	require.Equal(t, want(web), read(kv.AuditQuery{Limit: 7, Installation: &one, Repo: "acme/web"}))
	require.Empty(t, read(kv.AuditQuery{Limit: 7, Installation: &one, Repos: []string{"acme/api"}, Repo: "acme/web"}))
	require.Equal(t, want(func(i int) bool { return i%2 == 1 }), read(kv.AuditQuery{Limit: 100, Kind: "cancel"}))
	require.Equal(t, want(func(i int) bool { return i%6 == 1 }), read(kv.AuditQuery{Limit: 100, Kind: "cancel", Installation: &one}))
	require.Equal(t, append([]string{"of a task that is not known"}, want(func(i int) bool { return i%3 == 0 })...), read(kv.AuditQuery{Limit: 100, Installation: new(int64)}))
	require.Equal(t, []string{"tasks 1", "of 8, which only its task tells"}, read(kv.AuditQuery{Limit: 1, Installation: &eight}))
	require.Equal(t, []string{"of 8, which only its task tells"}, read(kv.AuditQuery{Limit: 1, TaskID: "t2"}))
	require.Equal(t, []string{"tasks 1"}, read(kv.AuditQuery{Limit: 1, Caller: "tenant:x"}))
	require.Empty(t, read(kv.AuditQuery{Limit: 1, Kind: "x"}), "garbage is passed over")
	s, err := env.JS.Stream(t.Context(), kv.StreamAudit)
	require.NoError(t, err)
	m, err := s.GetLastMsgForSubject(t.Context(), "audit.interrupted.8")
	require.NoError(t, err)
	require.Contains(t, string(m.Data), `"installation_id":8`)
}

func TestAuditPageFiltersAndGoesOn(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openAudit(t, env, kv.AuditOptions{})
	for i := range 10 {
		l.Mutation(t.Context(), kv.AuditEntry{Kind: []string{"retry", "cancel"}[i%2], InstallationID: int64(i % 3), Repo: "r", Caller: "c", Detail: string(rune('0' + i))})
	}
	require.NoError(t, l.Close(t.Context()))
	_, err := env.JS.Publish(t.Context(), "audit.x", []byte("garbage"))
	require.NoError(t, err)
	read := func(q kv.AuditQuery) (out string) {
		for {
			p, err := l.Page(t.Context(), q)
			require.NoError(t, err)
			for _, e := range p.Entries {
				out += e.Detail
			}
			if q.Cursor = p.Next; q.Cursor == "" {
				return out
			}
		}
	}
	one := int64(1)
	require.Equal(t, "9876543210", read(kv.AuditQuery{Limit: 3}))
	require.Equal(t, "97531", read(kv.AuditQuery{Limit: 2, Kind: "cancel"}))
	require.Equal(t, "741", read(kv.AuditQuery{Limit: 1, Installation: &one}))
	require.Empty(t, read(kv.AuditQuery{Limit: 5, Repos: []string{}}), "an empty scope sees nothing")
	require.Empty(t, read(kv.AuditQuery{Limit: 5, Caller: "d"}))
	p, err := l.Page(t.Context(), kv.AuditQuery{Limit: 4})
	require.NoError(t, err)
	since := p.Entries[3].At.Time // of entry 6, and of those of the same microsecond
	require.Contains(t, read(kv.AuditQuery{Limit: 2, Since: since}), "9876")
	require.Empty(t, read(kv.AuditQuery{Limit: 2, Since: p.Entries[0].At.Add(time.Second)}))
	for _, bad := range []string{"?", "AAAA", "LTE", "ninety"} {
		_, err := l.Page(t.Context(), kv.AuditQuery{Limit: 1, Cursor: bad})
		require.True(t, errors.Is(err, kv.ErrCursor), bad)
	}
}
