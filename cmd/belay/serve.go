package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/app"
	"github.com/belay-run/belay/cmd/internal/config"
)

// serveStop bounds a stop beyond the drain timeout.
const serveStop = 60 * time.Second

func (c *cli) serveCommand() *cobra.Command {
	var natsConfig, level, role string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Accept webhooks, run their tasks, answer the API",
		Long: `Serve runs the whole of belay in one process, with an embedded nats-server
unless [nats] url names another. Without a configuration file it listens on
loopback, keeps its data under ./data and makes a webhook secret once.

SIGTERM and SIGINT drain: no more webhooks, running tasks may finish within
[worker] drain_timeout, the rest is released and runs again after the restart.
A second signal releases at once.

With a NATS server of its own, --role makes it one part of a fleet: ingest takes
webhooks and answers the API, worker admits deliveries and runs tasks, relay
sends callbacks and what closes tasks on GitHub, creates operators' issues, and
ends what is old. Each can run several times.

SIGHUP loads the configuration again: familiars, rules, secrets, tokens,
callbacks. What is wrong with it, or cannot change without a restart, is logged
by its key, and then nothing changes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			environ := c.environ
			if role != "" {
				if !slices.Contains(config.Roles, role) {
					return usageError("--role %q: write one of %s", role, strings.Join(config.Roles, ", "))
				}
				environ = append(slices.Clone(environ), "BELAY_SERVER_ROLE="+role)
			}
			path := ""
			load := func() (*config.Config, error) {
				if path == "" { // a reload reads the file of the start
					path = config.Find(c.config, c.environ)
				}
				cfg, err := config.Load(path, environ)
				if err == nil && natsConfig != "" {
					cfg.NATS.Config = natsConfig
				}
				return cfg, err
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			var l slog.Level
			if err := l.UnmarshalText([]byte(level)); err != nil {
				return usageError("--log-level %q: write debug, info, warn or error", level)
			}
			return c.serve(app.Options{Config: cfg, Logger: app.NewLogger(c.err, l, time.Now), NotifySocket: c.getenv("NOTIFY_SOCKET")}, load)
		},
	}
	cmd.Flags().StringVar(&natsConfig, "nats-config", "", "nats.conf for the embedded nats-server")
	cmd.Flags().StringVar(&role, "role", "", "what this process does: "+strings.Join(config.Roles, ", ")+" (default: role of [server])")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// serve runs until a signal. It does not use the command's context, which the
// first signal would end: draining wants to be told apart from hurrying.
// load reads the configuration once more.
func (c *cli) serve(o app.Options, load func() (*config.Config, error)) error {
	cfg := o.Config
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	made, err := ensureSecret(cfg)
	if err != nil {
		return err
	}
	o.Version = version()
	a, err := app.New(o)
	if err != nil {
		return err
	}
	start, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- a.Start(start) }()
	select {
	case err := <-started:
		if err != nil {
			return err
		}
	case <-signals:
		cancel()
		return interrupted(a, cfg, <-started, signals)
	}
	c.greet(cfg, a, made)
	for {
		select {
		case <-signals:
			return stop(a, cfg, signals)
		case broken := <-a.Failed():
			return errors.Join(broken, stop(a, cfg, signals))
		case <-reload:
			_ = a.Reload(func() (*config.Config, error) { return withSecret(load()) }) // it is logged
		}
	}
}

// ensureSecret makes a webhook secret where one is used and none is configured.
func ensureSecret(cfg *config.Config) (file string, err error) {
	if !cfg.Ingests() {
		return "", nil
	}
	return cfg.EnsureSecret()
}

// withSecret completes a configuration as the start did.
func withSecret(cfg *config.Config, err error) (*config.Config, error) {
	if err != nil {
		return nil, err
	}
	_, err = ensureSecret(cfg)
	return cfg, err
}

// interrupted ends a start at which the signal came: what was asked for is
// done, so it is no failure. The start may have been faster than the signal.
func interrupted(a *app.App, cfg *config.Config, err error, signals <-chan os.Signal) error {
	switch {
	case err == nil:
		return stop(a, cfg, signals)
	case errors.Is(err, context.Canceled):
		return nil
	}
	return err
}

// stop drains the app; a further signal makes it hurry.
func stop(a *app.App, cfg *config.Config, signals <-chan os.Signal) error {
	ctx, hurry := context.WithTimeout(context.Background(), cfg.Worker.DrainTimeout+serveStop)
	defer hurry()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-signals:
			hurry()
		case <-done:
		}
	}()
	return a.Stop(ctx)
}

// greet tells a person where everything is; secrets are never printed.
func (c *cli) greet(cfg *config.Config, a *app.App, secretFile string) {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", what, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(&b, "belay is ready")
	if cfg.Server.Role != config.RoleAll {
		line("role", "%s", cfg.Server.Role)
	}
	if cfg.Ingests() {
		line("webhook", "%s/webhook", a.URL())
	}
	if secretFile != "" {
		line("secret", "in %s", secretFile)
	}
	if cfg.Ingests() {
		line("tasks", "%s/api/github/tasks   (belay tasks ls)", a.URL())
	}
	line("metrics", "%s/metrics", a.AdminURL())
	if u := a.NATSURL(); u != "" {
		line("nats", "%s   (belay nats)", u)
		line("data", "%s", cfg.Storage.Dir)
	} else {
		line("nats", "%s", a.NATSServers())
	}
	if cfg.Ingests() {
		line("try", "belay send issues.labeled")
	}
	fmt.Fprint(c.out, b.String())
}
