package kv_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
)

// contender is one process that wants the lease "test".
type contender struct {
	lease *kv.Lease
	in    chan context.Context // of each time it holds the lease
	out   chan struct{}        // lets it go by itself
	stop  func()               // a clean stop
}

func contend(t *testing.T, env *natstest.Env, o kv.LeaseOptions) *contender {
	t.Helper()
	o.Name, o.Logger = "test", slog.New(slog.DiscardHandler)
	l, err := kv.OpenLease(t.Context(), env.JS, o)
	require.NoError(t, err)
	c := &contender{lease: l, in: make(chan context.Context, 100), out: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx, func(ctx context.Context) {
			c.in <- ctx
			select {
			case <-ctx.Done():
			case <-c.out:
			}
		})
	}()
	c.stop = func() { cancel(); <-done }
	t.Cleanup(c.stop)
	return c
}

func (c *contender) await(t *testing.T) context.Context {
	t.Helper()
	select {
	case ctx := <-c.in:
		return ctx
	case <-time.After(20 * time.Second):
		t.Fatal("the lease was not taken")
		return nil
	}
}

func leaseValue(t *testing.T, env *natstest.Env) string {
	t.Helper()
	e, err := openBucket(t, env).Get(t.Context(), kv.LeaseKey("test"))
	if errors.Is(err, kv.ErrNotFound) {
		return ""
	}
	require.NoError(t, err)
	return string(e.Value)
}

// All see that the lease is free before one of them writes; they hold it for
// a moment each, and never two at once.
func TestLeaseHasOneHolderAtATime(t *testing.T) {
	t.Parallel()
	const contenders, turns = 4, 8
	env := natstest.New(t)
	var waiting sync.WaitGroup
	waiting.Add(contenders)
	var inside, wrong, taken atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range contenders {
		var once sync.Once
		hooks := &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
			if op == "create" {
				once.Do(func() { waiting.Done(); waiting.Wait() })
			}
			return nil
		}}
		l, err := kv.OpenLease(ctx, env.JS, kv.LeaseOptions{Name: "test", Boot: "b", Every: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Hooks: hooks})
		require.NoError(t, err)
		all.Go(func() {
			l.Run(ctx, func(ctx context.Context) {
				if inside.Add(1) > 1 || !l.Held() {
					wrong.Add(1)
				}
				if taken.Add(1) == turns {
					cancel()
				}
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
				inside.Add(-1)
			})
			if l.Held() {
				wrong.Add(1)
			}
		})
	}
	all.Wait()
	require.Zero(t, wrong.Load())
	require.GreaterOrEqual(t, taken.Load(), int32(turns))
}

// Rule 7 of DESIGN §7, for leases: who cannot renew stops before another may
// begin, whether the store refuses it, is gone, or the renewal hangs.
func TestLeaseEndsBeforeAnotherTakesIt(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(ctx context.Context) error{
		"refused":   func(context.Context) error { return errors.New("no such thing") },
		"cut off":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"hanging":   func(context.Context) error { select {} },
		"not heard": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t)
			var broken atomic.Bool
			before := func(ctx context.Context, op, _ string) error {
				if !broken.Load() || fault == nil || op == "get" && name == "hanging" {
					return nil
				}
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				return fault(ctx)
			}
			after := func(_ context.Context, _, _ string) error {
				if broken.Load() && fault == nil {
					return kv.ErrUnknown
				}
				return nil
			}
			l, err := kv.OpenLease(t.Context(), env.JS, kv.LeaseOptions{
				Name: "test", Boot: "a", Every: 300 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Hooks: &kv.Hooks{Before: before, After: after},
			})
			require.NoError(t, err)
			holding, ended := make(chan struct{}, 10), make(chan error, 10)
			ctx, cancel := context.WithCancel(t.Context())
			go l.Run(ctx, func(ctx context.Context) {
				holding <- struct{}{}
				<-ctx.Done()
				ended <- context.Cause(ctx)
			})
			defer cancel()
			<-holding
			b := contend(t, env, kv.LeaseOptions{Boot: "b", Every: 300 * time.Millisecond})
			broken.Store(true)
			if fault == nil {
				// Its record changes, so nobody takes it; that it does not know
				// so is no reason to go on.
				require.ErrorIs(t, <-ended, kv.ErrLeaseLost)
				cancel() // nor does it come back
				b.await(t)
				return
			}
			b.await(t)
			select {
			case err := <-ended:
				require.ErrorIs(t, err, kv.ErrLeaseLost)
			default:
				t.Fatal("the lease was taken before its holder's context ended")
			}
			require.False(t, l.Held())
			require.Contains(t, leaseValue(t, env), `"boot":"b"`)
		})
	}
}

