package consumers

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/outbox"
)

// TestOT88AnApprovedRequestBecomesOneIssue with the App's token, and says so
// from the answer itself.
func TestOT88AnApprovedRequestBecomesOneIssue(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	d := c.desk(func(o *IssuesOptions) { o.Labels = []string{"bug"} }).start()
	id := c.approved()
	got := c.await(id, operator.StateSubmitted)
	require.Equal(t, operator.EvidenceAnswer, got.Evidence)
	require.Equal(t, string(d.o.Boot), got.Holder)
	all := c.gh.Issues(100)
	require.Len(t, all, 1)
	require.Equal(t, all[0].Number, got.Issue.Number)
	require.Equal(t, wanted.Title, all[0].Title)
	require.Equal(t, []string{"bug"}, all[0].Labels)
	mark, ok := d.o.GitHub.OperatorMark(100, all[0].Body)
	require.True(t, ok, all[0].Body)
	require.Equal(t, []string{ann.Tenant, string(id), got.AttemptID}, []string{mark.Tenant, mark.RequestID, mark.AttemptID})
	require.True(t, strings.HasSuffix(all[0].Body, "\n\n"+wanted.Body))
	require.Equal(t, "checks:write contents:read issues:write metadata:read pull_requests:read", c.gh.Mutations()[0].Token)
	require.Contains(t, d.audited(auditIssueCreated), string(id))
	require.Equal(t, 1, c.posts())
}

// TestAProposalIsNoApproval: nothing is created before a person confirms.
func TestAProposalIsNoApproval(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := operator.RequestID("b5f7f7a0-0000-4000-8000-000000000001")
	_, err := c.store.Propose(t.Context(), ann, id, wanted)
	require.NoError(t, err)
	d := c.desk()
	require.NoError(t, d.sweep())
	require.NoError(t, d.run(requestKey{ann.Tenant, id}))
	require.Equal(t, operator.StateProposed, c.read(id).State)
	require.Zero(t, c.posts())
}

// TestOT15To21NothingButTheCommittedBeginLicenses: whoever loses the begin,
// finds it taken, or comes after a lease sends nothing.
func TestOT15To21NothingButTheCommittedBeginLicenses(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := c.approved()
	key := requestKey{ann.Tenant, id}
	r, err := c.store.TryBeginAttempt(t.Context(), ann, id, 2, "a1", "gone")
	require.NoError(t, err)
	require.True(t, r.AuthorizesIssueCreate(), "the other one's, which dies now")
	d := c.desk()
	stale := operator.Task{ID: id, Owner: ann, Intent: wanted, State: operator.StateApproved, Revision: 2}
	_, err = d.attempt(stale) // Existing
	require.NoError(t, err)
	require.NoError(t, d.run(key)) // its lease
	require.Equal(t, operator.StateAttempting, c.read(id).State)
	c.later(operator.AttemptLease)
	require.NoError(t, d.run(key)) // is over
	require.Equal(t, operator.StateUnknown, c.read(id).State)
	for range 3 { // and nothing is found
		d.lookFor([]requestKey{key})
	}
	again := c.desk() // nor does a restart know more
	require.NoError(t, again.sweep())
	again.Wake(ann.Tenant, id)
	again.lookFor([]requestKey{key})
	require.Equal(t, operator.StateUnknown, c.read(id).State)
	require.Zero(t, c.posts())
}

// TestOT22OT23AnUncertainBeginSendsNothing, even if it reads as committed
// afterwards; only a person's confirm lets one that did not happen begin anew.
func TestOT22OT23AnUncertainBeginSendsNothing(t *testing.T) {
	t.Parallel()
	for when, state := range map[string]operator.State{"before": operator.StateApproved, "after": operator.StateAttempting} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			c := newCounter(t)
			d := c.desk()
			o := &outage{step: "append attempt_started", when: when}
			o.left.Store(1)
			d.events.Hooks = o.hooks()
			id := c.approved()
			key := requestKey{ann.Tenant, id}
			for range 3 {
				require.NoError(t, d.run(key))
				require.NoError(t, d.sweep())
			}
			require.Equal(t, state, c.read(id).State)
			require.Zero(t, c.posts())
			require.Contains(t, d.audited(auditUncertain), "is "+string(state))
			d.start()
			d.Wake(ann.Tenant, id)
			if state == operator.StateApproved {
				c.await(id, operator.StateSubmitted)
				require.Equal(t, 1, c.posts())
				return
			}
			c.later(operator.AttemptLease)
			d.Wake(ann.Tenant, id)
			c.await(id, operator.StateUnknown)
			require.Zero(t, c.posts())
		})
	}
}

