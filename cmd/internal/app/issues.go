package app

import (
	"context"
	"time"

	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// startIssues starts what creates the issues of approved requests. It is
// stopped before the relay, which still tells of the last ones.
func (a *App) startIssues(context.Context) error {
	if a.events == nil || !a.o.Config.Relays() {
		return nil
	}
	c := a.o.Config.Operator
	if a.appClient == nil {
		a.log.Warn("operator tasks are kept but no issue is created: there is no GitHub App", "next", "configure [github] app_id and private_key_file")
		return nil
	}
	o := consumers.IssuesOptions{
		JS: a.js, Events: a.events, GitHub: a.appClient, Outbox: a.outbox, Repo: c.Repo, Labels: c.Labels,
		Keep: days(a.o.Config.Storage.TaskRetentionDays), Boot: a.o.Boot, Restore: a.restore,
		Audit:  func(kind, repo, detail string) { a.audit.Record(kind, "", repo, detail) },
		Logger: a.log, Now: a.o.Now, Registerer: a.reg, Hooks: a.o.IssueHooks, SearchFirst: a.o.SearchFirst,
	}
	if c.Callback != "" {
		o.Callback, o.To = relay.CallbackChannel(c.Callback), a.label(c.Callback)
	}
	issues, err := consumers.NewIssues(o)
	if err != nil {
		return err
	}
	deaf, err := a.events.OnWake(issues.Wake)
	if err != nil {
		return err
	}
	a.issues.Store(issues)
	issues.Start()
	a.cleanups.push("issues", func(ctx context.Context) error {
		_ = deaf() // the connection may be gone
		sctx, cancel := context.WithTimeout(ctx, issuesTimeout)
		defer cancel()
		return issues.Stop(sctx)
	})
	return nil
}

// openGates makes what holds pull requests of operators' issues. Its channel
// has to be there before anything is sent.
func (a *App) openGates(ctx context.Context) error {
	if a.appClient == nil || a.events == nil || !a.o.Config.Relays() {
		return nil
	}
	gates, err := kv.OpenGateStore(ctx, a.js)
	if err != nil {
		return err
	}
	gates.SetHooks(a.o.StoreHooks)
	a.gates = consumers.NewReleaseGate(consumers.ReleaseOptions{
		JS: a.js, Store: a.store, Gates: gates, Releases: a.reports.releases,
		Clients: map[string]*githubapp.Client{task.DefaultSource: a.appClient}, Restore: a.restore,
		Audit:  func(kind, repo, detail string) { a.audit.Record(kind, "", repo, detail) },
		Logger: a.log, Now: a.o.Now, Registerer: a.reg,
	})
	a.channels[channelRelease] = a.gates.Channel()
	return nil
}

// startGates starts it.
func (a *App) startGates(context.Context) error {
	if a.gates != nil {
		a.gates.Start()
		a.cleanups.push("releases", a.gates.Stop)
	}
	return nil
}

// issuesTimeout is how long a stop waits for an issue that is being created:
// longer than one request to GitHub may take.
const issuesTimeout = 20 * time.Second

// finished hears of every record that left the outbox.
func (a *App) finished(r outbox.Record, v relay.Verdict) {
	a.relayed(r, v)
	if issues := a.issues.Load(); issues != nil {
		issues.Finished(r, v)
	}
}

// operatorOf reads whose request an issue was made for, if it begins with a
// marker that the App signed for the repository.
func (a *App) operatorOf(repoID int64, body string) *task.Operator {
	if a.appClient == nil || a.o.Config.Operator.Repo == "" {
		return nil
	}
	m, ok := a.appClient.OperatorMark(repoID, body)
	if _, err := operator.ParseRequestID(m.RequestID); !ok || err != nil {
		return nil
	}
	return &task.Operator{Tenant: m.Tenant, RequestID: m.RequestID, AttemptID: m.AttemptID}
}
