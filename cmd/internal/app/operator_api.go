package app

import (
	"context"
	"fmt"
	"time"

	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// reports are the stores that only the API uses.
type reports struct {
	nonces   *kv.NonceStore
	releases *kv.ReleaseStore
	events   *kv.EventLog
}

func (a *App) openReports(ctx context.Context) error {
	var err error
	if a.reports.nonces, err = kv.OpenNonceStore(ctx, a.js); err != nil {
		return err
	}
	if a.reports.releases, err = kv.OpenReleaseStore(ctx, a.js); err != nil {
		return err
	}
	a.reports.events, err = kv.OpenEventLog(ctx, a.js, a.redact, a.o.Now)
	return err
}

// operatorDesk is what the signed routes are made of. The stores behind it are
// opened later; without a repository and a key nobody asks them.
func (a *App) operatorDesk() *ingest.Operator {
	l := lateOperator{a}
	return &ingest.Operator{
		Repo: a.o.Config.Operator.Repo, Keys: func() []ingest.OperatorKey { return a.live.Load().signers },
		Store: l, Tenancy: tenancy{a}, Nonces: l, Releases: l, Pulls: l, Waker: l,
	}
}

// lateOperator is late for the signed routes.
type lateOperator struct{ a *App }

func (l lateOperator) Propose(ctx context.Context, o operator.Owner, id operator.RequestID, in operator.Intent) (kv.OperatorResult, error) {
	return l.a.events.Propose(ctx, o, id, in)
}

func (l lateOperator) Confirm(ctx context.Context, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error) {
	return l.a.events.Confirm(ctx, o, id, rev)
}

func (l lateOperator) Read(ctx context.Context, o operator.Owner, id operator.RequestID) (*operator.Task, error) {
	return l.a.events.Read(ctx, o, id)
}

func (l lateOperator) Tenant(ctx context.Context, id operator.RequestID) (string, bool, error) {
	return l.a.events.Tenant(ctx, id)
}

func (l lateOperator) Wake(ctx context.Context, tenant string, id operator.RequestID) error {
	return l.a.events.Wake(ctx, tenant, id)
}

func (l lateOperator) Use(ctx context.Context, key, nonce string) error {
	return l.a.reports.nonces.Use(ctx, key, nonce)
}

func (l lateOperator) Approve(ctx context.Context, repoID int64, number int, head string, owner operator.Owner, at time.Time) (kv.Release, bool, error) {
	r, existing, err := l.a.reports.releases.Approve(ctx, repoID, number, head, owner, at)
	if err == nil && l.a.gates != nil {
		l.a.gates.Wake(repoID, number)
	}
	return r, existing, err
}

// Pull finds the task that opened a pull request, in the read model; its
// record says for which issue, and the repository's id.
func (l lateOperator) Pull(ctx context.Context, repo string, number int) (ingest.Pull, error) {
	q := view.Query{Repo: repo, Limit: 1000}
	for {
		page, err := l.a.view.List(q)
		if err != nil {
			return ingest.Pull{}, fmt.Errorf("find pull request: %w", err)
		}
		for i := range page.Items {
			it := &page.Items[i]
			if it.Kind != task.FixIssue || it.PRNumber != number {
				continue
			}
			r, _, err := l.a.store.Get(ctx, it.InstallationID, it.ID)
			if err != nil {
				return ingest.Pull{}, fmt.Errorf("find pull request: %w", err)
			}
			return ingest.Pull{RepoID: r.RepoID, Issue: r.Number}, nil
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return ingest.Pull{}, fmt.Errorf("find pull request %s#%d: %w", repo, number, kv.ErrNotFound)
		}
	}
}

// lateEvents is late for what is reported of tasks.
type lateEvents struct{ a *App }

func (l lateEvents) Append(ctx context.Context, e kv.StreamEvent) (bool, error) {
	return l.a.reports.events.Append(ctx, e)
}

func (l lateEvents) Last(ctx context.Context, stream string, n int) ([]kv.StreamEvent, error) {
	return l.a.reports.events.Last(ctx, stream, n)
}

// remapTimeout bounds the look for requests that a remap would strand.
const remapTimeout = 3 * time.Second

// checkTenancy says loudly that the configuration moved a repository to
// another tenant while requests are in flight (OT-91). What must not happen
// then is refused by the store itself: they cannot be confirmed or begun.
func (a *App) checkTenancy(ctx context.Context) {
	if a.events == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, remapTimeout)
	defer cancel()
	tenant, moved, err := a.events.Remapped(ctx)
	if err != nil {
		a.log.Warn("operator tasks in flight could not be looked at", "class", "remap", "err", err)
		return
	}
	for _, t := range moved {
		a.log.Error("operator task in flight is of another tenant than its repository is now: it cannot go on",
			"class", "remap", "request_id", string(t.ID), "state", string(t.State), "tenant", t.Owner.Tenant, "repo_tenant", tenant,
			"next", "give the repository its former tenant back in [operator] tenants until the request is delivered")
	}
}