// TestO16ARefusedIssueIsNeverSentAgain whatever the refusal; the operator
// sees it.
func TestO16ARefusedIssueIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		fault  githubtest.Fault
		reason string
	}{
		"secondary limit": {githubtest.Fault{Kind: githubtest.SecondaryLimit}, "refused:403"},
		"primary limit":   {githubtest.Fault{Kind: githubtest.PrimaryLimit, Status: 429, Reset: time.Now().Add(time.Hour)}, "refused:429"},
		"unauthorized":    {githubtest.Fault{Kind: githubtest.Unauthorized}, "refused:401"},
		"not found":       {githubtest.Fault{Kind: githubtest.ErrorBefore, Status: 404}, "refused:404"},
		"gone":            {githubtest.Fault{Kind: githubtest.ErrorBefore, Status: 410}, "refused:410"},
		"invalid":         {githubtest.Fault{Kind: githubtest.ErrorBefore, Status: 422}, "refused:422"},
		"server error":    {githubtest.Fault{Kind: githubtest.ErrorBefore, Status: 502}, "unknown"},
		"dropped":         {githubtest.Fault{Kind: githubtest.DropBefore}, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounter(t)
			looked := make(chan struct{}, 100)
			d := c.desk(func(o *IssuesOptions) { o.Hooks = &IssueHooks{Searched: func() { looked <- struct{}{} }} })
			f.fault.Op = githubtest.OpCreateIssue
			c.gh.Fail(f.fault)
			d.start()
			id := c.approved()
			got := c.await(id, operator.StateUnknown)
			require.Equal(t, f.reason, got.Reason)
			require.Contains(t, d.audited(auditIssueUnknown), f.reason)
			awaitLooks(t, looked, 2)
			d.Wake(ann.Tenant, id)
			again := c.desk().start()
			require.NoError(t, again.sweep())
			awaitLooks(t, looked, 1)
			require.Equal(t, operator.StateUnknown, c.read(id).State)
			require.Equal(t, 1, c.posts())
			require.Empty(t, c.gh.Issues(100))
		})
	}
}

// awaitLooks waits until issues were looked for n times.
func awaitLooks(t *testing.T, looked <-chan struct{}, n int) {
	t.Helper()
	for range n {
		select {
		case <-looked:
		case <-time.After(20 * time.Second):
			require.Fail(t, "nobody looks for the issue")
		}
	}
}

