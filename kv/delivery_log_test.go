package kv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
	"github.com/belay-run/belay/kv/task"
)

func accept(t testing.TB, l *kv.DeliveryLog, d task.Delivery) kv.Accepted {
	t.Helper()
	a, err := l.Accept(context.Background(), d)
	require.NoError(t, err)
	return a
}

func TestDT48AcceptStampsAndStores(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	d := delivery("g1")
	a := accept(t, l, d)
	require.False(t, a.Duplicate)
	require.EqualValues(t, 1, a.Seq)
	id := kv.TaskID("default", "g1")
	require.Equal(t, task.ToTask(id), a.Delivery.Routing)
	require.Equal(t, id, a.Delivery.Task.ID)
	require.Empty(t, d.Task.ID, "the caller's value is not written to")
	got, err := l.Get(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, kv.Logged{Delivery: a.Delivery, Seq: 1}, got)

	s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	m, err := s.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "webhook.7.11.task.review_pull_request", m.Subject)
	require.Equal(t, "g1", m.Header.Get(jetstream.MsgIDHeader))
	require.Equal(t, "acme/api", m.Header.Get(kv.HeaderRepo))

	d = ignored("g2", task.Ping)
	d.Repo = "a\r\nX-Injected: 1"
	require.Equal(t, task.Ignored(task.Ping), accept(t, l, d).Delivery.Routing)
	m, err = s.GetMsg(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, "webhook.0.0.ignored.ping", m.Subject)
	require.Equal(t, "a??X-Injected: 1", m.Header.Get(kv.HeaderRepo), "one header, in one line")
	require.Empty(t, m.Header.Get("X-Injected"))
}

// G03, DT-46: the second answer carries the first one's disposition, though
// the configuration routes it elsewhere by then.
func TestG03DuplicateKeepsTheFirstDisposition(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	first := accept(t, l, delivery("g1"))
	again := ignored("g1", task.Scope)
	again.ReceivedAt = task.At(noon.Add(5 * time.Second))
	got := accept(t, l, again)
	require.Equal(t, kv.Accepted{Delivery: first.Delivery, Seq: 1, Duplicate: true}, got)
	require.EqualValues(t, 1, messages(t, env, kv.StreamWebhooks))
}

// G01: two hooks bring one id with two bodies: two tasks, and each again is a
// duplicate of its own.
func TestG01HookIDsAreTwoDeliveries(t *testing.T) {
	t.Parallel()
	for _, source := range []string{task.DefaultSource, "ghes"} {
		env := natstest.New(t)
		l := openLog(t, env.JS)
		a, b := delivery("g1"), delivery("g1")
		a.Source, b.Source = source, source
		b.HookID, b.InstallationID, b.PayloadHash = "2", 20, "other"
		first := accept(t, l, a)
		second := accept(t, l, b)
		require.False(t, first.Duplicate || second.Duplicate)
		require.NotEqual(t, first.Delivery.Task.ID, second.Delivery.Task.ID)
		require.Equal(t, kv.TaskID(source, task.MessageID(source, "2:g1")), second.Delivery.Task.ID)
		third := accept(t, l, a)
		require.Equal(t, kv.Accepted{Delivery: first.Delivery, Seq: 1, Duplicate: true}, third)
		fourth := accept(t, l, b)
		require.Equal(t, kv.Accepted{Delivery: second.Delivery, Seq: 2, Duplicate: true}, fourth)
		b.PayloadHash = "third"
		_, err := l.Accept(t.Context(), b)
		require.ErrorIs(t, err, kv.ErrReused, "a third body through the second hook")
		require.EqualValues(t, 2, messages(t, env, kv.StreamWebhooks))
	}
}

// DT-59: one id with another body through the same hook is a conflict.
func TestDT59ReusedIDIsAConflict(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	first := accept(t, l, delivery("g1"))
	for _, hook := range []string{"1", ""} {
		d := delivery("g1")
		d.HookID, d.PayloadHash = hook, "forged"
		a, err := l.Accept(t.Context(), d)
		require.ErrorIs(t, err, kv.ErrReused, "hook %q", hook)
		require.Equal(t, first.Delivery, a.Delivery)
	}
	require.EqualValues(t, 1, messages(t, env, kv.StreamWebhooks))
	// DT-58: another source is another dedupe space.
	d := delivery("g1")
	d.Source, d.PayloadHash = "ghes", "other"
	require.False(t, accept(t, l, d).Duplicate)
}

// G04: one task after a restart and after 10^4 other deliveries.
func TestG04DuplicateAfterRestartAndManyOthers(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	first := accept(t, openLog(t, env.JS), delivery("g1"))
	fill(t, env, "other", 10_000, `{}`)
	require.Equal(t, kv.Accepted{Delivery: first.Delivery, Seq: 1, Duplicate: true}, accept(t, openLog(t, env.JS), delivery("g1")))
	env.Restart()
	require.EqualValues(t, 10_001, messages(t, env, kv.StreamWebhooks))
	require.Equal(t, kv.Accepted{Delivery: first.Delivery, Seq: 1, Duplicate: true}, accept(t, openLog(t, env.JS), delivery("g1")))
}

