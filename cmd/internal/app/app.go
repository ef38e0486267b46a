package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/streams"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// App is one belay process.
type App struct {
	o   Options
	log *slog.Logger
	reg *prometheus.Registry

	ns        *natsserver.Server
	nc        *nats.Conn
	js        jetstream.JetStream
	streamSet streams.Set
	deliv     *kv.DeliveryLog
	store     *kv.TaskStore
	outbox    *kv.OutboxStore
	audit     *kv.AuditLog
	view      *view.View
	exec      *executor.Executor // the same
	worker    atomic.Pointer[consumers.Worker]
	admitter  *consumers.Admitter  // nil in a process that does not work
	admit     *consumers.AdmitLoop // the same
	relay     atomic.Pointer[relay.Relay]
	events    *kv.EventStore // nil without [operator] repo
	reports   reports
	issues    atomic.Pointer[consumers.Issues]
	redeliver []*consumers.Redeliverer     // none without an App
	gates     *consumers.ReleaseGate       // nil without an App or [operator] repo, or where nothing is relayed
	appClient *githubapp.Client            // of the source `default`; nil without an App
	clients   map[string]*githubapp.Client // of the sources with an App
	github    *consumers.GitHub            // nil where no source has an App
	owners    *kv.Owners
	quota     *kv.Quota
	channels  map[string]relay.Channel // to GitHub, by their names; filled before anything is sent
	redact    *redact.Redactor
	tracer    trace.Tracer // nil where nothing is traced
	probe     *prober
	check     *selfCheck
	leases    *leases

	live    atomic.Pointer[inForce]
	swap    sync.Mutex        // held to put another in its place
	logins  map[string]string // of the Apps, by source, once known; under swap
	reloads reloads

	http   *ingest.Server
	addr   addresses
	failed chan error

	door     sync.RWMutex
	open     bool
	inFlight sync.WaitGroup

	stop     sync.Once
	stopErr  error
	cleanups cleanups
}

// addresses are where the listeners ended up.
type addresses struct{ public, admin string }

// New checks the options and makes an App that does nothing yet.
func New(o Options) (*App, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	a := &App{o: o, log: o.Logger, reg: prometheus.NewRegistry(), failed: make(chan error, 3), channels: map[string]relay.Channel{}, logins: map[string]string{}, redact: redact.New()}
	a.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.view = view.New(o.Logger, o.Now)
	a.view.SetLimits(a.maxConcurrent)
	a.reg.MustRegister(newViewCollector(a.view))
	a.check = newSelfCheck(a.reg)
	a.leases, a.probe = newLeases(a.reg), &prober{a}
	a.reloads = newReloads(a.reg, o.Now().Unix())
	return a, a.put(o.Config)
}

// Start brings the process up: it returns when deliveries are accepted and
// work is claimed, or with everything undone. The listeners answer from the
// first moment: /livez with 200, all else with 503 until then (J19).
func (a *App) Start(ctx context.Context) error {
	n := notifier{socket: a.o.NotifySocket}
	up := make(chan struct{})
	if n.socket != "" {
		go n.every(startExtend, up)
	}
	defer close(up)
	for _, step := range []func(context.Context) error{
		a.startTracing, a.startHTTP, a.startNATS, a.connect, a.startStorage, a.openStores, a.openGitHub, a.openGates, a.startView,
		a.startExecutor, a.startRelay, a.startIssues, a.startGates, a.startWorker, a.startRetention, a.startAdmission, a.startKeeping,
		a.startDoors, a.openRedelivery, a.watchStandstill, a.startSelfCheck,
	} {
		if err := step(ctx); err != nil {
			sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			return errors.Join(err, a.Stop(sctx))
		}
	}
	a.checkTenancy(ctx)
	a.openDoors(true)
	a.startRedelivery()
	if err := n.send(notifyReady); err != nil {
		a.log.Warn("service manager not told", "err", err)
	}
	a.log.Info("ready", "role", a.o.Config.Server.Role, "listen", a.addr.public, "admin_listen", a.addr.admin, "boot", a.o.Boot)
	return nil
}