// TestO15ALostAnswerIsReconciledByTheMarker: GitHub creates the issue and
// drops the connection; its list is behind for a while. Planted, altered and
// strangers' markers are no evidence.
func TestO15ALostAnswerIsReconciledByTheMarker(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	looked := make(chan struct{}, 100)
	d := c.desk(func(o *IssuesOptions) { o.Hooks = &IssueHooks{Searched: func() { looked <- struct{}{} }} })
	c.gh.Fail(githubtest.Fault{Op: githubtest.OpCreateIssue, Kind: githubtest.DropAfter})
	c.gh.Hide(100, true)
	d.start()
	id := c.approved()
	require.Equal(t, "unknown", c.await(id, operator.StateUnknown).Reason)
	made := c.gh.Issues(100)[0]
	c.gh.AddIssue(100, githubtest.Issue{Title: "copied", Body: made.Body, Login: "mallory"})
	c.gh.AddIssue(100, githubtest.Issue{Title: "altered", Body: strings.Replace(made.Body, string(id), "b5f7f7a0-0000-4000-8000-000000000001", 1), Login: c.gh.Login()})
	c.gh.AddIssue(100, githubtest.Issue{Title: "not at its place", Body: "hm\n" + made.Body, Login: c.gh.Login()})
	mark := githubapp.OperatorMark{Tenant: ann.Tenant, RequestID: string(id), AttemptID: "another"}
	c.gh.AddIssue(100, githubtest.Issue{Title: "another attempt's", Body: d.o.GitHub.OperatorMarker(100, mark), Login: c.gh.Login()})
	awaitLooks(t, looked, 3)
	require.Equal(t, operator.StateUnknown, c.read(id).State, "an empty answer changes nothing")
	require.Equal(t, 1, c.posts())
	c.gh.SetIssueState(100, made.Number, "hidden") // only what is no evidence is listed
	c.gh.Hide(100, false)
	awaitLooks(t, looked, 3)
	require.Equal(t, operator.StateUnknown, c.read(id).State, "what is no evidence changes nothing")
	c.gh.SetIssueState(100, made.Number, "closed")
	got := c.await(id, operator.StateSubmitted)
	require.Equal(t, made.Number, got.Issue.Number)
	require.Equal(t, operator.EvidenceMarker, got.Evidence)
	require.Contains(t, d.audited(auditIssueFound), string(id))
	require.Equal(t, 1, c.posts())
}

// TestTheSearchEndsAfterADay with what to do, and goes on if a person asks.
func TestTheSearchEndsAfterADay(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	d := c.desk()
	c.gh.Fail(githubtest.Fault{Op: githubtest.OpCreateIssue, Kind: githubtest.DropAfter})
	c.gh.Hide(100, true)
	d.start()
	id := c.approved()
	c.await(id, operator.StateUnknown)
	c.later(searchFor)
	natstest.Eventually(t, "the search to end", func() bool { return d.audited(auditIssueLost) != "" })
	require.Contains(t, d.audited(auditIssueLost), "propose it anew under another id")
	lists := c.gh.Requests(githubtest.OpListIssues)
	require.NoError(t, d.sweep())
	require.NoError(t, d.run(requestKey{ann.Tenant, id}))
	require.Empty(t, d.dueSearches())
	require.Equal(t, lists, c.gh.Requests(githubtest.OpListIssues))
	c.gh.Hide(100, false)
	d.Wake(ann.Tenant, id)
	require.Equal(t, operator.EvidenceMarker, c.await(id, operator.StateSubmitted).Evidence)
	require.Equal(t, 1, c.posts())
}

// TestTheOutcomeIsRecordedAgainAndTheIssueIsNot when the store is away, loses
// its answer, or somebody found the lease over.
func TestTheOutcomeIsRecordedAgainAndTheIssueIsNot(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after"} {
		for step, fault := range map[string]githubtest.FaultKind{"append submitted": "", "append outcome_unknown": githubtest.DropBefore} {
			t.Run(when+" "+step, func(t *testing.T) {
				t.Parallel()
				c := newCounter(t)
				d := c.desk()
				o := &outage{step: step, when: when}
				o.left.Store(3)
				d.events.Hooks = o.hooks()
				want := operator.StateSubmitted
				if fault != "" {
					c.gh.Fail(githubtest.Fault{Op: githubtest.OpCreateIssue, Kind: fault})
					want = operator.StateUnknown
				}
				id := c.approved()
				require.NoError(t, d.run(requestKey{ann.Tenant, id}))
				require.Equal(t, want, c.read(id).State)
				require.Equal(t, 1, c.posts())
			})
		}
	}
	c := newCounter(t)
	d := c.desk(func(o *IssuesOptions) {
		o.Hooks = &IssueHooks{Posted: func(id operator.RequestID) {
			c.later(operator.AttemptLease)
			got := c.read(id)
			r, err := c.store.MarkUnknown(t.Context(), ann, id, got.Revision, got.AttemptID, "another", "unknown")
			require.NoError(t, err)
			require.Equal(t, operator.Committed, r.Code)
		}}
	})
	id := c.approved()
	require.NoError(t, d.run(requestKey{ann.Tenant, id}))
	require.Equal(t, operator.StateSubmitted, c.read(id).State)
	require.Equal(t, 1, c.posts())
}

