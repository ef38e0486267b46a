package app

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/kv/task"
)

// inForce is a configuration and what is derived from it. It is never
// changed: a reload puts another in its place.
type inForce struct {
	conf      *config.Config
	sources   map[string]ingest.Source // by their names, `default` among them
	access    ingest.Access
	signers   []ingest.OperatorKey
	callbacks map[string]relay.Channel // by the names of their channels
	limits    map[int64]config.Limits  // of installations that are listed
}

// source is what the door of a source verifies and routes by now.
func (a *App) source(name string) ingest.Source { return a.live.Load().sources[name] }

// further finds a source that is not `default`, whose door is another.
func (a *App) further(name string) (ingest.Source, bool) {
	src, ok := a.live.Load().sources[name]
	return src, ok && name != task.DefaultSource
}

// conf is the configuration in force.
func (a *App) conf() *config.Config { return a.live.Load().conf }

// maxConcurrent is how many tasks of an installation may run at once, 0 for
// no limit.
func (a *App) maxConcurrent(installation int64) int {
	return a.live.Load().limits[installation].MaxConcurrent
}

// derive makes what a configuration brings into force. Callbacks that did not
// change stay the ones they are.
func (a *App) derive(c *config.Config) (*inForce, error) {
	l := &inForce{
		conf: c, sources: map[string]ingest.Source{}, access: access(c), signers: signers(c),
		callbacks: map[string]relay.Channel{}, limits: map[int64]config.Limits{},
	}
	for _, in := range c.Installations {
		l.limits[in.ID] = in.Limits
	}
	for _, src := range c.AllSources() {
		r := routing(c, src)
		if a.deliv != nil {
			r.StoreSince = a.deliv.Since()
		}
		if a.deliv != nil && src.Name == task.DefaultSource {
			r.Operator = a.operatorOf // whose issues only its App creates
		}
		r.AppLogin = a.logins[src.Name]
		l.sources[src.Name] = ingest.Source{Config: r, Secrets: secrets(src)}
	}
	old := a.live.Load()
	for _, cb := range c.Callbacks {
		name := relay.CallbackChannel(cb.Name)
		if old != nil {
			if before, ok := old.conf.CallbackByName(cb.Name); ok && reflect.DeepEqual(before, cb) {
				l.callbacks[name] = old.callbacks[name]
				continue
			}
		}
		if !c.Relays() {
			continue
		}
		made, err := a.newCallback(cb)
		if err != nil {
			return nil, err
		}
		l.callbacks[name] = made
	}
	return l, nil
}

func (a *App) newCallback(c config.Callback) (*relay.Callback, error) {
	cb, err := relay.NewCallback(relay.CallbackOptions{
		Name: c.Name, URL: c.URL, Secrets: c.Secrets, Bearer: c.Bearer, AllowPrivate: c.AllowPrivate, Timeout: c.Timeout, Now: a.o.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("%w; next: mend [[callbacks]] %q", err, c.Name)
	}
	return cb, nil
}

// put derives from a configuration and brings it into force, with what was
// learned since. Only one at a time may.
func (a *App) put(c *config.Config) error {
	a.swap.Lock()
	defer a.swap.Unlock()
	l, err := a.derive(c)
	if err != nil {
		return err
	}
	a.live.Store(l)
	return nil
}

// learn derives once more from the configuration in force, after set.
func (a *App) learn(set func()) {
	a.swap.Lock()
	defer a.swap.Unlock()
	set()
	if l, err := a.derive(a.conf()); err == nil { // as it did before
		a.live.Store(l)
	}
}

// Reload brings another configuration into force, as load gives it: familiars,
// rules, secrets, tokens, callbacks and the like. It is whole or not at all:
// where load fails, or a key differs that needs a restart, nothing changes and
// the error names the keys. Call it after Start, one at a time.
func (a *App) Reload(load func() (*config.Config, error)) error {
	n := notifier{socket: a.o.NotifySocket}
	if err := n.send(notifyReloading, monotonic()); err != nil {
		a.log.Warn("service manager not told", "err", err)
	}
	defer func() { _ = n.send(notifyReady) }()
	err := a.reload(load)
	if err != nil {
		a.reloads.ok.Set(0)
		a.log.Error("configuration is not reloaded, the former one stays in force", "err", err)
		return err
	}
	a.reloads.done(a.o.Now().Unix())
	a.log.Info("configuration is reloaded", "file", a.conf().File)
	return nil
}

func (a *App) reload(load func() (*config.Config, error)) error {
	next, err := load()
	if err != nil {
		return err
	}
	old := a.live.Load()
	keys := old.conf.RestartKeys(next)
	if a.events == nil && opensEvents(next) {
		keys = append(keys, "operator.keys") // the store is opened at start
	}
	if len(keys) > 0 {
		return fmt.Errorf("%s cannot change while belay runs, so nothing was changed: restart belay, or take that change back and reload", strings.Join(keys, ", "))
	}
	if err := checkBind(next); err != nil {
		return err
	}
	if err := a.put(next); err != nil {
		return err
	}
	if r := a.relay.Load(); r != nil {
		for name, cb := range a.live.Load().callbacks {
			if cb != old.callbacks[name] {
				r.Enable(name) // it may be another recipient
			}
		}
	}
	a.view.Wake() // a cap may have been raised
	a.checkTenancy(context.Background())
	return nil
}

// reloads are the metrics of reloads, named as Prometheus names its own.
type reloads struct{ ok, at prometheus.Gauge }

func newReloads(reg prometheus.Registerer, start int64) reloads {
	r := reloads{
		ok: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belay_config_last_reload_successful", Help: "1 if the last attempt to load the configuration succeeded.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belay_config_last_reload_success_timestamp_seconds", Help: "When the configuration in force was loaded, in seconds since 1970.",
		}),
	}
	reg.MustRegister(r.ok, r.at)
	r.done(start)
	return r
}

func (r reloads) done(at int64) {
	r.ok.Set(1)
	r.at.Set(float64(at))
}

// channel finds a way out of the outbox by its name.
func (a *App) channel(name string) (relay.Channel, bool) {
	if ch, ok := a.live.Load().callbacks[name]; ok {
		return ch, true
	}
	ch, ok := a.channels[name]
	return ch, ok
}
