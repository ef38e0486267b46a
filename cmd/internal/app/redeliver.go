package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// openRedelivery makes what asks GitHub again for deliveries that did not
// arrive, of each source with an App. It looks at nothing yet.
func (a *App) openRedelivery(ctx context.Context) error {
	if !a.o.Config.Redelivery.Enabled || !a.o.Config.Relays() {
		return nil
	}
	for source, client := range a.clients {
		store, err := kv.OpenRedeliveryStore(ctx, a.js)
		if err != nil {
			return err
		}
		store.SetHooks(a.o.StoreHooks)
		lease, err := kv.OpenLease(ctx, a.js, a.leaseOptions(leaseOf(source)))
		if err != nil {
			return err
		}
		a.leases.add(leaseOf(source), lease)
		a.redeliver = append(a.redeliver, consumers.NewRedeliverer(consumers.RedelivererOptions{
			Source: source, GitHub: client, Log: a.deliv, Store: store, Leader: lease, Wants: a.wants(source),
			Every: a.o.Config.Redelivery.Every, MaxAge: a.conf().Redelivery.MaxAge,
			Now: a.o.Now, Sleep: a.o.GitHubSleep, Logger: a.log,
			Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"source": source}, a.reg),
		}))
	}
	return nil
}

// startRedelivery starts it. The doors have to be open: what is asked for
// comes at once.
func (a *App) startRedelivery() {
	for _, r := range a.redeliver {
		r.Start()
		a.cleanups.push("redelivery", r.Stop)
	}
}

// wants says which deliveries of a source matter by the routing in force. What
// an installation sent that is deleted by now does not.
func (a *App) wants(source string) consumers.Wants {
	return func(event, action string, installation int64) bool {
		return a.source(source).Config.Wants(event, action, installation) && !a.view.Uninstalled(installation)
	}
}

// Wants says which deliveries of a source matter by a configuration: none of
// one that it does not have.
func Wants(c *config.Config, source string) consumers.Wants {
	src, ok := c.SourceByName(source)
	if !ok {
		return func(string, string, int64) bool { return false }
	}
	return routing(c, src).Wants
}

// leaseOf names the lease under which a source's deliveries are looked at.
func leaseOf(source string) string {
	if source == task.DefaultSource {
		return "redeliver"
	}
	return "redeliver-" + source
}
