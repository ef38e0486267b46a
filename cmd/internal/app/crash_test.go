package app

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestKillAtEveryPoint is the matrix of kill -9: wherever the process dies,
// after its restart the delivery has one task, which runs to its end, and an
// attempt that had begun is closed as interrupted.
func TestKillAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		point       string
		interrupted bool
	}{
		{"before publish", false},
		{"after publish", false},
		{"before create seen", false},
		{"after create seen", false},
		{"before create supersede", false},
		{"after create supersede", false},
		{"before create task", false},
		{"after create task", false},
		{"picked", false},
		{"claiming", false},
		{"after update task", true}, // the claim
		{"claimed", true},
		{"ending", true},
		{"ended", false},
	} {
		t.Run(tt.point, func(t *testing.T) {
			t.Parallel()
			j := job{Dir: t.TempDir(), Name: "w", Concurrency: 1, MaxRetries: 2, Drain: time.Second, Beat: time.Second}
			r := rigOf(t, j.Dir)
			doomed := j
			doomed.Point = tt.point
			c := spawn(t, doomed)
			r.speakTo(c)
			id, body := uuid.NewString(), pull(3, "a1", "", 1)
			// The process may die before it answers: admission is quick.
			first, _ := r.tryPost("pull_request", id, body)
			c.wait()

			c = spawn(t, j)
			r.speakTo(c)
			again := r.post("pull_request", id, body)
			require.Equal(t, http.StatusOK, again.status, again.body)
			taskID := again.text("task")
			if first.status == http.StatusOK {
				require.Equal(t, true, again.field("duplicate"))
				require.Equal(t, first.text("task"), taskID)
			}
			got := r.await(taskID, "done")
			require.Len(t, r.list(10), 1)
			want := []string{"completed"}
			if tt.interrupted {
				want = []string{"interrupted", "completed"}
			}
			var outcomes []string
			for _, a := range got.Attempts {
				outcomes = append(outcomes, a.Outcome)
			}
			require.Equal(t, want, outcomes)
		})
	}
}

// TestKillBetweenTheStepsOfASupersession: the newer review holds, the older
// one never runs beside it.
func TestKillBetweenTheStepsOfASupersession(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before update supersede", "after update supersede", "before update task", "after update task"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			j := job{Dir: t.TempDir(), Name: "w", Concurrency: 1, MaxRetries: 2, Drain: time.Second, Beat: time.Second}
			r := rigOf(t, j.Dir)
			c := spawn(t, j)
			r.speakTo(c)
			r.control("pause") // both are queued when the newer one comes
			older := r.post("pull_request", uuid.NewString(), pull(3, "a1", "", 1)).text("task")
			r.await(older, "queued")
			c.kill()

			doomed := j
			doomed.Point = point
			c = spawn(t, doomed)
			r.speakTo(c)
			id, body := uuid.NewString(), pull(3, "a2", "a1", 2)
			_, _ = r.tryPost("pull_request", id, body) // admission may be quicker than the answer
			c.wait()

			c = spawn(t, j)
			r.speakTo(c)
			newer := r.post("pull_request", id, body).text("task")
			r.await(newer, "queued") // admitted, whoever did it
			r.control("resume")
			r.await(newer, "done")
			r.await(older, "superseded")
			require.Len(t, r.list(10), 2)
			require.Empty(t, r.task(older).Attempts)
		})
	}
}

// control pauses or resumes claims.
func (r *rig) control(verb string) {
	r.t.Helper()
	a := r.do(http.MethodPost, r.app.URL()+"/api/control/"+verb, "{}", "Content-Type", "application/json")
	require.Equal(r.t, http.StatusOK, a.status, a.body)
}

// pull is the payload of a push to a pull request; at orders them.
func pull(number int, head, before string, at int) string {
	sha := func(s string) string { return fmt.Sprintf("%040s", s) }
	action := "opened"
	if before != "" {
		action = "synchronize"
	}
	when := time.Now().UTC().Truncate(time.Second).Add(time.Duration(at) * time.Second).Format(time.RFC3339)
	return fmt.Sprintf(`{"action":%q,"number":%d,"before":%q,"after":%q,"installation":{"id":7},`+
		`"repository":{"id":99,"name":"api","full_name":"acme/api","default_branch":"main","owner":{"login":"acme"}},`+
		`"sender":{"login":"octocat"},"pull_request":{"number":%d,"title":"PR","draft":false,"updated_at":%q,`+
		`"user":{"login":"octocat"},"head":{"sha":%q,"ref":"f","repo":{"id":99}},"base":{"ref":"main","repo":{"id":99}}}}`,
		action, number, sha(before), sha(head), number, when, sha(head))
}
