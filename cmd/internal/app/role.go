package app

import (
	"context"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// leases are the leases that this process contends for, as a metric.
type leases struct {
	mu   sync.Mutex
	all  map[string]*kv.Lease
	desc *prometheus.Desc
}

func newLeases(reg prometheus.Registerer) *leases {
	l := &leases{all: map[string]*kv.Lease{}, desc: prometheus.NewDesc(
		"belay_lease_held", "1 while this process is the one of a fleet that does something.", []string{"lease"}, nil)}
	reg.MustRegister(l)
	return l
}

func (l *leases) add(name string, lease *kv.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[name] = lease
}

// Describe implements prometheus.Collector.
func (l *leases) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// Collect implements prometheus.Collector.
func (l *leases) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, lease := range l.all {
		held := 0.0
		if lease.Held() {
			held = 1
		}
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, held, name)
	}
}

// leaseOptions are those of every lease of this process.
func (a *App) leaseOptions(name string) kv.LeaseOptions {
	return kv.LeaseOptions{Name: name, Boot: a.o.Boot, Alone: a.o.Config.Embedded(), Every: a.o.LeaseEvery, Logger: a.log}
}

// startKeeping starts what each process does for itself.
func (a *App) startKeeping(context.Context) error {
	a.reg.MustRegister(newReadiness(a.probe.stalled))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); a.keep(ctx) }()
	a.cleanups.push("keeping", func(context.Context) error { cancel(); <-done; return nil })
	return nil
}

// keep forgets, again and again, what retention ended, wherever that runs.
func (a *App) keep(ctx context.Context) {
	every := a.o.RetainEvery
	if every == 0 {
		every = time.Hour
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			a.forget()
		}
	}
}

// forget drops what is left here of tasks that retention ended, maybe in
// another process: their tombstones' time in memory, their logs.
func (a *App) forget() {
	a.view.DropExpiredTombs()
	if a.exec == nil {
		return
	}
	_, err := a.exec.SweepLogs(days(a.o.Config.Storage.TaskRetentionDays), func(id task.ID) bool {
		_, shown := a.view.Find(id)
		return !shown && a.view.Synced()
	})
	if err != nil {
		a.log.Warn("logs of ended tasks could not be removed", "class", "sweep_logs", "err", err)
	}
}

// openLog opens a log that is kept on this machine.
func (a *App) openLog(id task.ID, attempt int) (io.ReadCloser, error) {
	if a.exec == nil {
		return nil, fs.ErrNotExist
	}
	return a.exec.OpenLog(id, attempt)
}
