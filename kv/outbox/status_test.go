package outbox_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/outbox"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is a record in a status, as the moves make it.
func at(t testing.TB, s outbox.Status) outbox.Record {
	t.Helper()
	r, err := outbox.New("x-1", "callback:ci", "https://ci.example/hook", []byte(`{"a":1}`), noon)
	require.NoError(t, err)
	if s != outbox.Pending {
		r, err = r.Take(outbox.Claim{Nonce: "n", Boot: "b", At: outbox.At(noon)}, noon)
		require.NoError(t, err)
	}
	switch s {
	case outbox.Delivered:
		r, err = r.Deliver(noon)
	case outbox.Failed:
		r, err = r.Fail("no", noon)
	}
	require.NoError(t, err)
	require.Equal(t, s, r.Status)
	return r
}

// The whole table, written out again by hand.
func TestOB3OB4TableOverEveryTriple(t *testing.T) {
	t.Parallel()
	type triple struct {
		m        outbox.Move
		from, to outbox.Status
	}
	legal := map[triple]bool{
		{outbox.MoveClaim, outbox.Pending, outbox.Delivering}:      true,
		{outbox.MoveReclaim, outbox.Delivering, outbox.Delivering}: true,
		{outbox.MoveAttempt, outbox.Delivering, outbox.Delivering}: true,
		{outbox.MoveDeliver, outbox.Delivering, outbox.Delivered}:  true,
		{outbox.MoveFail, outbox.Delivering, outbox.Failed}:        true,
		{outbox.MoveResolve, outbox.Delivering, outbox.Delivered}:  true,
		{outbox.MoveResolve, outbox.Delivering, outbox.Failed}:     true,
	}
	rank := map[outbox.Status]int{outbox.Pending: 0, outbox.Delivering: 1, outbox.Delivered: 2, outbox.Failed: 2}
	require.Len(t, outbox.Statuses, 4)
	require.Len(t, outbox.Moves, 6)
	for _, m := range append(outbox.Moves, "unknown") {
		for _, from := range append(outbox.Statuses, "") {
			for _, to := range append(outbox.Statuses, "") {
				ok := outbox.Allowed(m, from, to)
				require.Equal(t, legal[triple{m, from, to}], ok, "%s %s → %s", m, from, to)
				if ok {
					require.GreaterOrEqual(t, rank[to], rank[from], "%s goes backwards", m)
					require.False(t, from.Terminal(), "%s leaves a terminal status", m)
				}
			}
		}
	}
}

// Every function over every status: it moves as the table says, or returns the
// record as it was.
func TestMovesOverEveryStatus(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Hour)
	set := outbox.Settlement{How: outbox.ResolveFailed, Reason: "looked", At: outbox.At(later)}
	moves := map[string]struct {
		do func(outbox.Record) (outbox.Record, error)
		to map[outbox.Status]outbox.Status
	}{
		"claim": {func(r outbox.Record) (outbox.Record, error) { return r.Take(outbox.Claim{Nonce: "m"}, later) },
			map[outbox.Status]outbox.Status{outbox.Pending: outbox.Delivering}},
		"reclaim": {func(r outbox.Record) (outbox.Record, error) { return r.Retake(outbox.Claim{Nonce: "m"}, later) },
			map[outbox.Status]outbox.Status{outbox.Delivering: outbox.Delivering}},
		"attempt": {func(r outbox.Record) (outbox.Record, error) { return r.Attempt("503", time.Time{}, later) },
			map[outbox.Status]outbox.Status{outbox.Delivering: outbox.Delivering}},
		"deliver": {func(r outbox.Record) (outbox.Record, error) { return r.Deliver(later) },
			map[outbox.Status]outbox.Status{outbox.Delivering: outbox.Delivered}},
		"fail": {func(r outbox.Record) (outbox.Record, error) { return r.Fail("400", later) },
			map[outbox.Status]outbox.Status{outbox.Delivering: outbox.Failed}},
		"resolve": {func(r outbox.Record) (outbox.Record, error) { return r.Resolve(set, "") },
			map[outbox.Status]outbox.Status{outbox.Delivering: outbox.Failed}},
	}
	for name, m := range moves {
		for _, from := range outbox.Statuses {
			r := at(t, from)
			n, err := m.do(r)
			to, legal := m.to[from]
			switch {
			case legal:
				require.NoError(t, err, "%s %s", name, from)
				require.Equal(t, to, n.Status, "%s %s", name, from)
				require.Equal(t, outbox.At(later), n.UpdatedAt)
			case name == "deliver" && from == outbox.Delivered, name == "fail" && from == outbox.Failed:
				require.NoError(t, err, "repeating %s is a no-op", name)
				require.Equal(t, r, n)
			default:
				require.ErrorIs(t, err, outbox.ErrState, "%s %s", name, from)
				require.Equal(t, r, n, "%s %s changed the record", name, from)
			}
		}
	}
}

