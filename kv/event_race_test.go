package kv_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
)

// contenders is how many callers race.
const contenders = 8

// starter releases contenders that are held before they append.
type starter struct {
	mu      sync.Mutex
	arrived int
	all     chan struct{} // closed when every contender is here
	next    chan struct{} // a token lets one go
}

func newStarter(n int) (*starter, *kv.Hooks) {
	st := &starter{all: make(chan struct{}), next: make(chan struct{}, n)}
	return st, &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
		if op != "append" {
			return nil
		}
		st.mu.Lock()
		if st.arrived++; st.arrived == n {
			close(st.all)
		}
		st.mu.Unlock()
		<-st.next
		return nil
	}}
}

// race lets every contender decide on the same request, holds all of them
// before they append, and releases them together or one after the other.
func (d *desk) race(calls []func(s *kv.EventStore) (kv.OperatorResult, error), together bool) []kv.OperatorResult {
	d.t.Helper()
	st, hooks := newStarter(len(calls))
	type outcome struct {
		r   kv.OperatorResult
		err error
	}
	done := make(chan outcome, len(calls))
	for _, call := range calls {
		s := d.open(d.other())
		s.Hooks = hooks
		go func() {
			r, err := call(s)
			done <- outcome{r, err}
		}()
	}
	natstest.Eventually(d.t, "the contenders to come to their append", func() bool {
		select {
		case <-st.all:
			return true
		default:
			return false
		}
	})
	var out []kv.OperatorResult
	take := func() {
		o := <-done
		require.NoError(d.t, o.err)
		out = append(out, o.r)
	}
	for range calls {
		st.next <- struct{}{}
		if !together {
			take()
		}
	}
	for len(out) < len(calls) {
		take()
	}
	return out
}

// requireOneWinner: one Committed; the others Conflict, with what the request
// says now, which none of them wrote.
func requireOneWinner(t *testing.T, got []kv.OperatorResult, now *operator.Task) {
	t.Helper()
	won := 0
	for _, r := range got {
		if r.Code == operator.Committed {
			won++
			continue
		}
		require.Equal(t, operator.Conflict, r.Code, "OT-17")
		require.False(t, r.AuthorizesIssueCreate())
		require.Equal(t, now, r.Task, "OT-55, OT-56: a loser is told what is, not what it wanted")
	}
	require.Equal(t, 1, won)
}

// attempts makes contenders of a move whose claims can be told apart.
func attempts(m move, id operator.RequestID, rev int) []func(s *kv.EventStore) (kv.OperatorResult, error) {
	calls := make([]func(s *kv.EventStore) (kv.OperatorResult, error), contenders)
	for i := range calls {
		calls[i] = func(s *kv.EventStore) (kv.OperatorResult, error) {
			if m.op == "begin" {
				return s.TryBeginAttempt(context.Background(), ann, id, rev, "a"+string(rune('1'+i)), "boot"+string(rune('1'+i)))
			}
			return m.call(s, ann, id, rev)
		}
	}
	return calls
}

// OT-69, OT-70, OT-74, OT-75: of contenders that all decided on the same read,
// one wins, released together or one after the other.
func TestOT69OT70GatedRacesHaveOneWinner(t *testing.T) {
	t.Parallel()
	gatedRaces(t, newDesk(t))
}

// gatedRaces races each transition.
func gatedRaces(t *testing.T, d *desk) {
	t.Helper()
	for _, together := range []bool{true, false} {
		for _, m := range moves() {
			id, rev := d.request(m.from)
			before := d.stored(id)
			got := d.race(attempts(m, id, rev), together)
			now, err := d.store.Read(t.Context(), ann, id)
			require.NoError(t, err, m.op)
			requireOneWinner(t, got, now)
			after := d.stored(id)
			require.Len(t, after, len(before)+1, "%s: one event", m.op)
			require.NotContains(t, after, "foreign", m.op)
		}
	}
}

// OT-73: an attempt's end is raced by those who know the issue and those who
// do not; one word is kept, and it is never taken back.
func TestOT73MixedEndsHaveOneWinner(t *testing.T) {
	t.Parallel()
	mixedEnds(t, newDesk(t))
}

