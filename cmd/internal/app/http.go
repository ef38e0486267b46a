package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

const (
	// stopTimeout bounds each cleanup that has no bound of its own.
	stopTimeout = 30 * time.Second
	// replayWindow is how long a body that names one occurrence is remembered.
	replayWindow = 96 * time.Hour
)

// startExtend is what a start asks of the service manager, again and again.
const startExtend = 30 * time.Second

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

func logDir(c *config.Config) string { return filepath.Join(c.Storage.Dir, "logs") }

func beatEvery(d time.Duration) time.Duration {
	if d == 0 {
		return 5 * time.Second
	}
	return d
}

// late hands the ports to the HTTP server before the stores exist. The gate
// lets no request through until they do.
type late struct{ a *App }

func (l late) Accept(ctx context.Context, d task.Delivery) (kv.Accepted, error) {
	return l.a.deliv.Accept(ctx, d)
}

// lateDeliveries is late for the log of deliveries, whose Get differs.
type lateDeliveries struct{ a *App }

func (l lateDeliveries) Page(ctx context.Context, q kv.DeliveryQuery) (kv.DeliveryPage, error) {
	return l.a.deliv.Page(ctx, q)
}

func (l lateDeliveries) Find(ctx context.Context, id task.DeliveryID, q kv.DeliveryQuery) (kv.Logged, error) {
	return l.a.deliv.Find(ctx, id, q)
}

func (l lateDeliveries) FindAll(ctx context.Context, id task.DeliveryID, q kv.DeliveryQuery) ([]kv.Logged, error) {
	return l.a.deliv.FindAll(ctx, id, q)
}

func (l lateDeliveries) Get(ctx context.Context, seq uint64) (kv.Logged, error) {
	return l.a.deliv.Get(ctx, seq)
}

// places knows whose installations are: the configuration says so, or else the
// repository that the newest task is about.
type places struct{ a *App }

func (p places) Installations() []int64 { return p.a.view.Installations() }

func (p places) Account(installation int64) string {
	if in, ok := p.a.conf().InstallationByID(installation); ok && in.Account != "" {
		return in.Account
	}
	return p.a.view.Account(installation)
}

// lateTrail is late for the audit trail, whose Page differs.
type lateTrail struct{ a *App }

func (l lateTrail) Page(ctx context.Context, q kv.AuditQuery) (kv.AuditPage, error) {
	return l.a.audit.Page(ctx, q)
}

func (l late) Get(ctx context.Context, installation int64, id task.ID) (task.Record, uint64, error) {
	return l.a.store.Get(ctx, installation, id)
}

func (l late) Retry(ctx context.Context, installation int64, id task.ID, caller string) (task.Record, error) {
	return (&commands{store: l.a.store, outbox: l.a.outbox, now: l.a.o.Now}).Retry(ctx, installation, id, caller)
}

func (l late) Cancel(ctx context.Context, installation int64, id task.ID, caller, reason string) (task.Record, error) {
	return (&commands{store: l.a.store, outbox: l.a.outbox, now: l.a.o.Now}).Cancel(ctx, installation, id, caller, reason)
}

// lateOutbox is late for the records of the outbox, whose Find differs.
type lateOutbox struct{ a *App }

func (l lateOutbox) Find(ctx context.Context, id outbox.ID) (*outbox.Record, error) {
	return l.a.outbox.Find(ctx, id)
}

func (l lateOutbox) Resolve(ctx context.Context, id outbox.ID, how outbox.Resolution, reason, by string) (outbox.Record, *outbox.Record, error) {
	return l.a.outbox.Resolve(ctx, id, how, reason, by)
}

// Take counts a task of an installation that has a daily cap; the others are
// not counted, and nothing is asked for them.
func (l late) Take(ctx context.Context, installation int64) (giveBack func(context.Context) error, ok bool, err error) {
	limit := l.a.live.Load().limits[installation].MaxTasksPerDay
	if limit == 0 {
		return nil, true, nil
	}
	return l.a.quota.Take(ctx, installation, limit)
}

// Owner implements ingest.Owners. One source alone has nobody to dispute with,
// and pays nothing for it.
func (l late) Owner(ctx context.Context, installation int64, source string) (string, error) {
	if len(l.a.conf().Sources) == 0 {
		return source, nil
	}
	return l.a.owners.Owner(ctx, installation, source)
}

func (l late) OpenLog(id task.ID, attempt int) (io.ReadCloser, error) {
	return l.a.openLog(id, attempt)
}

