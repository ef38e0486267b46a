package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

// propose proposes and confirms a request; its process may die meanwhile.
func (r *rig) approve(id string) {
	r.t.Helper()
	status, _ := r.operate("POST", tasksPath, `{"requestId":"`+id+`","title":"Fix the door","body":"It squeaks."}`)
	require.Equal(r.t, 201, status)
	path, body := tasksPath+"/"+id+"/confirm", `{"revision":1}`
	_, _ = r.try("POST", r.app.URL()+path, body, signedHeaders("POST", path, body, uuid.NewString())...)
}

// request is where a request stands.
func (r *rig) request(id string) operator.State {
	r.t.Helper()
	status, got := r.operate("GET", tasksPath+"/"+id, "")
	require.Equal(r.t, 200, status)
	return operator.State(got.Task.State)
}

func (r *rig) awaitRequest(id string, s operator.State) {
	r.t.Helper()
	natstest.Eventually(r.t, "request to be "+string(s), func() bool { return r.request(id) == s })
}

// TestOT88ARequestBecomesAnIssueAndWork: from the signed proposal to the
// callback; the issue's label makes it a task of the ordinary kind, though
// the App itself labelled it.
func TestOT88ARequestBecomesAnIssueAndWork(t *testing.T) {
	t.Parallel()
	gh, rc := stand(t), newReceiver(t)
	r := newRig(t, onGitHub(gh), operating, calling(rc), func(r *rig) {
		r.cfg.Operator.Callback, r.cfg.Operator.Labels, r.cfg.Familiars[0].Callback = "ci", []string{"bug"}, ""
	})
	r.command(fixes)
	r.start()
	id := uuid.NewString()
	r.approve(id)
	r.awaitRequest(id, operator.StateDelivered)
	rc.awaits("operator-" + id + " run.belay.operator.submitted")
	issues := gh.Issues(99)
	made := issues[len(issues)-1]
	require.Equal(t, []string{"bug"}, made.Labels)
	require.Equal(t, 1, gh.Requests(githubtest.OpCreateIssue))
	for _, line := range []string{`belay_operator_requests{state="delivered"} 1`, `belay_operator_posts_total{outcome="created"} 1`} {
		natstest.Eventually(t, line, func() bool { return strings.Contains(r.do("GET", r.app.AdminURL()+"/metrics", "").body, line) })
	}
	require.Equal(t, 200, r.do("GET", r.app.AdminURL()+"/readyz", "").status)

	natstest.Eventually(t, "the App's login", func() bool { return r.app.source("default").Config.AppLogin != "" })
	event := func(number int, body string) string {
		return fmt.Sprintf(`{"action":"labeled","label":{"name":"bug"},"installation":{"id":7},`+
			`"repository":{"id":99,"name":"api","full_name":"acme/api","default_branch":"main","owner":{"login":"acme"}},`+
			`"sender":{"login":%q},"issue":{"number":%d,"title":"t","body":%q,"user":{"login":%[1]q},"updated_at":%[4]q}}`,
			gh.Login(), number, body, time.Now().UTC().Format(time.RFC3339Nano))
	}
	require.Equal(t, "self", r.post("issues", uuid.NewString(), event(1, "It squeaks.")).text("ignored"))
	run := r.post("issues", uuid.NewString(), event(made.Number, made.Body)).text("task")
	require.NotEmpty(t, run)
	r.await(run, "review")
	rec, _, err := r.app.store.Get(t.Context(), 7, task.ID(run))
	require.NoError(t, err)
	require.Equal(t, id, rec.Operator.RequestID)
	require.Equal(t, "invotek", rec.Operator.Tenant)

	// OT-92: what the task opened is held until exactly its head is released.
	release := func() (out string) {
		for _, k := range gh.Checks(99) {
			if k.Name == consumers.ReleaseCheck && k.HeadSHA == githubtest.SHA("fix") {
				out = k.Conclusion
			}
		}
		return out
	}
	natstest.Eventually(t, "the pull request to be held", func() bool { return release() == "action_required" })
	r.restart()
	body := fmt.Sprintf(`{"number":%d,"head":%q}`, rec.PRNumber, githubtest.SHA("fix"))
	status, _ := r.operate("POST", tasksPath+"/"+id+"/release", body)
	require.Equal(t, 200, status)
	natstest.Eventually(t, "the pull request to be released", func() bool { return release() == "success" })
	require.Equal(t, 1, gh.Requests(githubtest.OpCreateIssue))
}

// TestOT19KillAtEveryStepOfAnAttempt is the matrix of kill -9 over the life
// of a request: one POST and one callback at the most, and exactly one of each
// if nothing was lost before it.
func TestOT19KillAtEveryStepOfAnAttempt(t *testing.T) {
	t.Parallel()
	for point, posts := range map[string]int{
		"before append approved": 1, "after append approved": 1, "before append attempt_started": 1, "after append attempt_started": 0,
		"posted": 1, "before append submitted": 1, "after append submitted": 1, "before create outbox.operator": 1,
		"after create outbox.operator": 1, "before append delivered": 1, "after append delivered": 1,
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			gh, rc := stand(t), newReceiver(t)
			j := onStand(t, gh)
			j.CallbackURL = rc.srv.URL + "/hook"
			r := rigOf(t, j.Dir)
			doomed := j
			doomed.Point = point
			c := spawn(t, doomed)
			r.speakTo(c)
			id := uuid.NewString()
			r.approve(id)
			c.wait()

			again := spawn(t, j)
			r.speakTo(again)
			if r.request(id) == operator.StateProposed {
				status, _ := r.operate("POST", tasksPath+"/"+id+"/confirm", `{"revision":1}`)
				require.Equal(t, 200, status)
			}
			if strings.HasSuffix(point, "attempt_started") && posts == 0 || point == "posted" || point == "before append submitted" {
				require.Equal(t, operator.StateAttempting, r.request(id), "its lease is the dead one's")
				again.kill()
				j.Ahead = operator.AttemptLease + time.Minute
				r.ahead = j.Ahead
				r.speakTo(spawn(t, j))
			}
			if posts == 0 {
				r.awaitRequest(id, operator.StateUnknown)
			} else {
				r.awaitRequest(id, operator.StateDelivered)
				rc.awaits("operator-" + id + " run.belay.operator.submitted")
			}
			require.Equal(t, posts, gh.Requests(githubtest.OpCreateIssue))
		})
	}
}
