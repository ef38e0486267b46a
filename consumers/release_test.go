package consumers

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// hall is a counter with a gate before a pull request of belay's.
type hall struct {
	*counter
	*ReleaseGate
	task task.Record
	pull int
	log  *kv.DeliveryLog
}

func newHall(t *testing.T) *hall {
	t.Helper()
	h := &hall{counter: newCounter(t)}
	h.gh.SetBranch(100, "belay/fix", githubtest.SHA("one"))
	h.pull = h.gh.AddPull(100, githubtest.Pull{Title: "Fix", Login: h.gh.Login(), Branch: "belay/fix", HeadSHA: githubtest.SHA("one")})
	d := h.desk()
	store, err := kv.OpenTaskStore(t.Context(), h.env.JS)
	require.NoError(t, err)
	h.log, err = kv.OpenDeliveryLog(t.Context(), h.env.JS)
	require.NoError(t, err)
	gates, err := kv.OpenGateStore(t.Context(), h.env.JS)
	require.NoError(t, err)
	releases, err := kv.OpenReleaseStore(t.Context(), h.env.JS)
	require.NoError(t, err)
	h.ReleaseGate = NewReleaseGate(ReleaseOptions{
		JS: h.env.JS, Store: store, Gates: gates, Releases: releases,
		Clients: map[string]*githubapp.Client{task.DefaultSource: d.o.GitHub}, Restore: d.o.Restore,
		Logger: slog.New(slog.DiscardHandler), Now: h.now, Registerer: prometheus.NewRegistry(), SweepEvery: time.Hour,
	})
	t.Cleanup(func() { require.NoError(t, h.Stop(context.Background())) })
	h.task = task.Record{
		V: task.Version, ID: "t1", Source: task.DefaultSource, InstallationID: 10, RepoID: 100, Repo: "acme/site", State: task.Completed,
		Kind: task.Kind{Name: task.FixIssue, IssueNumber: 1}, PRNumber: h.pull, FamiliarID: "cody",
		Operator: &task.Operator{Tenant: "invotek", RequestID: "r1", AttemptID: "a1"}, CreatedAt: task.At(h.now()), UpdatedAt: task.At(h.now()),
	}
	_, err = store.Create(t.Context(), h.task)
	require.NoError(t, err)
	return h
}

// deliver sends what the end of the task put into the outbox.
func (h *hall) deliver() relay.Answer {
	return h.Channel().Deliver(h.t.Context(), relay.Message{InstallationID: 10, TaskID: "t1"})
}

func (h *hall) approve(head string) {
	h.t.Helper()
	_, _, err := h.o.Releases.Approve(h.t.Context(), 100, h.pull, head, ann, h.now())
	require.NoError(h.t, err)
}

// says is the conclusion at a head, "" if there is no check run of the gate.
func (h *hall) says(head string) (conclusion string) {
	for _, k := range h.gh.Checks(100) {
		if k.Name == ReleaseCheck && k.HeadSHA == head {
			require.Empty(h.t, conclusion, "one check run a head")
			conclusion = k.Conclusion
		}
	}
	return conclusion
}

func (h *hall) await(head, conclusion string) {
	h.t.Helper()
	natstest.Eventually(h.t, "the check of "+head+" to be "+conclusion, func() bool { return h.says(head) == conclusion })
}

// event logs a delivery about the pull request.
func (h *hall) event(id, action string) {
	h.t.Helper()
	_, err := h.log.Accept(h.t.Context(), task.Delivery{
		V: task.Version, Source: task.DefaultSource, ID: task.DeliveryID(id), Event: "pull_request", Action: action, PayloadHash: id,
		InstallationID: 10, RepoID: 100, Repo: "acme/site", Number: h.pull, Routing: task.Ignored(task.Self), ReceivedAt: task.At(h.now()),
	})
	require.NoError(h.t, err)
}

// TestOT92APullRequestIsHeldUntilItsHeadIsReleased and a new head is held
// again, whatever was released before.
func TestOT92APullRequestIsHeldUntilItsHeadIsReleased(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	one, two := githubtest.SHA("one"), githubtest.SHA("two")
	require.Equal(t, relay.Delivered, h.deliver().Verdict)
	require.Equal(t, relay.Delivered, h.deliver().Verdict, "twice is once")
	require.Equal(t, "action_required", h.says(one))
	h.Start()
	h.approve(two) // which nobody pushed yet
	h.Wake(100, h.pull)
	h.approve(one)
	h.Wake(100, h.pull)
	h.await(one, "success")

	h.gh.SetBranch(100, "belay/fix", two)
	require.Empty(t, h.says(two), "no check run is no consent")
	h.event("e1", "synchronize")
	h.await(two, "action_required")
	h.gh.SetBranch(100, "belay/fix", one)
	h.event("e2", "synchronize")
	natstest.Eventually(t, "the gate to be at the first head", func() bool {
		g, err := h.o.Gates.Find(t.Context(), 100, h.pull)
		return err == nil && g.Head == one && g.Conclusion == "success"
	})
	h.approve(two)
	h.Wake(100, h.pull)
	h.await(one, "action_required")

	h.gh.ClosePull(100, h.pull)
	h.event("e3", "closed")
	natstest.Eventually(t, "the gate to be gone", func() bool {
		g, err := h.o.Gates.Find(t.Context(), 100, h.pull)
		return err == nil && g == nil
	})
}

// TestOT92TheSweepFindsWhatNoEventWoke: a death after the approval, a lost
// webhook, and a check run that could not be written.
func TestOT92TheSweepFindsWhatNoEventWoke(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	one, two := githubtest.SHA("one"), githubtest.SHA("two")
	h.gh.Fail(githubtest.Fault{Op: githubtest.OpCreateCheck, Kind: githubtest.DropAfter})
	h.gh.Fail(githubtest.Fault{Op: githubtest.OpUpdateCheck, Kind: githubtest.ErrorBefore, Times: 3})
	require.Equal(t, relay.Refused, h.deliver().Verdict)
	require.NoError(t, h.sweep())
	require.Equal(t, "action_required", h.says(one))
	h.approve(one)
	require.NoError(t, h.sweep())
	require.Equal(t, "success", h.says(one))
	n := h.gh.Requests("")
	require.NoError(t, h.sweep())
	require.Equal(t, n, h.gh.Requests(""), "what is settled costs no request")
	h.gh.SetBranch(100, "belay/fix", two)
	h.later(releaseFresh)
	require.NoError(t, h.sweep())
	require.Equal(t, "action_required", h.says(two))
}

// TestOnlyOperatorsPullRequestsAreHeld, of tasks that opened one.
func TestOnlyOperatorsPullRequestsAreHeld(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	require.True(t, Held(&h.task))
	for _, change := range []func(*task.Record){
		func(r *task.Record) { r.Operator = nil }, func(r *task.Record) { r.PRNumber = 0 },
		func(r *task.Record) { r.Kind.Name = task.ReviewPullRequest },
	} {
		r := h.task
		change(&r)
		require.False(t, Held(&r))
	}
	require.NoError(t, h.look(t.Context(), 100, h.pull))
	require.NoError(t, h.sweep())
	require.Empty(t, h.gh.Checks(100), "without a gate nothing is shown")
}
