package github

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func TestTooOld(t *testing.T) {
	t.Parallel()
	limit := now.AddDate(0, 0, -365)
	at := func(d time.Duration) string { return limit.Add(d).Format(time.RFC3339) }
	older, newer := at(-time.Minute), at(time.Minute)
	review := func(s string) object {
		p := with(pull(), object{"updated_at": older})
		return with(pullEvent("submitted"), object{"pull_request": p, "review": with(commentBy("mona", "@cody status"), object{"submitted_at": s})})
	}
	comment := func(s string) object {
		c := with(commentBy("mona", "@cody status"), object{"updated_at": s})
		return with(base("created"), object{"issue": with(issue(), object{"updated_at": older}), "comment": c})
	}
	pushed := func(pushed any, commit string) object {
		return with(base(""), object{"repository": object{"id": 1, "pushed_at": pushed}, "head_commit": object{"timestamp": commit}})
	}
	for _, tt := range []struct {
		name, event string
		payload     object
		old         bool
	}{
		{"pull request", "pull_request", with(pullEvent("opened"), object{"pull_request": with(pull(), object{"updated_at": older})}), true},
		{"fresh pull request", "pull_request", with(pullEvent("opened"), object{"pull_request": with(pull(), object{"updated_at": newer})}), false},
		{"issue", "issues", with(issuesEvent("assigned"), object{"issue": with(issue(), object{"updated_at": older})}), true},
		{"comment", "issue_comment", comment(older), true},
		{"fresh comment on an old issue", "issue_comment", comment(newer), false},
		{"review", "pull_request_review", review(older), true},
		{"fresh review", "pull_request_review", review(newer), false},
		{"push", "push", pushed(limit.Unix()-60, newer), true},
		{"push of an old commit", "push", pushed(limit.Unix()+60, older), false},
		{"commit alone", "push", pushed(nil, older), true},
		{"no time at all", "pull_request", with(pullEvent("opened"), object{"pull_request": with(pull(), object{"updated_at": nil}), "repository": object{"id": 1}}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := routed(t, config(), tt.event, tt.payload)
			require.Equal(t, tt.old, d.Routing == task.Ignored(task.TooOld), "%s", d.Routing)
			cfg := config()
			cfg.StoreSince = limit.Add(time.Hour)
			require.NotEqual(t, task.Ignored(task.TooOld), routed(t, cfg, tt.event, tt.payload).Routing, "a young log has forgotten nothing")
			cfg.DedupeDays = 0
			require.NotEqual(t, task.Ignored(task.TooOld), routed(t, cfg, tt.event, tt.payload).Routing)
		})
	}
}

// TestPrecedence tries every combination of conditions on every shape of
// event and expects the first reason of task.Reasons among those that hold.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	shapes := map[task.Reason]struct {
		event   string
		payload object
	}{
		task.Ping:                {"ping", base("created")},
		task.UnsupportedEvent:    {"star", base("created")},
		task.UnsupportedAction:   {"issues", issuesEvent("pinned")},
		task.RefDeleted:          {"push", with(base(""), object{"deleted": true})},
		task.Closed:              {"pull_request", pullEvent("closed")},
		task.InstallationDeleted: {"installation", base("deleted")},
		task.Unroutable:          {"issues", issuesEvent("labeled")},
		"":                       {"issue_comment", issueCommentEvent(true, "@cody review")},
	}
	for shape, s := range shapes {
		for set := range 1 << 7 {
			c := conditions{shape: shape, set: set, event: s.event, payload: s.payload}
			cfg, h, at, holds := c.apply()
			d := Route(cfg, h, decode(t, s.event, c.payload), at)
			want := slices.IndexFunc(task.Reasons, func(r task.Reason) bool { return slices.Contains(holds, r) })
			name := fmt.Sprintf("%q with %07b holds %v", shape, set, holds)
			if want < 0 {
				require.NotNil(t, d.Task, name)
				continue
			}
			require.Equal(t, task.Ignored(task.Reasons[want]), d.Routing, name)
		}
	}
}

// conditions is one shape of event and the set of what else is the case.
type conditions struct {
	shape   task.Reason
	set     int
	event   string
	payload object
}

// apply brings the set about and returns the reasons that then hold.
func (c *conditions) apply() (cfg *Config, h Headers, at time.Time, holds []task.Reason) {
	cfg, h, at, holds = config(), Headers{Event: c.event, Delivery: "g"}, now, []task.Reason{c.shape}
	on := func(i int) bool { return c.set>>i&1 == 1 }
	forTasks := func(r task.Reason) {
		if c.shape == "" {
			holds = append(holds, r)
		}
	}
	if on(0) {
		h.TargetType, h.TargetID = "integration", "1"
		holds = append(holds, task.ForeignApp)
	}
	if on(1) {
		c.payload = with(c.payload, object{"sender": account("ourapp[bot]")})
		holds = append(holds, task.Self)
	}
	if on(2) && c.event != "installation" {
		c.payload = with(c.payload, object{"installation": nil})
		if !on(4) { // what is switched off routes to no task
			forTasks(task.NoInstallation)
		}
	}
	if on(3) {
		at = now.AddDate(2, 0, 0)
		holds = append(holds, task.TooOld)
	}
	if on(4) {
		cfg.Lanes = Lanes{}
		forTasks(task.Scope)
	}
	if on(5) {
		cfg.SurfacesReady = false
		forTasks(task.NoGitHubApp)
	}
	if on(6) {
		cfg.Installations = map[int64]*Installation{11: {Lanes: AllLanes}}
		holds = append(holds, task.Scope)
	}
	return cfg, h, at, holds
}