func (l late) Pause(ctx context.Context, installation *int64, by string) error {
	return l.a.store.Pause(ctx, installation, by, l.a.o.Now())
}

func (l late) Resume(ctx context.Context, installation *int64) error {
	return l.a.store.Resume(ctx, installation)
}

func (l late) Read(caller string, installation int64, what string) {
	l.a.audit.Read(caller, installation, what)
}

func (l late) Denied(what, remote string) { l.a.audit.Denied(what, remote) }

func (l late) Mutation(ctx context.Context, e kv.AuditEntry) { l.a.audit.Mutation(ctx, e) }

func (l late) Store(ctx context.Context) error { return l.a.probe.Store(ctx) }

func (l late) Ready(ctx context.Context) []ingest.Condition { return l.a.probe.Ready(ctx) }

// startHTTP takes the ports first: a taken one is known before a long
// recovery, and a supervisor sees /livez during it.
func (a *App) startHTTP(ctx context.Context) error {
	c := a.o.Config
	if err := checkBind(c); err != nil {
		return err
	}
	var err error
	if a.streamSet, err = loadStreams(); err != nil {
		return err
	}
	l := late{a}
	a.http, err = ingest.New(ingest.Options{
		Log: l, Tasks: a.view, TaskStore: l, Deliveries: lateDeliveries{a}, Commands: l, Logs: l, Prober: l, Warnings: l.Warnings, Switch: l,
		Outbox: a.view, OutboxStore: lateOutbox{a}, Usage: a.view, Places: places{a},
		Operator: a.operatorDesk(), Events: lateEvents{a}, Payloads: payloads{a},
		Auditor: l, Trail: lateTrail{a},
		Config:  func() *github.Config { return a.source(task.DefaultSource).Config },
		Secrets: func() []github.Secret { return a.source(task.DefaultSource).Secrets },
		Sources: a.further, Owners: l, Quotas: l,
		Access: func() ingest.Access { return a.live.Load().access },
		FamiliarName: func(id string) string {
			f, _ := a.conf().FamiliarByID(id)
			return f.DisplayName
		},
		Logger: a.log, Now: a.o.Now, Registerer: a.reg, Gatherer: a.reg, Version: a.o.Version, Tracer: a.tracer,
	})
	if err != nil {
		return err
	}
	if c.Ingests() {
		if a.addr.public, err = a.listen(ctx, "listen", c.Server.Listen, a.http.Public()); err != nil {
			return err
		}
	}
	a.addr.admin, err = a.listen(ctx, "admin_listen", c.Server.AdminListen, a.http.Admin())
	return err
}

// checkBind refuses an API that is open to the world by mistake.
func checkBind(c *config.Config) error {
	if !c.Ingests() {
		return nil
	}
	return ingest.CheckBind(c.Server.Listen, c.API.Mode, c.Server.AllowPublic)
}

func (a *App) listen(ctx context.Context, key, addr string, h http.Handler) (string, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen on %s: %w; next: change [server] %s", addr, err, key)
	}
	srv := a.http.HTTPServer(a.gate(h))
	go func() {
		if err := srv.Serve(a.http.Listener(ln)); err != nil && !errors.Is(err, http.ErrServerClosed) {
			a.failed <- fmt.Errorf("serve %s: %w", key, err)
		}
	}()
	a.cleanups.push("listener "+key, func(ctx context.Context) error {
		if err := srv.Shutdown(ctx); err != nil {
			return errors.Join(err, srv.Close())
		}
		return nil
	})
	return ln.Addr().String(), nil
}

// gate answers for the parts that are not up yet.
func (a *App) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.enter() {
			defer a.inFlight.Done()
			next.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/livez" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"ok":false,"error":"not serving"}`+"\n")
	})
}

// enter counts a request in, false while the doors are closed.
func (a *App) enter() bool {
	a.door.RLock()
	defer a.door.RUnlock()
	if !a.open {
		return false
	}
	a.inFlight.Add(1)
	return true
}

func (a *App) openDoors(open bool) {
	a.door.Lock()
	defer a.door.Unlock()
	a.open = open
}

// closeDoors makes the listeners answer 503 and waits for the requests that
// are being answered: their store must not go first. The listeners close
// last, so that a supervisor still sees /livez.
func (a *App) closeDoors(ctx context.Context) error {
	a.openDoors(false)
	ctx, cancel := context.WithTimeout(ctx, ingest.DefaultIntakeDeadline+time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() { a.inFlight.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done: // at the same time, or there were none
		return nil
	case <-time.After(hurriedTimeout):
		return fmt.Errorf("wait for requests: %w", ctx.Err())
	}
}
