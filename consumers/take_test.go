package consumers

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// able makes a worker that may claim though it was not started.
func (b *bench) able() *bench {
	b.worker.beat(b.t.Context())
	return b
}

func (b *bench) claim(id task.ID) *run {
	return b.worker.claim(b.t.Context(), view.Candidate{ID: id, InstallationID: 7})
}

func TestWhatWasAdmittedHereIsClaimedWithoutARead(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t)).able()
	id := b.admitted(issue(1))
	var s steps
	b.store.SetHooks(s.hooks("task."))
	require.NotNil(t, b.claim(id))
	require.Equal(t, "update "+kv.TaskKey(7, id), s.made()[0])
	b.reaches(id, task.Completed)
}

// A record that was handed over and has changed since loses its
// compare-and-set; the task is claimed as it stands now.
func TestAStaleHandedRecordLosesAndIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t)).able()
	id := b.admitted(issue(1))
	b.stopView() // it would drop the record
	_, _, err := b.store.Change(t.Context(), 7, id, func(r task.Record) (task.Record, error) {
		r.Title = "changed"
		return r, nil
	}, nil)
	require.NoError(t, err)
	var s steps
	b.store.SetHooks(s.hooks("task."))
	r := b.claim(id)
	require.NotNil(t, r)
	key := kv.TaskKey(7, id)
	require.Equal(t, []string{"update " + key, "get " + key, "update " + key}, s.made()[:3])
	require.Equal(t, "changed", r.record.Title)
	require.Equal(t, "changed", b.reaches(id, task.Completed).Title)
	require.Equal(t, 1, b.record(id).Attempts)
}

func TestAHandedRecordThatEndedIsNotRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(task.Record) (task.Record, error)
	}{
		{"cancelled", func(r task.Record) (task.Record, error) { return r.Cancel("by hand", time.Now()) }},
		{"claimed", func(r task.Record) (task.Record, error) { return r.Claim("other", "other", "nonce", time.Now()) }},
		{"delayed", func(r task.Record) (task.Record, error) {
			r.NotBefore = task.At(time.Now().Add(time.Hour))
			return r, nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, natstest.New(t)).able()
			id := b.admitted(issue(1))
			b.stopView()
			want, _, err := b.store.Change(t.Context(), 7, id, c.end, nil)
			require.NoError(t, err)
			require.Nil(t, b.claim(id))
			require.Equal(t, want, b.record(id))
			require.Empty(t, b.runner.started())
		})
	}
}

// A review that was handed over still asks its pointer.
func TestAHandedReviewAsksItsPointer(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	b, other := newBench(t, env).able(), newBench(t, env)
	first := b.admitted(review(3, "a1", "", 1))
	f := &failOn{op: "update", prefix: kv.TaskKey(7, first), times: 1, err: kv.ErrFull}
	other.store.SetHooks(f.hooks())
	other.accept(review(3, "a2", "a1", 2))
	require.Error(t, other.admitAt(2), "the pointer moved, the first one is queued still")
	require.Equal(t, task.Queued, b.record(first).State)
	require.Nil(t, b.claim(first))
	require.Equal(t, task.Superseded, b.record(first).State)
}

// What is handed over is what the store holds.
func TestHandedRecordsAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	b := newBench(t, natstest.New(t))
	kinds := []task.Kind{
		{Name: task.FixIssue, IssueNumber: 1, IssueTitle: "t\u2028<&>", IssueBody: "body"},
		{Name: task.AddressReviewComment, PRNumber: 2, CommentBody: "c", DiffHunk: "d"},
		{Name: task.CommandReply, IssueNumber: 3, Body: "b"},
		{Name: task.CancelReviews, PRNumber: 4},
		{Name: task.Custom, Custom: task.CustomKind{Name: "n", Title: "t"}},
	}
	for n, k := range kinds {
		d := issue(n)
		d.Task.Kind, d.Task.Commander, d.Task.HeadSHA = k, "alice", "sha"
		id := b.admitted(d)
		want, wantRev, err := b.store.Get(t.Context(), 7, id)
		require.NoError(t, err)
		got, rev, ok := b.view.Handed(id)
		require.True(t, ok, fmt.Sprint(k.Name))
		require.Equal(t, want, got)
		require.Equal(t, wantRev, rev)
	}
}
