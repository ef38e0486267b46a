package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv/task"
)

// Rule makes tasks of events that belay makes none of by itself; the first
// that matches wins. An empty list matches everything.
type Rule struct {
	// Name stands in the task, its title and its check run.
	Name string `toml:"name"`
	// Event is GitHub's name of it, as in X-GitHub-Event.
	Event   string   `toml:"event"`
	Actions []string `toml:"actions"`
	// Repos and Branches are patterns of path.Match: `*` stops at a slash.
	Repos    []string `toml:"repos"`
	Labels   []string `toml:"labels"`
	Branches []string `toml:"branches"`
	// Kind is that of the task.
	Kind string `toml:"kind" default:"custom" enum:"custom,fix_issue,review_pull_request"`
	// Familiar is the id of the one that works; the first by default.
	Familiar string `toml:"familiar"`
	// Supersede says of which of the rule's queued tasks only the newest runs.
	Supersede string `toml:"supersede" default:"none" enum:"none,branch,pull"`
	// ReplayGuard takes the same body under another delivery id for a replay;
	// by default on where GitHub's bodies name one occurrence.
	ReplayGuard bool `toml:"replay_guard"`
}

// MaxRules is how many rules there may be (X04).
const MaxRules = 64

// What GitHub's events are of. Those that are on no list are not known to lack
// anything.
var (
	eventName     = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	withoutAction = []string{
		"create", "delete", "fork", "gollum", "page_build", "public", "push", "status", "team_add", "workflow_dispatch",
	}
	withoutRepo = []string{
		"custom_property", "github_app_authorization", "installation", "installation_repositories", "installation_target",
		"marketplace_purchase", "membership", "org_block", "organization", "personal_access_token_request", "projects_v2",
		"projects_v2_item", "projects_v2_status_update", "security_advisory", "sponsorship",
	}
	withPull = []string{
		"pull_request", "pull_request_review", "pull_request_review_comment", "pull_request_review_thread",
	}
	withIssue  = []string{"issues", "issue_comment"}
	withBranch = append([]string{
		"check_run", "check_suite", "create", "delete", "deployment", "deployment_status", "merge_group", "push", "release",
		"repository_dispatch", "workflow_dispatch", "workflow_job", "workflow_run",
	}, withPull...)
	withLabel = append(append([]string{"discussion", "label", "workflow_job"}, withPull...), withIssue...)
)

// known reports whether GitHub documents the event.
func known(event string) bool { return github.EventLabel(event) != github.Other }

func (c *Config) validateRules(p *problems) {
	if n := len(c.Rules); n > MaxRules {
		p.add("rules", "", fmt.Sprintf("there are %d, and %d are possible", n, MaxRules),
			"join rules of one event: actions, repos, labels and branches are lists, and repos and branches take patterns")
		return
	}
	names := map[string]int{}
	for i, r := range c.Rules {
		key := listKey("rules", i)
		if !p.ok(key) {
			continue
		}
		checkName(p, key+".name", r.Name, nameForm, `write letters, digits, - and _, such as "deploy"`, names, i)
		if p.ok(key+".event") && r.validateEvent(p, key+".event") {
			r.validateMatches(p, key)
			r.validateKind(p, key)
		}
		c.checkFamiliar(p, key+".familiar", r.Familiar)
	}
}

// checkFamiliar refuses the id of a familiar that there is not.
func (c *Config) checkFamiliar(p *problems, key, id string) {
	if _, ok := c.FamiliarByID(id); id == "" || ok || !p.ok(key, "familiars") {
		return
	}
	ids := make([]string, len(c.Familiars))
	for i, f := range c.Familiars {
		ids[i] = f.ID
	}
	p.add(key, quote(id), "is not a familiar", "write one of: "+strings.Join(ids, ", "))
}