// Stop drains and undoes everything Start did. Ending ctx makes it hurry: what
// runs is released at once. Calling it again returns the first call's error.
func (a *App) Stop(ctx context.Context) error {
	a.stop.Do(func() {
		n := notifier{socket: a.o.NotifySocket}
		_ = n.send(notifyStopping, extend(a.o.Config.Worker.DrainTimeout+stopTimeout))
		if a.http != nil {
			a.http.SetDraining(true)
		}
		a.stopErr = a.cleanups.run(ctx, a.log)
	})
	return a.stopErr
}

// Failed reports what broke after Start and only a restart can mend: a listener,
// or the embedded server's store.
func (a *App) Failed() <-chan error { return a.failed }

// URL is the base of the public listener, "http://127.0.0.1:3000"; only a
// process that ingests has one.
func (a *App) URL() string { return "http://" + a.addr.public }

// AdminURL is the base of the admin listener.
func (a *App) AdminURL() string { return "http://" + a.addr.admin }

// NATSURL is the embedded server's client URL without a password; "" if it
// has no listener or NATS is external.
func (a *App) NATSURL() string {
	if a.ns == nil {
		return ""
	}
	return a.ns.ClientURL()
}

// Handler is the public listener's handler, for benchmarks without a socket.
func (a *App) Handler() http.Handler { return a.gate(a.http.Public()) }

func (a *App) openStores(ctx context.Context) error {
	var err error
	if a.deliv, err = kv.OpenDeliveryLog(ctx, a.js); err != nil {
		return err
	}
	a.learn(func() {}) // of what age the log is
	if a.store, err = kv.OpenTaskStore(ctx, a.js); err != nil {
		return err
	}
	a.owners = kv.NewOwners(a.store, a.deliv)
	if a.quota, err = kv.OpenQuota(ctx, a.js, a.o.Now); err != nil {
		return err
	}
	a.quota.SetHooks(a.o.StoreHooks)
	if a.audit, err = kv.OpenAuditLog(ctx, a.js, kv.AuditOptions{Logger: a.log, Now: a.o.Now, Redactor: a.redact, Installation: a.view.InstallationOf}); err != nil {
		return err
	}
	a.store.SetHooks(a.o.StoreHooks)
	a.deliv.Hooks = a.o.StoreHooks
	a.traceMessages()
	a.cleanups.push("audit trail", parting(a.audit.Close))
	if err := a.openEvents(ctx); err != nil {
		return err
	}
	if err := a.openReports(ctx); err != nil {
		return err
	}
	return a.openOutbox(ctx)
}

// startView waits until the read model has caught up: scheduling and the
// recovery of what a former process held read it.
func (a *App) startView(ctx context.Context) error {
	a.view.SetTombTTL(days(a.o.Config.Storage.DedupeDays))
	vctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); a.view.Run(vctx, a.js) }()
	a.cleanups.push("read model", func(context.Context) error { cancel(); <-done; return nil })
	for !a.view.Synced() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the read model: %w", ctx.Err())
		case <-a.view.Changed():
		}
	}
	return nil
}

// frozenAfter is after how many beats without a word of their process commands
// are killed. Others may take its tasks five beats after its last one, which
// came up to a beat before the last word.
const frozenAfter = 3

// silence is when a frozen process's commands are killed: never where nobody
// else can take its tasks.
func (a *App) silence() time.Duration {
	if a.o.Config.Embedded() {
		return 0
	}
	return frozenAfter * beatEvery(a.o.BeatEvery)
}

