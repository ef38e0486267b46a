package app

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/cmd/internal/doctor"
	"github.com/belay-run/belay/ingest"
)

// checkEvery is the time between two looks of a process at itself.
const checkEvery = time.Minute

// checkProgress is the check whose findings make /readyz red by themselves.
const checkProgress = "progress"

// selfCheck keeps what a running process found wrong or doubtful of itself:
// the checks of doctor that make sense then.
type selfCheck struct {
	found atomic.Pointer[doctor.Findings]
	gauge *prometheus.GaugeVec
}

func newSelfCheck(reg prometheus.Registerer) *selfCheck {
	s := &selfCheck{gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "belay_findings", Help: "What the last look of this process at itself found, by check; belay doctor says more.",
	}, []string{"check", "severity"})}
	reg.MustRegister(s.gauge)
	s.set(nil)
	return s
}

// set keeps findings, and counts them with a 0 for each check without (X11).
func (s *selfCheck) set(found doctor.Findings) (before doctor.Findings) {
	for _, check := range doctor.RunningChecks() {
		for _, sev := range []doctor.Severity{doctor.Error, doctor.Warning} {
			n := 0
			for _, f := range found {
				if f.Check == check && f.Severity == sev {
					n++
				}
			}
			s.gauge.WithLabelValues(check, string(sev)).Set(float64(n))
		}
	}
	if old := s.found.Swap(&found); old != nil {
		before = *old
	}
	return before
}

// Warnings are the findings that do not stop work.
func (l late) Warnings() []ingest.Condition {
	found := l.a.check.found.Load()
	if found == nil {
		return nil
	}
	var out []ingest.Condition
	for _, f := range *found {
		if f.Check != checkProgress {
			out = append(out, ingest.Condition{Name: f.Check, Message: f.Field + ": " + f.Message, Next: f.Next})
		}
	}
	return out
}

// startSelfCheck looks at once, and then again and again.
func (a *App) startSelfCheck(context.Context) error {
	every := a.o.CheckEvery
	if every == 0 {
		every = checkEvery
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			a.lookAtMyself(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	a.cleanups.push("self-check", func(context.Context) error { cancel(); <-done; return nil })
	return nil
}

// lookAtMyself makes the checks and logs what is new, and what is over.
func (a *App) lookAtMyself(ctx context.Context) {
	found := doctor.Watch(ctx, doctor.Options{Config: a.conf(), Probe: doctor.ProbeOf(a.nc, a.js, a.conf()), Running: a.running(ctx)})
	if ctx.Err() != nil {
		return
	}
	key := func(f doctor.Finding) string { return f.Check + " " + f.Field }
	before, now := map[string]bool{}, map[string]bool{}
	for _, f := range a.check.set(found) {
		before[key(f)] = true
	}
	for _, f := range found {
		if !before[key(f)] && !now[key(f)] {
			a.log.Warn("finding: "+f.Message, "check", f.Check, "field", f.Field, "severity", f.Severity, "next", f.Next)
		}
		now[key(f)] = true
	}
	for k := range before {
		if !now[k] {
			a.log.Info("finding is over", "finding", k)
		}
	}
}

// running is what the parts say of themselves.
func (a *App) running(ctx context.Context) *doctor.Running {
	counts := a.view.OutboxCounts()
	r := &doctor.Running{
		OldestPending: counts.OldestPending, Unknown: counts.Unknown, Unreadable: a.view.Poisoned(),
		PauseError:   a.store.PauseError(ctx),
		LoginUnknown: a.loginUnknown(),
	}
	for _, c := range a.probe.Ready(ctx) {
		r.Stalled = append(r.Stalled, doctor.Stall{Name: c.Name, Message: c.Message, Next: c.Next})
	}
	if relay := a.relay.Load(); relay != nil {
		for _, d := range relay.Disabled() {
			r.Disabled = append(r.Disabled, d.Channel+": "+d.Reason)
		}
	}
	return r
}

// loginUnknown reports whether the App of a source has not said its login yet.
func (a *App) loginUnknown() bool {
	for _, src := range a.live.Load().sources {
		if a.clients[src.Config.Source] != nil && src.Config.AppLogin == "" {
			return true
		}
	}
	return false
}