// J09: past the window, or after a purge, the message is stored once more; it
// is the same task, so that its record is what holds it to one.
func TestJ09PastTheWindowItIsTheSameTask(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	set, err := natstest.Set()
	require.NoError(t, err)
	for i := range set.Streams {
		if set.Streams[i].Name == kv.StreamWebhooks {
			set.Streams[i].Duplicates = 100 * time.Millisecond
		}
	}
	_, err = streams.Reconcile(t.Context(), env.JS, set, streams.Options{})
	require.NoError(t, err)
	l, store := openLog(t, env.JS), openStore(t, env)
	first := accept(t, l, delivery("g1"))
	_, err = store.Create(t.Context(), record(t, "g1"))
	require.NoError(t, err)
	var late kv.Accepted
	natstest.Eventually(t, "the window to pass", func() bool {
		late = accept(t, l, delivery("g1"))
		return !late.Duplicate
	})
	require.EqualValues(t, 2, late.Seq)
	require.Equal(t, first.Delivery.Task.ID, late.Delivery.Task.ID)
	s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context()))
	purged := accept(t, l, delivery("g1")) // stored anew, or a duplicate of what is gone
	require.Equal(t, first.Delivery.Task.ID, purged.Delivery.Task.ID)
	_, err = store.Create(t.Context(), record(t, "g1"))
	require.ErrorIs(t, err, kv.ErrExists)
}

// A lost PubAck: one message, and this call is told that it was the first.
func TestLostAnswerStoresOnce(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	lost := 3
	l.Hooks = &kv.Hooks{After: func(context.Context, string, string) error {
		if lost--; lost >= 0 {
			return fmt.Errorf("cut: %w", kv.ErrUnknown)
		}
		return nil
	}}
	d := delivery("g1")
	d.ReceivedAt = task.Time{Time: time.Now()} // not cut to microseconds by the caller
	a := accept(t, l, d)
	require.False(t, a.Duplicate)
	require.EqualValues(t, 1, messages(t, env, kv.StreamWebhooks))
	l.Hooks = nil
	d.ReceivedAt = task.At(time.Now().Add(time.Second))
	require.True(t, accept(t, l, d).Duplicate)
}

// G36: without a leader until the deadline nothing is stored, and it is said
// that nobody knows.
func TestG36UnavailableUntilTheDeadline(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	tries := 0
	l.Hooks = &kv.Hooks{Before: func(context.Context, string, string) error { tries++; return kv.ErrUnknown }}
	begin := time.Now()
	_, err := l.Accept(soon(t, 200*time.Millisecond), delivery("g1"))
	require.ErrorIs(t, err, kv.ErrUnknown)
	require.Less(t, time.Since(begin), 5*time.Second)
	require.Greater(t, tries, 1, "it was tried again")
	require.Zero(t, messages(t, env, kv.StreamWebhooks))
	l.Hooks = nil
	require.False(t, accept(t, l, delivery("g1")).Duplicate, "the redelivery is the first")
}

// J02: the leader dies after it said that a delivery is a repeated one, and
// before it said of which.
func TestJ02ARepeatedDeliveryWaitsForTheNextLeader(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	want := accept(t, l, delivery("g1"))
	reads := 0
	l.Hooks = &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
		if op != "read" {
			return nil
		}
		if reads++; reads < 3 {
			return kv.ErrUnknown
		}
		return nil
	}}
	got := accept(t, l, delivery("g1"))
	require.True(t, got.Duplicate)
	require.Equal(t, want.Delivery.Routing, got.Delivery.Routing)
	require.Equal(t, 3, reads)
}

// J23: a missing stream is an error, not a silence.
func TestJ23StreamMissing(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	require.NoError(t, env.JS.DeleteStream(t.Context(), kv.StreamWebhooks))
	_, err := l.Accept(soon(t, 200*time.Millisecond), delivery("g1"))
	require.ErrorIs(t, err, kv.ErrUnknown)
	_, err = kv.OpenDeliveryLog(t.Context(), env.JS)
	require.Error(t, err)
}

// J16: a full store refuses at once, and works again when there is room.
func TestJ16FullStore(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithMaxFileStore(256<<10))
	l := openLog(t, env.JS)
	var err error
	stored := 0
	for ; err == nil && stored < 1000; stored++ {
		d := delivery(task.DeliveryID(fmt.Sprintf("g%d", stored)))
		d.Task.Kind = task.Kind{Name: task.FixIssue, IssueBody: incompressible(stored)}
		_, err = l.Accept(t.Context(), d)
	}
	require.ErrorIs(t, err, kv.ErrFull)
	require.NotErrorIs(t, err, kv.ErrUnknown)
	require.EqualValues(t, stored-1, messages(t, env, kv.StreamWebhooks))
	_, err = openStore(t, env).Create(t.Context(), record(t, "x"))
	require.ErrorIs(t, err, kv.ErrFull)
	s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context()))
	natstest.Eventually(t, "the store to take deliveries again", func() bool {
		_, err := l.Accept(context.Background(), delivery("after"))
		return err == nil
	})
}