func TestOB20OB21OB22OB23WhatEachMoveChanges(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Second)
	r := at(t, outbox.Pending)
	c := outbox.Claim{Nonce: "n", Boot: "b", At: outbox.At(later)}
	n, err := r.Take(c, later)
	require.NoError(t, err)
	want := r
	want.Status, want.UpdatedAt, want.Claim = outbox.Delivering, outbox.At(later), c
	require.Equal(t, want, n, "a claim changes status and updated_at only")

	n, err = n.Attempt("HTTP 503", later.Add(time.Minute), later)
	require.NoError(t, err)
	require.Equal(t, 1, n.Attempts)
	require.Equal(t, "HTTP 503", n.LastError)
	require.Equal(t, outbox.Delivering, n.Status)

	d, err := n.Deliver(later)
	require.NoError(t, err)
	require.Equal(t, 2, d.Attempts)
	require.Empty(t, d.LastError)

	f, err := n.Fail("", later)
	require.NoError(t, err)
	require.Equal(t, "HTTP 503", f.LastError, "the last error stays without a new one")
	require.Equal(t, 1, f.Attempts)
	f, err = n.Fail("gone", later)
	require.NoError(t, err)
	require.Equal(t, "gone", f.LastError)
}

func TestUnknownIsADeliveringRecordWhoseLeaseIsOver(t *testing.T) {
	t.Parallel()
	for _, s := range outbox.Statuses {
		r := at(t, s)
		require.False(t, r.Unknown(noon.Add(outbox.Lease-time.Microsecond)), s)
		require.Equal(t, s == outbox.Delivering, r.Unknown(noon.Add(outbox.Lease)), s)
	}
	// A holder that waits as the recipient asked is no dead one.
	r, err := at(t, outbox.Delivering).Attempt("HTTP 429", noon.Add(5*time.Minute), noon)
	require.NoError(t, err)
	require.False(t, r.Unknown(noon.Add(6*time.Minute)))
	require.True(t, r.Unknown(noon.Add(7*time.Minute)))
}

func TestRetakeNeedsALapsedLease(t *testing.T) {
	t.Parallel()
	r := at(t, outbox.Delivering)
	_, err := r.Retake(outbox.Claim{Nonce: "m"}, noon.Add(time.Minute))
	require.ErrorIs(t, err, outbox.ErrState)
	n, err := r.Retake(outbox.Claim{Nonce: "m"}, noon.Add(outbox.Lease))
	require.NoError(t, err)
	require.Equal(t, 1, n.Attempts, "the try that nobody saw the end of counts")
}

func TestResolve(t *testing.T) {
	t.Parallel()
	over := outbox.At(noon.Add(outbox.Lease))
	r, err := at(t, outbox.Delivering).Attempt("no answer", time.Time{}, noon)
	require.NoError(t, err)
	for how, to := range map[outbox.Resolution]outbox.Status{
		outbox.ResolveDelivered: outbox.Delivered, outbox.ResolveFailed: outbox.Failed, outbox.ResolveResend: outbox.Failed,
	} {
		s := outbox.Settlement{How: how, Reason: "asked them", By: "ann", At: over}
		n, err := r.Resolve(s, "y")
		require.NoError(t, err)
		require.Equal(t, to, n.Status)
		require.Equal(t, s, *n.Resolved)
		s.At = outbox.At(noon)
		_, err = r.Resolve(s, "y")
		require.ErrorIs(t, err, outbox.ErrState, "it is still being sent")
		s.Reason = ""
		_, err = r.Resolve(s, "y")
		require.ErrorIs(t, err, outbox.ErrInvalid, "no reason")
	}
	_, err = r.Resolve(outbox.Settlement{How: outbox.ResolveResend, Reason: "r", At: over}, "")
	require.ErrorIs(t, err, outbox.ErrInvalid)
	_, err = r.Resolve(outbox.Settlement{How: "shrug", Reason: "r", At: over}, "y")
	require.ErrorIs(t, err, outbox.ErrInvalid)

	old, err := r.Resolve(outbox.Settlement{How: outbox.ResolveResend, Reason: "r", At: over}, "y")
	require.NoError(t, err)
	n := old.Resend(over.Time)
	require.Equal(t, outbox.ID("y"), n.ID)
	require.Equal(t, old.LinkedTo, n.ID)
	require.Equal(t, old.ID, n.ResendOf)
	require.Equal(t, old.Payload, n.Payload)
	require.Equal(t, outbox.Pending, n.Status)
	require.Zero(t, n.Attempts)
	require.Equal(t, old.ID, n.Key(), "the recipient can tell that it is the same message")
	again := n
	again.LinkedTo = "z"
	second := again.Resend(over.Time)
	require.Equal(t, old.ID, second.Key(), "over a whole chain")
}

func TestOB12Fields(t *testing.T) {
	t.Parallel()
	r := at(t, outbox.Delivering)
	b, err := json.Marshal(&r)
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"id":"x-1","channel":"callback:ci","to":"https://ci.example/hook","index":0,"payload":{"a":1},
		"status":"delivering","attempts":0,"claim":{"nonce":"n","boot":"b","claimed_at":"2026-03-01T12:00:00.000000Z"},
		"installation_id":0,"created_at":"2026-03-01T12:00:00.000000Z","updated_at":"2026-03-01T12:00:00.000000Z"}`, string(b))
	var back outbox.Record
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, r, back)
}