// A stop gives the lease back; others would look again after hours only.
func TestLeaseIsHandedOverAtOnce(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	a := contend(t, env, kv.LeaseOptions{Boot: "a", Every: time.Hour})
	held := a.await(t)
	b := contend(t, env, kv.LeaseOptions{Boot: "b", Every: time.Hour})
	require.NoError(t, held.Err())
	require.True(t, a.lease.Held())
	a.stop()
	require.ErrorIs(t, context.Cause(held), context.Canceled)
	require.False(t, a.lease.Held())
	b.await(t)
	c := contend(t, env, kv.LeaseOptions{Boot: "c", Every: time.Hour})
	b.out <- struct{}{} // returns by itself
	c.await(t)
}

// The answer to a write that was stored is lost: the record itself says whose
// it is.
func TestLeaseWhoseAnswerWasLostIsHeld(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	var once sync.Once
	hooks := &kv.Hooks{After: func(_ context.Context, op, _ string) (err error) {
		if op == "create" {
			once.Do(func() { err = kv.ErrUnknown })
		}
		return err
	}}
	c := contend(t, env, kv.LeaseOptions{Boot: "a", Every: time.Second, Hooks: hooks})
	c.await(t)
	require.Contains(t, leaseValue(t, env), `"n":2`)
}

// The holder was killed: its record stays as it was.
func TestLeaseOfADeadHolderIsTaken(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := openBucket(t, env)
	_, err := b.Create(t.Context(), kv.LeaseKey("test"), []byte(`{"v":1,"boot":"dead","nonce":"x","n":3}`), 0)
	require.NoError(t, err)
	began := time.Now()
	contend(t, env, kv.LeaseOptions{Boot: "b", Every: 50 * time.Millisecond}).await(t)
	require.GreaterOrEqual(t, time.Since(began), 6*50*time.Millisecond, "six renewals may be missing before")
	require.Contains(t, leaseValue(t, env), `"boot":"b"`)
}

// Behind the lock of the data folder nobody else lives.
func TestLeaseOfADeadHolderIsTakenAtOnceWhereOneIsAlone(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := openBucket(t, env)
	_, err := b.Create(t.Context(), kv.LeaseKey("test"), []byte(`{"v":1,"boot":"dead","nonce":"x","n":3}`), 0)
	require.NoError(t, err)
	contend(t, env, kv.LeaseOptions{Boot: "b", Every: time.Hour, Alone: true}).await(t)
}

// A newer belay's lease may follow other rules: it is left alone until it is
// gone. One that nobody can read is taken when it does not change.
func TestQ20LeaseOfANewerVersionIsLeftAlone(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := openBucket(t, env)
	const newer = `{"v":2,"term":{"of":"another kind"}}`
	rev, err := b.Create(t.Context(), kv.LeaseKey("test"), []byte(newer), 0)
	require.NoError(t, err)
	looked := make(chan struct{}, 1000)
	hooks := &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
		if op == "get" {
			looked <- struct{}{}
		}
		return nil
	}}
	c := contend(t, env, kv.LeaseOptions{Boot: "b", Every: 10 * time.Millisecond, Hooks: hooks})
	for range 20 {
		<-looked
	}
	require.Empty(t, c.in)
	require.Equal(t, newer, leaseValue(t, env))
	_, err = b.Update(t.Context(), kv.LeaseKey("test"), []byte(newer), rev, time.Second) // expires
	require.NoError(t, err)
	c.await(t)
}

func TestLeaseThatCannotBeReadIsTakenWhenItStaysSo(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b := openBucket(t, env)
	_, err := b.Create(t.Context(), kv.LeaseKey("test"), []byte("no record"), 0)
	require.NoError(t, err)
	contend(t, env, kv.LeaseOptions{Boot: "b", Every: 20 * time.Millisecond}).await(t)
}

// Who finds that the lease is somebody else's stops at once.
func TestLeaseThatWasTakenAwayEnds(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	a := contend(t, env, kv.LeaseOptions{Boot: "a", Every: 100 * time.Millisecond})
	held := a.await(t)
	_, err := openBucket(t, env).Put(t.Context(), kv.LeaseKey("test"), []byte(`{"v":1,"boot":"b","nonce":"x","n":3}`), 0)
	require.NoError(t, err)
	<-held.Done()
	require.ErrorIs(t, context.Cause(held), kv.ErrLeaseLost)
}