// TestAPreconditionSpendsNoLicense: while GitHub is away or limits the
// installation, or the repository is not installed, the attempt is not begun.
func TestAPreconditionSpendsNoLicense(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	d := c.desk()
	id := c.approved()
	key := requestKey{ann.Tenant, id}
	for _, f := range []githubtest.Fault{
		{Op: githubtest.OpInstallation, Kind: githubtest.DropBefore},
		{Op: githubtest.OpInstallation, Kind: githubtest.ErrorBefore, Status: 404},
		{Op: githubtest.OpToken, Kind: githubtest.ErrorBefore},
		{Op: githubtest.OpToken, Kind: githubtest.SecondaryLimit, RetryAfter: time.Minute},
	} {
		c.gh.Fail(f)
		require.Error(t, d.run(key), "%v", f)
		require.Equal(t, operator.StateApproved, c.read(id).State)
	}
	require.Error(t, d.run(key), "the installation is parked")
	c.later(2 * time.Minute)
	require.NoError(t, d.run(key))
	require.Equal(t, operator.StateSubmitted, c.read(id).State)
	require.Equal(t, 1, c.posts())
}

// TestALostMessageStallsNothing: requests are found again at start and by the
// sweep, and a deleted consumer is made again.
func TestALostMessageStallsNothing(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	ids := []operator.RequestID{c.approved(), c.approved()}
	require.NoError(t, c.env.JS.DeleteConsumer(t.Context(), kv.StreamOperator, kv.ConsumerIssues))
	d := c.desk()
	require.NoError(t, d.sweep())
	for _, id := range ids {
		require.Equal(t, operator.StateSubmitted, c.read(id).State)
	}
	d.start()
	id := c.approved()
	c.await(id, operator.StateSubmitted)
	_, err := c.env.JS.Consumer(t.Context(), kv.StreamOperator, kv.ConsumerIssues)
	require.NoError(t, err)
	natstest.Eventually(t, "the consumer to be empty", func() bool {
		cons, err := c.env.JS.Consumer(t.Context(), kv.StreamOperator, kv.ConsumerIssues)
		require.NoError(t, err)
		info, err := cons.Info(t.Context())
		return err == nil && info.NumPending == 0 && info.NumAckPending == 0
	})
	require.Equal(t, 3, c.posts())
}

