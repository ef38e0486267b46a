package github

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// TestOT94AnOperatorsIssueIsWorkThoughItIsOurOwn: the exemption from
// ignored:self is of issues events of issues that the App made and marked.
func TestOT94AnOperatorsIssueIsWorkThoughItIsOurOwn(t *testing.T) {
	t.Parallel()
	want := &task.Operator{Tenant: "invotek", RequestID: "r1", AttemptID: "a1"}
	cfg := config()
	cfg.Operator = func(repoID int64, body string) *task.Operator {
		if repoID == 4711 && body == "signed" {
			return want
		}
		return nil
	}
	ours := with(issue(), object{"body": "signed", "user": account("ourapp[bot]")})
	labeled := func(issue, more object) object {
		return with(with(issuesEvent("labeled"), object{"label": object{"name": "cody"}, "sender": account("ourapp[bot]"), "issue": issue}), more)
	}
	require.Equal(t, want, requireTask(t, routed(t, cfg, "issues", labeled(ours, nil))).Operator)
	byApp := with(ours, object{"user": account("else[bot]"), "performed_via_github_app": object{"id": 99}})
	require.Equal(t, want, requireTask(t, routed(t, cfg, "issues", labeled(byApp, nil))).Operator)
	mona := object{"sender": account("mona")}
	require.Equal(t, want, requireTask(t, routed(t, cfg, "issues", labeled(ours, mona))).Operator, "whoever labels it")

	for name, i := range map[string]object{
		"not marked":         with(ours, object{"body": "Badly."}),
		"copied by a person": with(ours, object{"user": account("mallory")}),
		"of another App":     with(ours, object{"user": account("else[bot]"), "performed_via_github_app": object{"id": 98}}),
		"a pull request":     with(ours, object{"pull_request": object{}}),
	} {
		requireIgnored(t, task.Self, routed(t, cfg, "issues", labeled(i, nil)))
		d := routed(t, cfg, "issues", labeled(i, mona))
		if name != "a pull request" {
			require.Nil(t, requireTask(t, d).Operator, name)
		}
	}
	elsewhere := object{"repository": object{"id": 1, "full_name": "acme/other"}}
	requireIgnored(t, task.Self, routed(t, cfg, "issues", labeled(ours, elsewhere)))
	cfg.Operator = nil
	requireIgnored(t, task.Self, routed(t, cfg, "issues", labeled(ours, nil)))
	require.Nil(t, requireTask(t, routed(t, cfg, "issues", labeled(ours, mona))).Operator)

	cfg.Operator = func(int64, string) *task.Operator { return want }
	self := with(base("created"), object{"issue": ours, "comment": commentBy("ourapp[bot]", "@cody fix it"), "sender": account("ourapp[bot]")})
	requireIgnored(t, task.Self, routed(t, cfg, "issue_comment", self))
	command := with(base("created"), object{"issue": ours, "comment": commentBy("mona", "@cody fix it"), "sender": account("mona")})
	cfg.SurfacesReady = true
	require.Equal(t, want, requireTask(t, routed(t, cfg, "issue_comment", command)).Operator, "a command on it is the request's too")
}
