package app

import (
	"crypto/sha256"
	"strconv"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv/task"
)

// routing is what the webhook door of a source needs of the configuration.
func routing(c *config.Config, src config.NamedSource) *github.Config {
	out := &github.Config{
		Source: src.Name, AppConfigured: src.AppID != 0, AppID: src.AppID,
		ReviewFamiliar: c.Review.Familiar, ReviewPullRequest: c.Review.PullRequest,
		IncludeDrafts: c.Review.IncludeDrafts, Lanes: github.AllLanes, DedupeDays: c.Storage.DedupeDays,
		SurfacesReady: src.AppID != 0, // its key is where it is used
	}
	for _, f := range c.Familiars {
		out.Familiars = append(out.Familiars, routedFamiliar(f))
	}
	out.Installations = installations(c)
	for _, r := range c.Rules {
		out.Rules = append(out.Rules, github.Rule{
			Name: r.Name, Event: r.Event, Actions: r.Actions, Repos: r.Repos, Branches: r.Branches, Labels: r.Labels,
			Kind: task.KindName(r.Kind), Familiar: r.Familiar, Supersede: task.Supersede(r.Supersede), Once: r.ReplayGuard,
		})
	}
	return out
}

func routedFamiliar(f config.Familiar) github.Familiar {
	return github.Familiar{ID: f.ID, DisplayName: f.DisplayName, BotUsername: f.BotUsername, TriggerLabels: f.TriggerLabels}
}

// installations are what those that are listed may use, nil if none is.
func installations(c *config.Config) map[int64]*github.Installation {
	if len(c.Installations) == 0 {
		return nil
	}
	out := make(map[int64]*github.Installation, len(c.Installations))
	for _, in := range c.Installations {
		t := in.Triggers
		g := &github.Installation{
			Lanes: github.Lanes{Assignment: t.Assignments, Label: t.Labels, Command: t.Commands}, Reviews: t.Reviews,
			Allow: in.Repos.Allow, Deny: in.Repos.Deny,
		}
		for _, id := range in.Familiars {
			if f, ok := c.FamiliarByID(id); ok {
				g.Familiars = append(g.Familiars, routedFamiliar(f))
			}
		}
		if len(in.Familiars) == 0 {
			for _, f := range c.Familiars {
				g.Familiars = append(g.Familiars, routedFamiliar(f))
			}
		}
		out[in.ID] = g
	}
	return out
}

// secrets names the webhook secrets of a source by their place, the newest first.
func secrets(src config.NamedSource) []github.Secret {
	out := make([]github.Secret, len(src.WebhookSecrets))
	for i, s := range src.WebhookSecrets {
		out[i] = github.NewSecret(strconv.Itoa(i), []byte(s.Reveal()))
	}
	return out
}

func access(c *config.Config) ingest.Access {
	a := ingest.Access{Mode: c.API.Mode}
	if s := c.API.ServiceToken.Reveal(); s != "" {
		a.ServiceToken = sha256.Sum256([]byte(s))
	}
	for _, t := range c.API.Tenants {
		a.Tenants = append(a.Tenants, ingest.Tenant{
			Name: t.Name, Token: sha256.Sum256([]byte(t.Token.Reveal())),
			Scope: ingest.Scope{Installation: &t.InstallationID, Repos: t.Repos},
		})
	}
	return a
}

// signers are the keys that sign requests of operators.
func signers(c *config.Config) []ingest.OperatorKey {
	out := make([]ingest.OperatorKey, len(c.Operator.Keys))
	for i, k := range c.Operator.Keys {
		out[i] = ingest.OperatorKey{ID: k.ID, Secret: []byte(k.Secret.Reveal())}
	}
	return out
}

func reviewPolicy(c *config.Config) consumers.ReviewPolicy {
	return consumers.ReviewPolicy{OnSupersede: consumers.Supersede(c.Review.OnSupersede), AuditInstruction: c.Review.AuditInstruction}
}

// familiar is how the worker runs a familiar's tasks.
func familiar(c *config.Config, id string) (executor.Familiar, bool) {
	f, ok := c.FamiliarByID(id)
	if !ok {
		return executor.Familiar{}, false
	}
	env := make(map[string]string, len(f.Env))
	for k, v := range f.Env {
		env[k] = v.Reveal()
	}
	return executor.Familiar{
		ID: f.ID, DisplayName: f.DisplayName, Model: f.Model, Skills: f.Skills, Command: f.Command,
		Env: env, Timeout: f.Timeout,
	}, true
}

func familiarIDs(c *config.Config) []string {
	out := make([]string, len(c.Familiars))
	for i, f := range c.Familiars {
		out[i] = f.ID
	}
	return out
}
