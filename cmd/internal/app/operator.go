package app

import (
	"context"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
)

// tenancy answers from the configuration whose a repository is.
type tenancy struct{ a *App }

// RepoTenant implements kv.Tenancy.
func (t tenancy) RepoTenant(_ context.Context, repo string) (string, error) {
	return t.a.conf().Operator.RepoTenant(repo)
}

// opensEvents reports whether this process has to do with operator tasks: it
// answers the signed routes, or creates the issues.
func opensEvents(c *config.Config) bool {
	return c.Operator.Repo != "" && (c.Relays() || c.Ingests() && len(c.Operator.Keys) > 0)
}

// openEvents binds the store of operator tasks, where a repository is
// configured for them.
func (a *App) openEvents(ctx context.Context) error {
	c := a.o.Config.Operator
	if !opensEvents(a.o.Config) {
		return nil
	}
	var err error
	a.events, err = kv.OpenEventStore(ctx, a.js, kv.EventStoreOptions{Repo: c.Repo, Tenancy: tenancy{a}, Now: a.o.Now})
	if err != nil {
		return err
	}
	a.events.Hooks = a.o.StoreHooks
	return nil
}
