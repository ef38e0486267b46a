package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
)

// A push to main becomes a task of the rule, whose command gets the event as it
// is in the brief; other branches and deletions stay ignored.
func TestARuleRunsACommandOnEveryPushToMain(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.command(`cp "$1" "$3/seen.json"; ` + succeed)
		r.cfg.Rules = []config.Rule{{
			Name: "deploy", Event: "push", Branches: []string{"main"}, Kind: "custom", Familiar: r.cfg.Familiars[0].ID, Supersede: "branch",
		}}
	}).start()
	sha := strings.Repeat("a", 40)
	push := `{"ref":"refs/heads/main","after":"` + sha + `","head_commit":{"message":"Mend the door\n\nx"},` +
		`"installation":{"id":7},"repository":{"id":99,"full_name":"acme/api","clone_url":"https://github.com/acme/api.git","default_branch":"main"}}`
	id := r.post("push", uuid.NewString(), push).text("task")
	require.NotEmpty(t, id)
	r.await(id, "done")
	item := r.get("/api/github/tasks/" + id)
	require.Equal(t, "deploy: Mend the door", item.field("task").(map[string]any)["issueTitle"])
	b, err := os.ReadFile(filepath.Join(r.dir, "seen.json"))
	require.NoError(t, err)
	var brief struct {
		Trigger string
		Task    json.RawMessage
	}
	require.NoError(t, json.Unmarshal(b, &brief))
	require.Equal(t, "issue_mention", brief.Trigger)
	require.JSONEq(t, `{"kind":"custom","name":"deploy","event":"push","ref":"refs/heads/main","after":"`+sha+`","sha":"`+sha+`","title":"Mend the door"}`, string(brief.Task))

	other := strings.Replace(push, "heads/main", "heads/next", 1)
	require.Equal(t, "unroutable", r.post("push", uuid.NewString(), other).text("ignored"))
	gone := strings.Replace(push, `"after"`, `"deleted":true,"after"`, 1)
	require.Equal(t, "ref_deleted", r.post("push", uuid.NewString(), gone).text("ignored"))
}
