package ingest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// trailFake is the audit trail of a test.
type trailFake struct {
	entries []kv.AuditEntry
	asked   kv.AuditQuery
}

func (f *trailFake) Page(_ context.Context, q kv.AuditQuery) (kv.AuditPage, error) {
	f.asked = q
	return kv.AuditPage{Entries: f.entries}, nil
}

func after(d time.Duration) task.Time { return task.At(testTime.Add(d)) }

// told is a delivery that made task t-1 of record.
func told() kv.Logged {
	return kv.Logged{Seq: 12, Delivery: task.Delivery{
		V: 1, Source: "default", ID: "d-1", HookID: "77", Event: "pull_request", Action: "opened", InstallationID: 7, RepoID: 99,
		Repo: "acme/api", Number: 5, PayloadHash: "abc123", Routing: task.ToTask("t-1"), ReceivedAt: testTime,
		Task: &task.Spec{ID: "t-1", FamiliarID: "cody", Kind: task.Kind{Name: task.ReviewPullRequest, PRNumber: 5}},
	}}
}

// explained asks for an explanation and returns its steps as `kind text`.
func (d *door) explained(id string) (steps []wireStep, lines []string) {
	d.t.Helper()
	got := d.get(d.base + "/api/github/explain/" + id)
	require.Equal(d.t, http.StatusOK, got.status, got.text)
	var x wireExplanation
	require.NoError(d.t, json.Unmarshal([]byte(got.text), &x))
	for _, st := range x.Steps {
		lines = append(lines, st.Kind+" "+st.Text)
	}
	return x.Steps, lines
}

func TestExplainTellsATaskFromItsHeadersToItsReplies(t *testing.T) {
	t.Parallel()
	trail := &trailFake{entries: []kv.AuditEntry{{At: after(7 * time.Second), Kind: "retry", Caller: "ann", Detail: "because"}}}
	d, f, b := boxDoor(t)
	d.o.Trail = trail
	r := record("t-1")
	r.AttemptLog[0].StartedAt, r.AttemptLog[0].EndedAt = after(2*time.Second), after(4*time.Second)
	r.AttemptLog[1].StartedAt, r.AttemptLog[1].EndedAt = after(8*time.Second), after(9*time.Second)
	r.CreatedAt, r.UpdatedAt = after(time.Second), after(9*time.Second)
	f.records["t-1"], f.deliveries = r, []kv.Logged{told()}
	b.page = view.OutboxPage{Items: []view.OutboxItem{
		{ID: "t-1-0", Channel: "callback:ci", To: "https://ci.example", Status: outbox.Delivering, Unknown: true, Attempts: 1, LastError: "no answer", CreatedAt: after(9 * time.Second), UpdatedAt: after(10 * time.Second)},
		{ID: "t-1-1", Channel: "github:check", To: "acme/api#5", Status: outbox.Pending, CreatedAt: after(9 * time.Second), UpdatedAt: after(9 * time.Second)},
		{ID: "t-1-2", Channel: "callback:cd", To: "https://cd.example", Status: outbox.Failed, Attempts: 3, LastError: "answered 500", CreatedAt: after(9 * time.Second), UpdatedAt: after(11 * time.Second)},
	}}
	for _, id := range []string{"t-1", "T-1", "d-1"} {
		steps, lines := d.explained(id)
		require.Equal(t, []string{
			"delivery pull_request.opened of acme/api#5, installation 7 accepted through source default, hook 77, stored as message 12 of WEBHOOKS",
			"routing makes task t-1: review_pull_request for familiar cody",
			"admission admitted: Review PR #5: T",
			"attempt attempt 1 begins on w",
			"attempt attempt 1 ends: timeout",
			"audit retry by ann",
			"attempt attempt 2 begins on w",
			"attempt attempt 2 ends: completed",
			"state completed: success",
			"github check run",
			"github pull request",
			"outbox reply t-1-0 through callback:ci to https://ci.example",
			"outbox reply t-1-1 through github:check to acme/api#5",
			"outbox reply t-1-2 through callback:cd to https://cd.example",
			"outbox reply t-1-0: nobody can say whether it arrived",
			"outbox reply t-1-2 is failed after 3 tries",
		}, lines, id)
		require.Equal(t, "pull requests are reviewed without being asked; action opened", steps[1].Why)
		require.Contains(t, steps[0].Why, "abc123")
		require.Contains(t, steps[4].Why, "longer than its timeout")
		require.Contains(t, steps[4].Why, "slow", "the attempt's own detail")
		require.Contains(t, steps[4].Next, "belay tasks logs t-1 --attempt 1")
		require.Equal(t, "https://example.test/6", steps[10].URL)
		require.Contains(t, steps[14].Next, "belay outbox resolve t-1-0")
		require.Equal(t, "answered 500", steps[15].Why)
	}
	require.Equal(t, kv.AuditQuery{TaskID: "t-1", Since: r.CreatedAt.Time, Limit: maxLimit}, trail.asked)
	require.NotContains(t, d.get(d.base+"/api/github/explain/t-1").text, "secret-nonce")
}

