package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	belay "github.com/belay-run/belay"
)

// Listen says which ports a server opens.
type Listen int

const (
	// ListenConfigured opens what nats.conf says.
	ListenConfigured Listen = iota
	// ListenRandom opens the client port, and the monitoring port if nats.conf
	// has one, on free ports of 127.0.0.1. For demos, benchmarks and tests.
	ListenRandom
	// ListenNone opens no port: only in-process connections reach the server.
	ListenNone
)

// config is a nats.conf that was read and completed.
type config struct {
	file string // for messages: the path, or "nats.conf" for the built-in one
	opts *server.Options
	auth credentials
}

// parseMu guards the environment variable that the parser reads.
var parseMu sync.Mutex

// loadConfig reads the file of o, or the built-in one, and completes it with
// what belay decides.
func loadConfig(o Options, password string, log *slog.Logger) (config, error) {
	c := config{file: o.ConfigFile, opts: &server.Options{}}
	if c.file == "" {
		c.file = "nats.conf"
	}
	if err := parse(c.opts, o.ConfigFile, password); err != nil {
		problems, ok := err.(interface{ Errors() []error })
		if !ok || len(problems.Errors()) > 0 {
			return c, parseFailed(c.file, err)
		}
		log.Warn("nats configuration", "file", c.file, "warning", oneLine(err.Error()))
	}
	if !c.opts.JetStream {
		return c, fail(ErrConfig, nil,
			"%s does not enable JetStream: add `jetstream { sync_interval: always }`", c.file)
	}
	if err := c.complete(o); err != nil {
		return c, err
	}
	if !c.opts.SyncAlways && !o.SyncLater {
		log.Warn("nats-server does not sync every message: a power cut loses acknowledged deliveries",
			"file", c.file, "sync_interval", c.opts.SyncInterval.String())
	}
	var err error
	c.auth, err = findCredentials(c.opts, password, c.file)
	return c, err
}

// parse reads a file, or the built-in text, with the password in the
// environment, where the parser looks for variables. It is there no longer
// than that, as tasks inherit the environment.
func parse(opts *server.Options, file, password string) error {
	parseMu.Lock()
	defer parseMu.Unlock()
	old, had := os.LookupEnv(passwordVar)
	if err := os.Setenv(passwordVar, password); err != nil {
		return err
	}
	defer func() {
		if had {
			os.Setenv(passwordVar, old)
			return
		}
		os.Unsetenv(passwordVar)
	}()
	if file == "" {
		return opts.ProcessConfigString(belay.NATSConf)
	}
	return opts.ProcessConfigFile(file)
}

// parseFailed says what is wrong with a file.
func parseFailed(file string, err error) error {
	var open *fs.PathError
	if errors.As(err, &open) {
		return fail(ErrConfig, err, "nats configuration: %v: check --nats-config (or `config` under [nats])", err)
	}
	text := oneLine(err.Error())
	if !strings.Contains(text, file) {
		text = file + ": " + text
	}
	return fail(ErrConfig, err, "nats configuration: %s", text)
}

// complete sets what is not for nats.conf to say.
func (c *config) complete(o Options) error {
	opts := c.opts
	if err := c.setStoreDir(o.Dir); err != nil {
		return err
	}
	// The process's own signal handling drains first, then stops the server.
	opts.NoSigs = true
	// Zero: the file does not speak of it, and nats-server would take 2 minutes.
	if !opts.SyncAlways && opts.SyncInterval == 0 {
		opts.SyncAlways = true
	}
	if o.SyncLater {
		opts.SyncAlways, opts.SyncInterval = false, 2*time.Minute
	}
	// In a cluster the name is the node's identity, and the file has to say it.
	if opts.ServerName == "" && opts.Cluster.Port == 0 {
		opts.ServerName = "belay"
	}
	if o.Version != "" {
		opts.Tags.Add("belay:" + o.Version)
	}
	switch o.Listen {
	case ListenRandom:
		opts.Host, opts.Port = "127.0.0.1", server.RANDOM_PORT
		if opts.HTTPPort != 0 {
			opts.HTTPHost, opts.HTTPPort = "127.0.0.1", server.RANDOM_PORT
		}
	case ListenNone:
		opts.DontListen = true
		opts.HTTPPort, opts.HTTPSPort = 0, 0
	}
	return nil
}

// setStoreDir makes dir the parent of nats-server's store: nats-server itself
// puts its files into "jetstream" below it. A file that names another place
// is refused, since belay locks and probes only its own.
func (c *config) setStoreDir(dir string) error {
	if c.opts.StoreDir != "" {
		abs, err := filepath.Abs(c.opts.StoreDir)
		if err != nil || abs != dir {
			return fail(ErrConfig, err,
				"%s sets store_dir to %s but storage.dir is %s: remove store_dir from the file, or set storage.dir to that directory",
				c.file, c.opts.StoreDir, dir)
		}
	}
	c.opts.StoreDir = dir
	return nil
}

// oneLine joins the lines of a parser's message.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

// hostPort names a listener as people write it.
func hostPort(host string, port int) string {
	return fmt.Sprintf("%s:%d", host, port)
}
