package consumers

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// deliver lets both channels make one try for a task.
func (s *stageBench) deliver(id task.ID) (check, comment relay.Answer) {
	m := relay.Message{TaskID: string(id), InstallationID: 7}
	return s.github.CheckChannel(s.store, time.Now).Deliver(s.t.Context(), m), s.github.CommentChannel(s.store, time.Now).Deliver(s.t.Context(), m)
}

func (s *stageBench) close(id task.ID) {
	s.t.Helper()
	check, comment := s.deliver(id)
	require.Equal(s.t, relay.Delivered, check.Verdict, check.Reason)
	require.Equal(s.t, relay.Delivered, comment.Verdict, comment.Reason)
}

// left is a task whose process died while it ran, and that was ended since.
func (s *stageBench) left(end func(task.Record) (task.Record, error)) task.ID {
	s.t.Helper()
	s.runner.f = hold(nil)
	s.start()
	id := s.accept(issue(1))
	s.reaches(id, task.Running)
	natstest.Eventually(s.t, "it to run and show", func() bool {
		return s.record(id).Surfaces == task.SurfacesOpen && len(s.runner.started()) == 1
	})
	_, _, err := s.store.Change(s.t.Context(), 7, id, end, nil)
	require.NoError(s.t, err)
	return id
}

// TestDT77ClosingIsDoneFromTheRecordAlone, however the task ended.
func TestDT77ClosingIsDoneFromTheRecordAlone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end         func(task.Record) (task.Record, error)
		title, says string
	}{
		"a person": {
			func(r task.Record) (task.Record, error) { return r.Cancel("not wanted", time.Now()) }, "Cancelled", "not wanted",
		},
		"recovery": {
			func(r task.Record) (task.Record, error) {
				return r.EndAttempt(holderOf(r), task.Ending{Outcome: task.OutcomeInterrupted}, 0, time.Now())
			}, "Failed", "1 of 1 attempts spent; the last one: interrupted",
		},
		"a newer review": {
			func(r task.Record) (task.Record, error) {
				return r.Supersede(holderOf(r), "another", task.ReasonSuperseded, time.Now())
			}, "Superseded", "superseded, by task another",
		},
		"a moved head": {
			func(r task.Record) (task.Record, error) {
				return r.Supersede(holderOf(r), "", task.ReasonStale, time.Now())
			}, "Stale", "stale",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageBench(t)
			id := s.left(tt.end)
			s.close(id)
			require.Equal(t, []string{"completed", tt.title}, []string{s.check().Status, s.check().Title})
			require.Contains(t, s.body(1), tt.says)
			n := len(s.gh.Mutations())
			s.close(id)
			require.Len(t, s.gh.Mutations(), n)
			require.True(t, s.github.CheckChannel(s.store, time.Now).Idempotent())
		})
	}
}

func holderOf(r task.Record) task.Holder {
	a := r.Open()
	return task.Holder{N: a.N, Boot: a.Boot, Nonce: a.Nonce}
}

// TestClosingIsNothingForATaskThatGoesOn: it was retried since.
func TestClosingIsNothingForATaskThatGoesOn(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	id := s.left(func(r task.Record) (task.Record, error) { return r.Cancel("not wanted", time.Now()) })
	require.NoError(t, s.worker.Stop(t.Context()))
	_, _, err := s.store.Change(t.Context(), 7, id, func(r task.Record) (task.Record, error) { return r.Retry(time.Now()) }, nil)
	require.NoError(t, err)
	n := s.gh.Requests("")
	s.close(id)
	require.Equal(t, n, s.gh.Requests(""))
	require.Equal(t, "in_progress", s.check().Status)
}

// TestO16ChannelsSayWhatIsKnown: each kind of refusal as the relay wants it.
func TestO16ChannelsSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	s := newStageBench(t)
	id := s.left(func(r task.Record) (task.Record, error) { return r.Cancel("not wanted", time.Now()) })
	for want, f := range map[relay.Verdict]githubtest.Fault{
		relay.Refused: {Kind: githubtest.ErrorBefore, Times: -1},
		relay.Final:   {Kind: githubtest.ErrorBefore, Status: 403, Times: -1},
	} {
		s.gh.Fail(f)
		check, comment := s.deliver(id)
		require.Equal(t, want, check.Verdict, check.Reason)
		require.Equal(t, want, comment.Verdict, comment.Reason)
		s.gh.Heal()
	}
	s.gh.Fail(githubtest.Fault{Kind: githubtest.SecondaryLimit, RetryAfter: time.Minute})
	check, _ := s.deliver(id)
	require.Equal(t, relay.Refused, check.Verdict)
	require.InDelta(t, 60, check.RetryAfter.Seconds(), 5)

	gone := relay.Message{TaskID: "no-such-task", InstallationID: 7}
	require.Equal(t, relay.Final, s.github.CheckChannel(s.store, time.Now).Deliver(t.Context(), gone).Verdict)
	require.Equal(t, relay.Unknown, (&closing{now: time.Now}).answer(fmt.Errorf("x: %w", githubapp.ErrUnknown)).Verdict)
}