func TestExplainStates(t *testing.T) {
	t.Parallel()
	d, f, _ := boxDoor(t)
	f.deliveries, f.waits = []kv.Logged{told()}, view.WaitCap
	rows := map[string]struct {
		change          func(*task.Record)
		text, why, next string
	}{
		"queued": {func(r *task.Record) { r.State, r.AttemptLog = task.Queued, nil }, "queued, waits for a worker", "as many running as it may", ""},
		"later":  {func(r *task.Record) { r.State, r.NotBefore = task.Queued, task.At(boxNow.Add(time.Hour)) }, "not to begin before", "", ""},
		"superseded": {func(r *task.Record) {
			r.State, r.Reason, r.SupersededBy = task.Superseded, task.ReasonSuperseded, "t-2"
		}, "superseded by t-2", "a newer review of acme/api#5", ""},
		"beaten": {func(r *task.Record) {
			r.State, r.Reason, r.BeatenBy = task.Superseded, task.ReasonStale, &task.Order{UpdatedAt: testTime}
		}, "superseded", "last changed at " + testTime.String(), ""},
		"of a rule": {func(r *task.Record) {
			r.State, r.Reason, r.Rule = task.Superseded, task.ReasonSuperseded, &task.Rule{Name: "deploy", Group: "@main"}
			r.Kind, r.SupersedeKey = task.Kind{Name: task.Custom}, "acme/api@main"
		}, "superseded", "a newer task of the rule deploy of acme/api@main was admitted", ""},
		"replayed":  {func(r *task.Record) { r.State, r.Reason = task.Superseded, task.ReasonReplayed }, "superseded", "could be a replay", ""},
		"failed":    {func(r *task.Record) { r.State, r.Reason = task.Failed, "3 of 3 attempts spent" }, "failed", "3 of 3 attempts spent", "belay tasks retry t-1"},
		"cancelled": {func(r *task.Record) { r.State, r.Reason = task.Cancelled, "by ann" }, "cancelled", "by ann", "belay tasks retry t-1"},
	}
	for name, row := range rows {
		r := record("t-1")
		r.CheckRunURL, r.PRURL = "", ""
		row.change(&r)
		f.records["t-1"] = r
		steps, _ := d.explained("t-1")
		last := steps[len(steps)-1]
		require.Equal(t, stepState, last.Kind, name)
		require.Contains(t, last.Text, row.text, name)
		require.Contains(t, last.Why, row.why, name)
		require.Contains(t, last.Next, row.next, name)
	}
}