// validateEvent reports whether the event is one that a rule can route.
func (r Rule) validateEvent(p *problems, key string) bool {
	const next = `write the name that GitHub sends in X-GitHub-Event, such as "push"`
	near, distant := github.NearestEvent(r.Event, distance)
	switch {
	case r.Event == "":
		p.add(key, "", "is not set", next)
	case !eventName.MatchString(r.Event):
		p.add(key, quote(r.Event), "is not the name of an event", next)
	case r.Event == "ping":
		p.add(key, quote(r.Event), "is GitHub's test of the webhook, which is always answered", "remove the rule")
	case slices.Contains(withoutRepo, r.Event):
		p.add(key, quote(r.Event), "is of no repository, so no task can be made of it", "route an event of a repository")
	case !known(r.Event) && distant <= 2:
		p.add(key, quote(r.Event), "is not an event of GitHub", "did you mean "+near+"?")
	default:
		return true
	}
	return false
}

// validateMatches checks the lists.
func (r Rule) validateMatches(p *problems, key string) {
	for _, l := range []struct {
		name string
		list []string
		of   []string // events that have it
	}{
		{"actions", r.Actions, nil}, {"repos", r.Repos, nil}, {"labels", r.Labels, withLabel}, {"branches", r.Branches, withBranch},
	} {
		if !p.ok(key + "." + l.name) {
			continue
		}
		if slices.Contains(l.list, "") {
			p.add(key+"."+l.name, "", "has an empty string", "remove it; an empty list matches everything")
		} else if len(l.list) > 0 && l.of != nil && known(r.Event) && !slices.Contains(l.of, r.Event) {
			p.add(key+"."+l.name, "", "would never match: "+r.Event+" has none", "remove it")
		}
	}
	if len(r.Actions) > 0 && slices.Contains(withoutAction, r.Event) && p.ok(key+".actions") {
		p.add(key+".actions", "", "would never match: "+r.Event+" has none", "remove it")
	}
	for _, repo := range r.Repos {
		if _, err := path.Match(repo, ""); p.ok(key+".repos") && (err != nil || strings.Count(repo, "/") != 1) {
			p.add(key+".repos", quote(repo), "is not a repository or a pattern of some", `write "owner/name" or "owner/*"; * stops at the slash`)
		}
	}
	for _, branch := range r.Branches {
		_, err := path.Match(branch, "")
		switch {
		case !p.ok(key + ".branches"):
		case err != nil:
			p.add(key+".branches", quote(branch), "is not a pattern", `write a name, or a pattern such as "release/*"; * stops at a slash`)
		case strings.HasPrefix(branch, "refs/"):
			p.add(key+".branches", quote(branch), "is a full ref", "write the branch alone: "+strconv.Quote(strings.TrimPrefix(branch, "refs/heads/")))
		}
	}
}

// validateKind checks that the event has what the kind and the groups are of.
func (r Rule) validateKind(p *problems, key string) {
	review := task.KindName(r.Kind) == task.ReviewPullRequest
	switch {
	case !p.ok(key + ".kind"):
	case task.KindName(r.Kind) == task.FixIssue && !slices.Contains(withIssue, r.Event):
		p.add(key+".kind", quote(r.Kind), "needs an issue, and "+r.Event+" has none", `write "custom", or route issues`)
	case review && !slices.Contains(withPull, r.Event):
		p.add(key+".kind", quote(r.Kind), "needs a pull request, and "+r.Event+" has none", `write "custom", or route pull_request`)
	}
	s := task.Supersede(r.Supersede)
	switch {
	case !p.ok(key + ".supersede"):
	case review && s == task.SupersedeBranch:
		p.add(key+".supersede", quote(r.Supersede), "is not for reviews: the newest of a pull request always supersedes", "remove it")
	case s == task.SupersedeBranch && known(r.Event) && !slices.Contains(withBranch, r.Event):
		p.add(key+".supersede", quote(r.Supersede), "needs a branch, and "+r.Event+" has none", "remove it")
	case s == task.SupersedePull && known(r.Event) && !slices.Contains(withPull, r.Event) && r.Event != "issue_comment":
		p.add(key+".supersede", quote(r.Supersede), "needs a pull request, and "+r.Event+" has none", `write "branch", or remove it`)
	}
}

// deriveRules fills what rules have by default of other keys.
func (c *Config) deriveRules() {
	for i := range c.Rules {
		r := &c.Rules[i]
		if r.Familiar == "" && len(c.Familiars) > 0 {
			r.Familiar = c.Familiars[0].ID
		}
		if c.Origin(listKey("rules", i)+".replay_guard") == OriginDefault {
			r.ReplayGuard = github.Once(r.Event)
		}
	}
}