func (a *App) startExecutor(context.Context) error {
	c := a.o.Config
	if !c.Works() {
		return nil
	}
	var err error
	a.exec, err = executor.New(executor.Config{
		WorkspaceDir: c.Worker.WorkspaceDir, LogDir: logDir(c), RunAs: c.Worker.RunAs, Logger: a.log, Now: a.o.Now,
		Silence: a.silence(),
	})
	if err != nil {
		return err
	}
	// What a killed process left behind; another's live run is spared.
	n, err := a.exec.SweepWorkspaces(func(id task.ID, attempt int) bool {
		s, ok := a.view.Standing(id)
		return ok && s.State == task.Running && s.Holder.N == attempt && !c.Embedded()
	})
	if err != nil {
		a.log.Warn("workspaces of earlier runs could not be removed", "err", err)
	}
	if n > 0 {
		a.log.Info("removed workspaces of earlier runs", "count", n)
	}
	return nil
}

// startWorker starts what runs tasks, in a process that works.
func (a *App) startWorker(ctx context.Context) error {
	c := a.o.Config
	if !c.Works() {
		return nil
	}
	a.admitter = consumers.NewAdmitter(consumers.AdmitterOptions{
		Store: a.store, View: a.view, Familiars: func() []string { return familiarIDs(a.conf()) },
		Replay: replayWindow, TombTTL: days(c.Storage.DedupeDays), Deliveries: a.deliv, Audit: a.audit,
		Forget: a.exec.RemoveLogs, Outbox: a.outbox, Tracer: a.tracer, Now: a.o.Now, Logger: a.log,
	})
	w, err := consumers.NewWorker(consumers.Options{
		Store: a.store, View: a.view, JS: a.js, Runner: a.exec, Admitter: a.admitter, Audit: a.audit, Restore: a.restore,
		Surfaces: a.surfaces(),
		Familiar: func(id string) (executor.Familiar, bool) { return familiar(a.conf(), id) },
		Logger:   a.log, Now: a.o.Now, Registerer: a.reg,
		Name: c.Worker.Name, Boot: a.o.Boot, Alone: c.Embedded(), Limit: a.maxConcurrent,
		Concurrency: c.Worker.Concurrency, MaxRetries: c.Worker.MaxRetries, Timeout: c.Worker.Timeout,
		DrainTimeout: c.Worker.DrainTimeout, Review: func() consumers.ReviewPolicy { return reviewPolicy(a.conf()) },
		Tracer: a.tracer, Backoff: a.o.Backoff, BeatEvery: a.o.BeatEvery, Hooks: a.o.Hooks,
	})
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	a.worker.Store(w)
	a.cleanups.push("worker", w.Stop)
	return nil
}

// startAdmission starts what makes the log visible, beside the worker.
func (a *App) startAdmission(context.Context) error {
	if a.o.Config.Works() {
		a.admit = consumers.NewAdmitLoop(a.js, a.admitter, a.restore, a.reg)
		a.admit.Start()
		a.cleanups.push("admission", parting(a.admit.Stop))
	}
	return nil
}

// leaseRetention is the lease of the one process that does retention.
const leaseRetention = "retention"

// startRetention starts what ends the old, in one process of those that relay.
func (a *App) startRetention(ctx context.Context) error {
	c := a.o.Config
	if !c.Relays() {
		return nil
	}
	lease, err := kv.OpenLease(ctx, a.js, a.leaseOptions(leaseRetention))
	if err != nil {
		return err
	}
	a.leases.add(leaseRetention, lease)
	o := consumers.RetentionOptions{
		Store: a.store, Log: a.deliv, View: a.view, Turn: lease, Outbox: a.outbox,
		Tasks: days(c.Storage.TaskRetentionDays), Deliveries: days(c.Storage.DeliveryRetentionDays),
		Dedupe: days(c.Storage.DedupeDays), Every: a.o.RetainEvery, Now: a.o.Now, Logger: a.log, Registerer: a.reg,
	}
	if a.exec != nil {
		o.Forget = a.exec.RemoveLogs
	}
	keep := consumers.NewRetention(o)
	keep.Start()
	a.cleanups.push("retention", parting(keep.Stop))
	return nil
}

// startDoors is last: a stop closes them first.
func (a *App) startDoors(context.Context) error {
	a.cleanups.push("doors", a.closeDoors)
	return nil
}