// mixedEnds races the ends of an attempt.
func mixedEnds(t *testing.T, d *desk) {
	t.Helper()
	ms := moves()
	unknown, verified, reconcile := ms[2], ms[3], ms[4]
	for _, together := range []bool{true, false} {
		id, rev := d.request(operator.StateAttempting)
		calls := append(attempts(unknown, id, rev)[:4], attempts(verified, id, rev)[:4]...)
		got := d.race(calls, together)
		now, err := d.store.Read(t.Context(), ann, id)
		require.NoError(t, err)
		requireOneWinner(t, got, now)
		if now.State == operator.StateUnknown {
			requireOneWinner(t, d.race(attempts(reconcile, id, now.Revision), together), d.read(id))
		}
		require.Equal(t, operator.StateSubmitted, d.read(id).State)
		require.Equal(t, issue7, d.read(id).Issue)
	}
}

func (d *desk) read(id operator.RequestID) *operator.Task {
	d.t.Helper()
	got, err := d.store.Read(d.t.Context(), ann, id)
	require.NoError(d.t, err)
	require.NotNil(d.t, got)
	return got
}

// OT-40…43, OT-89: proposals of one id, by several owners in several tenants,
// have one winner over all of them.
func TestOT89ProposalsOfOneIDHaveOneWinner(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	proposals(t, d)
	remap(t, d)
}

// proposals races proposals of one id.
func proposals(t *testing.T, d *desk) {
	t.Helper()
	for _, together := range []bool{true, false} {
		id := freshID()
		calls := make([]func(s *kv.EventStore) (kv.OperatorResult, error), contenders)
		for i := range calls {
			o := operator.Owner{Tenant: "invotek", Operator: "op" + string(rune('1'+i%4)), Conversation: "c1"}
			calls[i] = func(s *kv.EventStore) (kv.OperatorResult, error) {
				return s.Propose(context.Background(), o, id, wanted)
			}
		}
		committed := 0
		for _, r := range d.race(calls, together) {
			switch r.Code {
			case operator.Committed:
				committed++
			case operator.Existing: // the winner's twin
			default:
				require.Equal(t, operator.NotFound, r.Code)
				require.Nil(t, r.Task, "OT-43")
			}
		}
		require.Equal(t, 1, committed)
		d.wantStored(id, "proposed")
	}
}

// remap moves the repository to another tenant while its request is in flight.
func remap(t *testing.T, d *desk) {
	t.Helper()
	id, _ := d.request(operator.StateApproved)
	d.tenants.set("acme")
	moved := operator.Owner{Tenant: "acme", Operator: ann.Operator, Conversation: ann.Conversation}
	r, err := d.store.Propose(t.Context(), moved, id, wanted)
	require.NoError(t, err)
	require.Equal(t, kv.OperatorResult{Code: operator.NotFound}, r, "the id is taken, in whatever tenant")
	d.wantStored(id, "proposed approved")
	tenant, ok, err := d.store.Tenant(t.Context(), id)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "invotek", tenant, "every later call is bound to it")
	_, ok, err = d.store.Tenant(t.Context(), freshID())
	require.NoError(t, err)
	require.False(t, ok)
}

// OT-71: bursts without a gate, whose reads and writes overlap as they may,
// drive requests through their lives: each step is taken once.
func TestOT71UngatedBursts(t *testing.T) {
	t.Parallel()
	bursts(t, newDesk(t))
}

func bursts(t *testing.T, d *desk) {
	t.Helper()
	const requests = 6
	var wg sync.WaitGroup
	var mu sync.Mutex
	began := map[operator.RequestID]int{}
	var ids []operator.RequestID
	for range requests {
		id, _ := d.request(operator.StateProposed)
		ids = append(ids, id)
	}
	for range contenders {
		s := d.open(d.other())
		wg.Go(func() {
			for _, n := range rand.Perm(requests) {
				id := ids[n]
				for _, m := range moves() {
					<-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond) // the reads and writes of others overlap ours
					now, err := s.Read(context.Background(), ann, id)
					if err != nil || now == nil {
						t.Errorf("read: %v", err)
						return
					}
					r, err := m.call(s, ann, id, now.Revision)
					if err != nil {
						t.Errorf("%s: %v", m.op, err)
					}
					if r.AuthorizesIssueCreate() {
						mu.Lock()
						began[id]++
						mu.Unlock()
					}
				}
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, 1, began[id], "exactly one license")
		require.NotContains(t, d.stored(id), "foreign")
		require.Equal(t, len(d.stored(id)), d.read(id).Revision, "OT-6")
	}
}
