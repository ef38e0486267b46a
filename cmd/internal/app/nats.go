package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/streams"
)

const (
	reconnectWait = 250 * time.Millisecond
	// flushTimeout bounds a write to a server that is gone (DESIGN §11).
	flushTimeout = 2 * time.Second
	// callTimeout is what JetStream calls get that bring no deadline.
	callTimeout = 5 * time.Second
)

// startNATS starts the embedded server, unless [nats] url names another.
func (a *App) startNATS(ctx context.Context) error {
	c := a.o.Config
	if !c.Embedded() {
		return nil
	}
	ns, err := natsserver.Start(ctx, natsserver.Options{
		ConfigFile: c.NATS.Config, Dir: c.Storage.Dir, Listen: a.o.NATSListen, Version: a.o.Version,
		Logger: a.log, Now: a.o.Now,
	})
	if err != nil {
		return err
	}
	a.ns = ns
	a.cleanups.push("nats-server", func(context.Context) error {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		return ns.Shutdown(ctx)
	})
	return nil
}

// connect makes the one connection and brings the streams up to date. It
// waits for a server that has no leader yet, until ctx ends (J26).
func (a *App) connect(ctx context.Context) error {
	opts, err := a.natsOptions()
	if err != nil {
		return err
	}
	nc, err := nats.Connect(strings.Join(a.o.Config.NATSURLs(), ","), opts...)
	if err != nil {
		return fmt.Errorf("connect to NATS: %w; next: check [nats] url and its credentials", err)
	}
	a.nc = nc
	a.cleanups.push("connection", a.disconnect)
	if err := a.awaitNATS(ctx); err != nil {
		return err
	}
	if a.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout)); err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	a.startReach()
	report, err := streams.Reconcile(ctx, a.js, a.streamSet, a.streamOptions())
	for _, refused := range report.Refused {
		a.log.Warn("stream differs from streams.json and the server refused the change", "change", refused.String(), "next", "belay doctor")
	}
	if err != nil {
		return fmt.Errorf("reconcile streams: %w", err)
	}
	return nil
}

// awaitNATS waits for the first connection, unless the server refuses it.
func (a *App) awaitNATS(ctx context.Context) error {
	status := a.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer a.nc.RemoveStatusListener(status)
	tick := time.NewTicker(reconnectWait)
	defer tick.Stop()
	for !a.nc.IsConnected() {
		last := a.nc.LastError()
		if refusedByNATS(last) || a.nc.IsClosed() {
			return fmt.Errorf("connect to NATS at %s: %w; next: check the credentials in [nats]", a.NATSServers(), last)
		}
		a.log.Warn("waiting for NATS", "class", "nats_start", "servers", a.NATSServers(), "err", last)
		select {
		case <-status:
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("connect to NATS at %s: %w; next: start it, or change [nats] url", a.NATSServers(), context.Cause(ctx))
		}
	}
	return nil
}

// refusedByNATS reports that the server does not want us.
func refusedByNATS(err error) bool {
	for _, e := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// NATSServers names the external servers, without passwords; "" if NATS is
// embedded.
func (a *App) NATSServers() string {
	names := a.o.Config.NATSURLs()
	for i, name := range names {
		names[i] = "a server whose address cannot be read"
		if u, err := url.Parse(name); err == nil {
			names[i] = u.Host
		}
	}
	return strings.Join(names, ",")
}

func (a *App) streamOptions() streams.Options {
	return streams.Options{Replicas: a.o.Config.NATS.Replicas, Logger: a.log}
}

// restore makes a durable again that somebody deleted.
func (a *App) restore(ctx context.Context, stream, consumer string) error {
	a.log.Warn("consumer is gone, making it again", "class", "restore", "stream", stream, "consumer", consumer)
	_, err := streams.Reconcile(ctx, a.js, a.streamSet, a.streamOptions())
	return err
}

func (a *App) natsOptions() ([]nats.Option, error) {
	c := a.o.Config.NATS
	opts := []nats.Option{
		nats.Name("belay " + a.o.Config.Worker.Name), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		// Nothing is sent late: a write that found no server fails now.
		nats.ReconnectBufSize(-1), nats.FlusherTimeout(flushTimeout), nats.DrainTimeout(flushTimeout),
		nats.ReconnectHandler(func(*nats.Conn) { a.reconnected() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				a.log.Warn("connection to NATS lost", "class", "disconnect", "err", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			a.log.Warn("connection to NATS reports an error", "class", "nats", "err", err)
		}),
	}
	if a.ns != nil {
		return append(opts, a.ns.ConnectOptions()...), nil
	}
	// Once up, a refusal does not end it: credentials are renewed outside.
	opts = append(opts, nats.RetryOnFailedConnect(true), nats.Timeout(callTimeout), nats.IgnoreAuthErrorAbort(),
		// What a role is answered no other role's user need be able to read.
		nats.CustomInboxPrefix("_INBOX."+a.o.Config.Server.Role))
	for key, file := range map[string]string{
		"creds_file": c.CredsFile, "tls_ca": c.TLSCA, "tls_cert": c.TLSCert, "tls_key": c.TLSKey,
	} {
		if _, err := os.Stat(file); file != "" && err != nil {
			return nil, fmt.Errorf("read [nats] %s: %w; next: correct the path", key, err)
		}
	}
	if c.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(c.CredsFile))
	}
	if c.TLSCA != "" {
		opts = append(opts, nats.RootCAs(c.TLSCA))
	}
	if c.TLSCert != "" {
		opts = append(opts, nats.ClientCert(c.TLSCert, c.TLSKey))
	}
	return opts, nil
}

// reconnected re-opens the watch, which may be silent for long after a
// server's crash, and beats, so that nobody takes this process for dead.
func (a *App) reconnected() {
	a.log.Info("connection to NATS is back")
	a.view.Reopen()
	if w := a.worker.Load(); w != nil {
		go w.Beat()
	}
}

// disconnect drains what is left and closes: a connection outlives an
// embedded server for ever otherwise.
func (a *App) disconnect(context.Context) error {
	defer a.nc.Close()
	if !a.nc.IsConnected() {
		return nil
	}
	if err := a.nc.FlushTimeout(flushTimeout); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// loadStreams parses the embedded streams.json.
func loadStreams() (streams.Set, error) { return streams.Load(belay.StreamsJSON) }