func TestExplainWhatIsNotThereAnyMore(t *testing.T) {
	t.Parallel()
	d, f, _ := boxDoor(t)
	_, lines := d.explained("t-1")
	require.Equal(t, "delivery delivery d-1 was message 12 of WEBHOOKS", lines[0], "purged from the log")

	r := record("t-1")
	r.Tombstone = true
	f.records["t-1"], f.deliveries = r, []kv.Logged{told()}
	steps, lines := d.explained("t-1")
	require.Len(t, lines, 3)
	require.Contains(t, lines[2], "only a tombstone")
	require.Contains(t, d.get(d.base+"/api/github/explain/t-1").text, `"tasks":[]`)
	require.Contains(t, steps[2].Why, "task_retention_days")
	_, again := d.explained("d-1")
	require.Equal(t, lines, again)

	delete(f.records, "t-1")
	_, lines = d.explained("d-1")
	require.Equal(t, "admission received, and not admitted yet", lines[2])
}

func TestExplainADeliveryOfTwoHooksAndAnIgnoredOne(t *testing.T) {
	t.Parallel()
	d, f, _ := boxDoor(t)
	other := told()
	other.Seq, other.HookID, other.Task, other.Routing = 13, "78", nil, task.Ignored(task.Unroutable)
	f.deliveries = []kv.Logged{other, told()}
	steps, lines := d.explained("d-1")
	require.Contains(t, lines[0], "hook 78")
	require.Equal(t, "routing ignored: unroutable", lines[1])
	require.Contains(t, steps[1].Next, "belay config print")
	require.Contains(t, lines[2], "hook 77")
}

// DT-99: to who may not see it, it does not exist.
func TestDT99ExplainStaysInTheScope(t *testing.T) {
	t.Parallel()
	d, f, _ := boxDoor(t)
	f.deliveries = []kv.Logged{told()}
	as := func(sc Scope, id string) *httptest.ResponseRecorder {
		r, err := http.NewRequestWithContext(context.WithValue(t.Context(), callerKey{}, Caller{Name: "tenant", Scope: sc}), http.MethodGet, "/explain/"+id, http.NoBody)
		require.NoError(t, err)
		return serve(d.scoped(), r)
	}
	seven, eight := int64(7), int64(8)
	unknown := as(Scope{Installation: &eight}, "nix")
	require.Equal(t, http.StatusNotFound, unknown.Code)
	for _, sc := range []Scope{{Installation: &eight}, {Installation: &seven, Repos: []string{"acme/other"}}} {
		for _, id := range []string{"t-1", "d-1"} {
			got := as(sc, id)
			require.Equal(t, http.StatusNotFound, got.Code)
			require.Equal(t, unknown.Body.String(), got.Body.String())
		}
	}
	require.Equal(t, http.StatusOK, as(Scope{Installation: &seven, Repos: []string{"acme/api"}}, "t-1").Code)
	require.Equal(t, http.StatusOK, as(Scope{Installation: &seven}, "d-1").Code)
	require.Equal(t, http.StatusNotFound, as(Scope{}, "a%20b").Code)
}

func TestExplainHasWordsForEverything(t *testing.T) {
	t.Parallel()
	require.Len(t, ignored, len(task.Reasons))
	for _, r := range task.Reasons {
		require.NotEmpty(t, ignored[r].why, r)
	}
	for _, w := range view.Waits {
		require.NotEmpty(t, waits[w], w)
	}
	require.Len(t, outcomes, len(task.Outcomes))
	for _, o := range task.Outcomes {
		require.NotEmpty(t, outcomes[o], o)
	}
	lanes := map[string]kv.Logged{}
	for name, change := range map[string]func(*kv.Logged){
		"assigned to familiar cody": func(l *kv.Logged) { l.Event, l.Action = "issues", "assigned" },
		"label is one that calls":   func(l *kv.Logged) { l.Event, l.Action = "issues", "labeled" },
		"a comment by ann begins with a command to familiar cody: review": func(l *kv.Logged) {
			l.Event, l.Action, l.Task.Commander, l.Task.Kind.Reason = "issue_comment", "created", "ann", "command:review"
		},
	} {
		l := told()
		change(&l)
		require.Contains(t, routed(&l), name)
		lanes[name] = l
	}
	require.Len(t, lanes, 3)
}
