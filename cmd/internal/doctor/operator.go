package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
)

// operator checks what operator tasks need.
func (d *doctor) operator() {
	o := d.c.Operator
	if len(o.Keys) == 0 && (o.Repo != "" || o.Callback != "" || len(o.Tenants) > 0) {
		d.warn("operator.keys", "there is none: operator tasks are blocked, each request is answered 503", "add [[operator.keys]] with id and secret_file")
	}
	if len(o.Keys) > 0 && !d.c.GitHub.HasApp() {
		d.warn("operator.repo", "there is no GitHub App: operator tasks are taken and confirmed, but no issue is created", "set app_id and private_key_file under [github]")
	}
	for i, k := range o.Keys {
		field := fmt.Sprintf("operator.keys[%d]", i)
		d.secret(field+".secret", k.Secret)
		if k.SecretFile != "" {
			d.private(field+".secret_file", k.SecretFile)
		}
	}
}

// Remap is a request in flight of another tenant than its repository has now.
type Remap struct {
	Request string
	State   string
	Tenant  string // that it was proposed under
	Now     string // that the configuration says
}

// remaps are errors: such a request can neither go on nor be made anew
// (OT-91).
func (d *doctor) remaps(list []Remap) {
	for _, m := range list {
		d.fail("operator.tenants", fmt.Sprintf("%s belongs to tenant %q now, but request %s (%s) of tenant %q is in flight: it cannot go on", d.c.Operator.Repo, m.Now, m.Request, m.State, m.Tenant),
			fmt.Sprintf("keep tenant %q until the request is delivered", m.Tenant))
	}
}

// configured answers from a configuration whose a repository is.
type configured struct{ c *config.Config }

// RepoTenant implements kv.Tenancy.
func (t configured) RepoTenant(_ context.Context, repo string) (string, error) {
	return t.c.Operator.RepoTenant(repo)
}

// remapped asks the store for requests that a remap would strand.
func remapped(ctx context.Context, js jetstream.JetStream, c *config.Config) ([]Remap, error) {
	if _, err := c.Operator.RepoTenant(c.Operator.Repo); c.Operator.Repo == "" || err != nil {
		return nil, nil // the configuration's own problem says so
	}
	store, err := kv.OpenEventStore(ctx, js, kv.EventStoreOptions{Repo: c.Operator.Repo, Tenancy: configured{c}, Now: time.Now})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil // no request was ever made; the drift says so
	}
	if err != nil {
		return nil, fmt.Errorf("look at operator tasks: %w", err)
	}
	tenant, moved, err := store.Remapped(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at operator tasks: %w", err)
	}
	var out []Remap
	for _, t := range moved {
		out = append(out, Remap{Request: string(t.ID), State: string(t.State), Tenant: t.Owner.Tenant, Now: tenant})
	}
	return out, nil
}