func incompressible(seed int) string {
	var b strings.Builder
	x := uint64(seed)*2654435761 + 1
	for b.Len() < 8<<10 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&b, "%x", x)
	}
	return b.String()
}

// DT-45, DT-83: of fifty concurrent posts of one id one is stored.
func TestDT45FiftyConcurrentPostsOfOneID(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	first, dup := 0, 0
	start := make(chan struct{})
	for i := range 50 {
		l := openLog(t, env.JS)
		l.Hooks = &kv.Hooks{Before: func(context.Context, string, string) error { <-start; return nil }}
		wg.Go(func() {
			d := delivery("g1")
			d.ReceivedAt = task.At(noon.Add(time.Duration(i) * time.Millisecond))
			a, err := l.Accept(context.Background(), d)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Errorf("accept: %v", err)
			case a.Duplicate:
				dup++
			default:
				first++
			}
		})
	}
	close(start)
	wg.Wait()
	require.Equal(t, []int{1, 49}, []int{first, dup})
	require.EqualValues(t, 1, messages(t, env, kv.StreamWebhooks))
}

// DT-20, DT-107: what a newer belay logged is a duplicate, garbage is an
// error, and neither is written over. A restart keeps every byte.
func TestDT107LogKeepsEveryByte(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	accept(t, l, delivery("g1"))
	for id, data := range map[string]string{"newer": `{"v":99,"task":"a new shape"}`, "garbage": `{{`} {
		_, err := env.JS.Publish(t.Context(), "webhook.7.11.task.fix_issue", []byte(data), jetstream.WithMsgID(id))
		require.NoError(t, err)
	}
	a, err := l.Accept(t.Context(), delivery("newer"))
	require.NoError(t, err)
	require.True(t, a.Duplicate)
	_, err = l.Accept(t.Context(), delivery("garbage"))
	require.ErrorIs(t, err, kv.ErrCorrupt)
	before := dump(t, env)
	env.Restart()
	require.Equal(t, before, dump(t, env))
	got, err := openLog(t, env.JS).Get(t.Context(), 1)
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"source":"default","delivery_id":"g1","hook_id":"1","event":"pull_request","action":"opened",
		"installation_id":7,"repo_id":11,"repo":"acme/api","number":5,"payload_hash":"hash-g1","routing":"`+string(got.Routing)+`",
		"received_at":"2026-03-01T12:00:00.123456Z","task":{"familiar_id":"fam","head_sha":"sha","once":true,
		"kind":{"kind":"review_pull_request","pr_number":5,"pr_title":"Fix","reason":"opened"},
		"review":{"updated_at":"2026-03-01T12:00:00.123456Z"}}}`, strings.TrimPrefix(before[0], "webhook.7.11.task.review_pull_request "))
	for _, bad := range []string{`{"v":1,"routing":"task:x"}`, `{"v":1,"delivery_id":"g"}`, `{}`,
		`{"v":1,"delivery_id":"g","routing":"ignored:ping","task":{"kind":{"kind":"fix_issue"}}}`} {
		_, err := kv.Decode([]byte(bad))
		require.ErrorIs(t, err, kv.ErrCorrupt, bad)
	}
}

func dump(t testing.TB, env *natstest.Env) (out []string) {
	t.Helper()
	s, err := env.JS.Stream(t.Context(), kv.StreamWebhooks)
	require.NoError(t, err)
	for seq := range s.CachedInfo().State.LastSeq {
		m, err := s.GetMsg(t.Context(), seq+1)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		require.NoError(t, err)
		out = append(out, m.Subject+" "+string(m.Data))
	}
	return out
}

// fill stores n messages with ids of their own.
func fill(t testing.TB, env *natstest.Env, prefix string, n int, data string) {
	t.Helper()
	fillAs(t, env, "webhook.1.1.ignored.ping", prefix, n, data)
}

// fillAs is fill on a subject.
func fillAs(t testing.TB, env *natstest.Env, subject, prefix string, n int, data string) {
	t.Helper()
	for i := range n {
		_, err := env.JS.PublishAsync(subject, []byte(data), jetstream.WithMsgID(fmt.Sprintf("%s-%d", prefix, i)))
		require.NoError(t, err)
		if i%200 == 199 || i == n-1 {
			<-env.JS.PublishAsyncComplete()
		}
	}
}

// A GitHub Enterprise server's clone URL is kept, GitHub's own is known.
func TestCloneURLRoundTrip(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	l := openLog(t, env.JS)
	for _, url := range []string{"https://github.com/acme/api.git", "https://ghes.example/acme/api.git"} {
		d := delivery(task.DeliveryID(url[8:12]))
		d.Task.CloneURL = url
		got, err := l.Get(t.Context(), accept(t, l, d).Seq)
		require.NoError(t, err)
		require.Equal(t, url, got.Task.CloneURL)
	}
}
