package kv_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
)

// between runs f between the two steps of the first n fetches of a store.
func between(s *kv.EventStore, n int, f func(fetch int)) (fetches *int) {
	fetches = new(int)
	s.Hooks = &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
		if op == "events" {
			if *fetches++; *fetches <= n {
				f(*fetches)
			}
		}
		return nil
	}}
	return fetches
}

// step takes a request to its next state, by another process.
func (d *desk) step(id operator.RequestID) {
	d.t.Helper()
	now := d.read(id)
	for _, m := range moves() {
		if m.from == now.State && m.op != "verified" {
			r, err := m.call(d.store, ann, id, now.Revision)
			require.NoError(d.t, err)
			require.Equal(d.t, operator.Committed, r.Code)
			return
		}
	}
	d.t.Fatalf("nothing follows %s", now.State)
}

// OT-60, OT-72: an event that comes between the two steps of a read makes it
// torn: a transition decides nothing on it, and answers with a fresh one.
func TestOT60ATornReadDecidesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, m := range moves() {
		// The event that comes first makes the request right for the move.
		id, rev := d.request(before(m.from))
		s := d.open(d.js)
		fetches := between(s, 1, func(int) { d.step(id) })
		r, err := m.call(s, ann, id, rev+1)
		require.NoError(t, err, m.op)
		require.Equal(t, operator.Conflict, r.Code, m.op)
		require.NotNil(t, r.Task, "it is reread")
		require.Equal(t, d.read(id), r.Task)
		require.Equal(t, 2, *fetches)
		require.Len(t, d.stored(id), rev+1, "%s: nothing but the event that came between", m.op)
	}
}

// before is the state ahead of one, and of a proposal the proposal itself: it
// cannot be torn, so the move comes too late by one.
func before(s operator.State) operator.State {
	for i, t := range operator.States {
		if t == s && i > 1 {
			return operator.States[i-1]
		}
	}
	return operator.StateProposed
}

// OT-61, OT-62: a read fetches again for every event that comes, at most five
// times; then, should events still come, it gives up, after seven fetches.
func TestOT61ReadRefetchesOnATear(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n := 1; n < operator.MaxEvents; n++ {
		id, _ := d.request(operator.StateProposed)
		s := d.open(d.js)
		fetches := between(s, n, func(int) { d.step(id) })
		got, err := s.Read(t.Context(), ann, id)
		require.NoError(t, err)
		require.Equal(t, n+1, got.Revision, "what is returned is whole")
		require.Equal(t, n+1, *fetches)
	}
}

// OT-10: more tears than a request has events cannot be; a read that sees
// them gives up after seven fetches.
func TestOT10ReadGivesUpAfterSevenFetches(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	cfg := d.stream.CachedInfo().Config
	cfg.MaxMsgsPerSubject, cfg.DiscardNewPerSubject = -1, false // as no server of ours has it
	_, err := d.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	id, _ := d.request(operator.StateProposed)
	s := d.open(d.js)
	fetches := between(s, 100, func(int) { d.plant("invotek", id, "x") })
	_, err = s.Read(t.Context(), ann, id)
	require.ErrorIs(t, err, kv.ErrTorn)
	require.Equal(t, operator.MaxEvents+1, *fetches)
}

// OT-36…39, OT-47, OT-48, OT-85: proposals and the two transitions that lead
// to the issue ask the resolver anew, and whatever it says but the owner's
// tenant forbids them; nothing is read or written.
func TestOT47RemappedRepositoriesForbid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, answer := range []string{"other", "", " ", "not canonical", "pgdata", "down"} {
		for _, m := range moves()[:2] {
			d.tenants.set("unmapped")
			id, rev := d.request(m.from)
			d.tenants.set(answer)
			s := d.open(d.js)
			fetches := between(s, 0, nil)
			r, err := m.call(s, ann, id, rev)
			require.NoError(t, err)
			require.Equal(t, kv.OperatorResult{Code: operator.Forbidden}, withoutBegins(r), "%s, resolver says %q", m.op, answer)
			require.False(t, r.AuthorizesIssueCreate())
			require.Zero(t, *fetches, "nothing is read")
			d.wantStored(id, kindsTo[m.from])
		}
		id := freshID()
		r, err := d.store.Propose(t.Context(), ann, id, wanted)
		require.NoError(t, err)
		require.Equal(t, operator.Forbidden, r.Code, "OT-39: %q", answer)
		d.wantStored(id, "")
	}
	for _, answer := range []string{"unmapped", "invotek", " Invotek "} {
		d.tenants.set(answer)
		r, err := d.store.Propose(t.Context(), ann, freshID(), wanted)
		require.NoError(t, err)
		require.Equal(t, operator.Committed, r.Code, "OT-38: %q", answer)
	}
	other := wanted
	other.Repo = "acme/other"
	r, err := d.store.Propose(t.Context(), ann, freshID(), other)
	require.NoError(t, err)
	require.Equal(t, operator.Forbidden, r.Code, "OT-37: the target is fixed")
}

// OT-49: what only records an outcome asks no resolver.
func TestOT49OutcomesAreRecordedDuringARemap(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, answer := range []string{"other", "down", ""} {
		for _, m := range moves()[2:] {
			d.tenants.set("unmapped")
			id, rev := d.request(m.from)
			d.tenants.set(answer)
			asked := d.tenants.asked.Load()
			r, err := m.call(d.store, ann, id, rev)
			require.NoError(t, err)
			require.Equal(t, operator.Committed, r.Code, "%s, resolver says %q", m.op, answer)
			require.Equal(t, asked, d.tenants.asked.Load(), m.op)
		}
	}
}

// OT-46, OT-51, OT-54: the caller's revision and the clock are honoured by the
// store, and an answer other than an event writes nothing.
func TestOT46TheCallersRevisionIsHonoured(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, m := range moves() {
		id, rev := d.request(m.from)
		for _, wrong := range []int{rev - 1, rev + 1, 0} {
			r, err := m.call(d.store, ann, id, wrong)
			require.NoError(t, err)
			require.Equal(t, operator.Conflict, r.Code, "%s at %d of %d", m.op, wrong, rev)
		}
		d.wantStored(id, kindsTo[m.from])
	}
	id, rev := d.request(operator.StateProposed)
	d.ahead.Store(int64(operator.ProposalLife + time.Minute))
	r, err := d.store.Confirm(t.Context(), ann, id, rev)
	require.NoError(t, err)
	require.Equal(t, operator.Expired, r.Code, "OT-82")
	d.wantStored(id, "proposed")
}

// OT-42, OT-43: proposing again is answered by what is there.
func TestOT42ProposingAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, _ := d.request(operator.StateProposed)
	again := func(o operator.Owner, in operator.Intent) kv.OperatorResult {
		r, err := d.store.Propose(t.Context(), o, id, in)
		require.NoError(t, err)
		return r
	}
	r := again(ann, wanted)
	require.Equal(t, operator.Existing, r.Code)
	require.Equal(t, d.read(id), r.Task)
	other := wanted
	other.Title = "Another"
	require.Equal(t, kv.OperatorResult{Code: operator.NotFound}, again(ann, other))
	bob := ann
	bob.Operator = "bob"
	require.Equal(t, kv.OperatorResult{Code: operator.NotFound}, again(bob, wanted))
	d.wantStored(id, "proposed")
}
