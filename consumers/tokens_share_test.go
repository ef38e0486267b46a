package consumers

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// requests lists what the durable `tasks` is asked for.
type requests struct {
	mu   sync.Mutex
	list []string
}

func watchRequests(t *testing.T, env *natstest.Env) *requests {
	t.Helper()
	r := &requests{}
	nc := env.Connect()
	_, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.WEBHOOKS.tasks", func(m *nats.Msg) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, string(m.Data))
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	return r
}

func (r *requests) made() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.list...)
}

// answers waits for each waiter and returns the sequences of their tokens, 0
// for none.
func answers(t *testing.T, b *bench, ws []*waiter) []uint64 {
	t.Helper()
	var out []uint64
	for _, w := range ws {
		tok, err := b.worker.tokens.wait(t.Context(), w)
		require.NoError(t, err)
		if tok == nil {
			out = append(out, 0)
			continue
		}
		out = append(out, tok.seq)
	}
	return out
}

// A request asks for as many tokens as claimers wait, whether they are there
// or not, and the next one comes after it.
func TestClaimersShareARequest(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b, r := newBench(t, env), watchRequests(t, env)
	for n := range 7 {
		b.accept(issue(n))
	}
	require.Equal(t, []uint64{1, 2, 3}, answers(t, b, b.worker.tokens.expect(3)))
	require.Equal(t, []uint64{4, 5, 6, 7, 0, 0}, answers(t, b, b.worker.tokens.expect(6)))
	require.Equal(t, []uint64{0, 0}, answers(t, b, b.worker.tokens.expect(2)))
	want := []string{`{"batch":3,"no_wait":true}`, `{"batch":6,"no_wait":true}`, `{"batch":2,"no_wait":true}`}
	natstest.Eventually(t, "three requests", func() bool { return len(r.made()) == 3 })
	require.Equal(t, want, r.made())
}

// Those who come while a request is answered share the next one: the word
// that there is nothing is not for them.
func TestThoseWhoComeLaterAreAskedForLater(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	p, r := newProxy(t, env), watchRequests(t, env)
	b := p.through(env, silence)
	require.Equal(t, []uint64{0}, answers(t, b, b.worker.tokens.expect(1)))
	p.freeze(true)
	first := b.worker.tokens.expect(2)
	natstest.Eventually(t, "the request to reach the server", func() bool { return len(r.made()) == 2 })
	later := append(b.worker.tokens.expect(1), b.worker.tokens.expect(2)...)
	other := newBench(t, env)
	other.accept(issue(1))
	require.Len(t, r.made(), 2)
	p.thaw()
	require.Equal(t, []uint64{0, 0}, answers(t, b, first))
	require.Equal(t, []uint64{1, 0, 0}, answers(t, b, later))
	require.Equal(t, `{"batch":3,"no_wait":true}`, r.made()[2])
}

// Tokens that were asked for by claimers that are gone are given back at
// once, not after the 30 s of AckWait.
func TestTokensOfClaimersThatStoppedAreGivenBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		stop func(b *bench, leave context.CancelFunc)
	}{
		{"left", func(_ *bench, leave context.CancelFunc) { leave() }},
		{"closed", func(b *bench, leave context.CancelFunc) { leave(); go b.worker.tokens.close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t, natstest.WithListener())
			p, r := newProxy(t, env), watchRequests(t, env)
			b, other := p.through(env, silence), newBench(t, env)
			require.Equal(t, []uint64{0}, answers(t, b, b.worker.tokens.expect(1)))
			for n := range 3 {
				other.accept(issue(n))
			}
			p.freeze(true)
			ctx, leave := context.WithCancel(t.Context())
			ws := b.worker.tokens.expect(3)
			natstest.Eventually(t, "the request to reach the server", func() bool { return len(r.made()) == 2 })
			c.stop(b, leave)
			for _, w := range ws {
				_, err := b.worker.tokens.wait(ctx, w)
				require.ErrorIs(t, err, context.Canceled)
			}
			p.thaw()
			natstest.Eventually(t, "another process to get them", func() bool {
				tok, err := other.worker.tokens.pull(t.Context())
				require.NoError(t, err)
				return tok != nil
			})
			require.Len(t, answers(t, other, other.worker.tokens.expect(2)), 2)
		})
	}
}

// A worker that stops between the pull and the pick gives its token back at
// once, too.
func TestAStoppingClaimerGivesItsTokenBack(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b, other := newBench(t, env), newBench(t, env)
	b.admitted(issue(1))
	ctx, stop := context.WithCancel(t.Context())
	w := b.worker.tokens.expect(1)[0]
	natstest.Eventually(t, "the token to come", func() bool { return len(w.answer) == 1 })
	stop()
	b.worker.beat(t.Context()) // one that does not beat claims nothing
	require.Equal(t, 1, b.worker.reserve(1))
	b.worker.claimOne(ctx, w)
	require.Empty(t, b.runner.started())
	natstest.Eventually(t, "another process to get it", func() bool {
		tok, err := other.worker.tokens.pull(t.Context())
		require.NoError(t, err)
		return tok != nil && tok.seq == 1
	})
}

// A request that nobody answers ends by itself, its late token goes to
// whoever waits then, and the count of what is owed recovers.
func TestALateTokenServesTheNextClaimer(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	p := newProxy(t, env)
	b, other := p.through(env, silence), newBench(t, env)
	require.Equal(t, []uint64{0}, answers(t, b, b.worker.tokens.expect(1)))
	other.accept(issue(1))
	p.freeze(true)
	gone := b.worker.tokens.expect(1)[0]
	b.worker.tokens.mu.Lock()
	b.worker.tokens.sent = time.Now().Add(-pullWait)
	b.worker.tokens.mu.Unlock()
	b.worker.tokens.late()
	_, err := b.worker.tokens.wait(t.Context(), gone)
	require.ErrorIs(t, err, nats.ErrTimeout)
	next := b.worker.tokens.expect(1)
	p.thaw()
	require.Equal(t, []uint64{1}, answers(t, b, next))
	for range 3 {
		tok, err := b.worker.tokens.pull(t.Context())
		require.NoError(t, err)
		require.Nil(t, tok)
	}
}

func TestRequestsGoWhereTheClientsDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    jetstream.JetStreamOptions
		want string
	}{
		{jetstream.JetStreamOptions{}, "$JS.API."},
		{jetstream.JetStreamOptions{Domain: "hub"}, "$JS.hub.API."},
		{jetstream.JetStreamOptions{APIPrefix: "js.other"}, "js.other."},
	} {
		require.Equal(t, c.want+"CONSUMER.MSG.NEXT.WEBHOOKS.tasks", nextSubject(c.o))
	}
}

func TestCloseDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	p := newProxy(t, env)
	b := p.through(env, silence)
	require.Equal(t, []uint64{0}, answers(t, b, b.worker.tokens.expect(1)))
	p.freeze(false)
	w := b.worker.tokens.expect(1)[0]
	began := time.Now()
	b.worker.tokens.close()
	require.Less(t, time.Since(began), pullWait)
	_, err := b.worker.tokens.wait(t.Context(), w)
	require.Error(t, err)
	b.worker.tokens.close()
}