// TestEightProcessesMakeAHundredIssuesOfAHundredRequests, each exactly one.
func TestEightProcessesMakeAHundredIssuesOfAHundredRequests(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	var ids []operator.RequestID
	for range 100 {
		ids = append(ids, c.approved())
	}
	var gate sync.WaitGroup
	gate.Add(8)
	desks := make([]*desk, 8)
	for n := range desks {
		var once sync.Once
		desks[n] = c.desk(func(o *IssuesOptions) {
			o.Hooks = &IssueHooks{BeforeBegin: func(operator.RequestID) { once.Do(func() { gate.Done(); gate.Wait() }) }}
		})
	}
	var wg sync.WaitGroup
	for n, d := range desks {
		wg.Go(func() {
			for k := range ids {
				_ = d.run(requestKey{ann.Tenant, ids[(k+n%2)%len(ids)]})
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, operator.StateSubmitted, c.read(id).State)
	}
	require.Equal(t, 100, c.posts())
	require.Len(t, c.gh.Issues(100), 100)
}

// TestWhereverAProcessDiesThereIsAtMostOneIssue is the matrix of deaths over
// the steps of an attempt: one POST at the most, and one issue if the process
// lived until it was sent.
func TestWhereverAProcessDiesThereIsAtMostOneIssue(t *testing.T) {
	t.Parallel()
	die := func(operator.RequestID) { runtime.Goexit() }
	for name, c := range map[string]struct {
		hooks IssueHooks
		posts int
		end   operator.State
	}{
		"before begin":               {IssueHooks{BeforeBegin: die}, 1, operator.StateSubmitted},
		"after begin":                {IssueHooks{Begun: die}, 0, operator.StateUnknown},
		"after the request":          {IssueHooks{Posted: die}, 1, operator.StateSubmitted},
		"after the outcome's record": {IssueHooks{Recorded: die}, 1, operator.StateSubmitted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newCounter(t)
			dead := k.desk(func(o *IssuesOptions) { o.Hooks = &c.hooks })
			id := k.approved()
			var wg sync.WaitGroup
			wg.Go(func() { _ = dead.run(requestKey{ann.Tenant, id}) }) // and never comes back
			wg.Wait()
			again := k.desk().start()
			if s := k.read(id).State; s == operator.StateAttempting {
				require.NoError(t, again.sweep())
				require.Equal(t, s, k.read(id).State, "the lease is the dead one's")
				k.later(operator.AttemptLease)
			}
			require.NoError(t, again.sweep())
			k.await(id, c.end)
			again.Wake(ann.Tenant, id)
			require.NoError(t, again.sweep())
			require.Equal(t, c.posts, k.posts())
			require.Len(t, k.gh.Issues(100), c.posts)
		})
	}
}

// TestTheOperatorIsToldOnce through the outbox, across restarts; without a
// callback nobody is, and the request stays submitted.
func TestTheOperatorIsToldOnce(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := c.approved()
	key := requestKey{ann.Tenant, id}
	mute := c.desk()
	require.NoError(t, mute.run(key))
	require.NoError(t, mute.run(key))
	require.Equal(t, operator.StateSubmitted, c.read(id).State)
	told := outbox.ID("operator-" + string(id))
	rec, err := mute.outbox.Find(t.Context(), told)
	require.NoError(t, err)
	require.Nil(t, rec)

	callback := func(o *IssuesOptions) {
		o.Callback, o.To = relay.CallbackChannel("cockpit"), "https://cockpit.example/"
	}
	d := c.desk(callback)
	for range 2 {
		require.NoError(t, d.run(key))
	}
	rec, err = d.outbox.Find(t.Context(), told)
	require.NoError(t, err)
	require.Equal(t, outbox.Pending, rec.Status)
	require.Equal(t, "callback:cockpit", rec.Channel)
	require.Contains(t, string(rec.Payload), relay.OperatorEventType)
	require.Contains(t, string(rec.Payload), fmt.Sprintf(`"issue_number":%d`, c.read(id).Issue.Number))
	require.Equal(t, operator.StateSubmitted, c.read(id).State, "nobody was told yet")

	_, ok, err := d.outbox.Claim(t.Context(), told, "relay")
	require.NoError(t, err)
	require.True(t, ok)
	c.later(2 * outbox.Lease)
	require.NoError(t, d.run(key))
	require.Equal(t, operator.StateSubmitted, c.read(id).State, "nor is one of whom nobody knows")
	_, next, err := d.outbox.Resolve(t.Context(), told, outbox.ResolveResend, "asked for it", "ann")
	require.NoError(t, err)
	require.NoError(t, d.run(key))
	require.Equal(t, operator.StateSubmitted, c.read(id).State)
	_, _, err = d.outbox.Claim(t.Context(), next.ID, "relay")
	require.NoError(t, err)
	sent, err := d.outbox.MarkDelivered(t.Context(), next.ID)
	require.NoError(t, err)
	d.start()
	d.Finished(sent, relay.Delivered)
	require.Equal(t, string(next.ID), c.await(id, operator.StateDelivered).OutboxID)
	require.NoError(t, c.desk(callback).sweep())

	old := c.approved()
	require.NoError(t, mute.run(requestKey{ann.Tenant, old}))
	c.later(31 * 24 * time.Hour)
	require.NoError(t, d.run(requestKey{ann.Tenant, old}))
	rec, err = d.outbox.Find(t.Context(), outbox.ID("operator-"+string(old)))
	require.NoError(t, err)
	require.Nil(t, rec, "what was told so long ago may be past its retention")
}
