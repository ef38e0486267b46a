package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// DefaultStartTimeout is how long nats-server may take to recover its store.
// It is long because a healthy store of many gigabytes on a slow disk needs
// minutes; it ends at all because a damaged one can take for ever.
const DefaultStartTimeout = 10 * time.Minute

// stopGrace is how long a failed start waits for nats-server to let go.
const stopGrace = 2 * time.Second

// Options say how to start a server. Only Dir is needed.
type Options struct {
	// ConfigFile is the path of a nats.conf; empty for the built-in one.
	ConfigFile string
	// Dir is storage.dir. It is made (0700) when it is not there.
	Dir string
	// Listen says which ports are opened; the zero value opens those of
	// nats.conf.
	Listen Listen
	// StartTimeout bounds the recovery of the store; 0 means
	// DefaultStartTimeout.
	StartTimeout time.Duration
	// SyncLater leaves messages to the operating system, for a store that is
	// synced as a whole before anybody relies on it.
	SyncLater bool
	// Version is belay's version; the server carries it as the tag
	// "belay:<version>".
	Version string
	// Logger gets the server's messages; nil drops them.
	Logger *slog.Logger
	// Now is the clock that limits repeated messages; nil means time.Now.
	Now func() time.Time
}

// Server is a running embedded nats-server. Its methods may be called from
// several goroutines.
type Server struct {
	ns       *server.Server
	opts     *server.Options
	log      *logger
	lock     *os.File
	dir      string
	password string
	auth     credentials

	started chan struct{} // closed when nats-server's Start has returned
	stop    sync.Once
	stopped chan struct{} // closed when nothing uses the directory any more
}

// Start starts a server and waits until it accepts connections. Its errors are
// described in the package comment; none leaves a server running, and a
// context that ends cancels the start.
func Start(ctx context.Context, o Options) (*Server, error) {
	dir, err := filepath.Abs(o.Dir)
	if o.Dir == "" || err != nil {
		return nil, fail(ErrConfig, err, "storage.dir is empty: set it to a directory for belay's data")
	}
	o.Dir = dir
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = DefaultStartTimeout
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	lock, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	s, err := newServer(ctx, o, lock)
	if err != nil {
		return nil, errors.Join(err, giveLock(lock))
	}
	if err := s.start(ctx, o.StartTimeout); err != nil {
		s.abandon()
		return nil, err
	}
	return s, nil
}

// newServer does all of a start that leaves nothing to be undone.
func newServer(ctx context.Context, o Options, lock *os.File) (*Server, error) {
	if err := probe(o.Dir); err != nil {
		return nil, err
	}
	pw, err := password(o.Dir)
	if err != nil {
		return nil, err
	}
	c, err := loadConfig(o, pw, o.Logger)
	if err != nil {
		return nil, err
	}
	if err := checkPorts(ctx, c.opts); err != nil {
		return nil, err
	}
	ns, err := server.NewServer(c.opts)
	if err != nil {
		return nil, fail(ErrConfig, err, "%s cannot work: %s", c.file, oneLine(err.Error()))
	}
	log := newLogger(o.Logger, o.Now)
	ns.SetLoggerV2(log, c.opts.Debug, c.opts.Trace, c.opts.TraceVerbose)
	return &Server{
		ns: ns, opts: c.opts, log: log, lock: lock, dir: o.Dir, password: pw, auth: c.auth,
		started: make(chan struct{}), stopped: make(chan struct{}),
	}, nil
}

// start runs nats-server's Start, which neither returns errors nor always
// returns.
func (s *Server) start(ctx context.Context, timeout time.Duration) error {
	go func() {
		defer close(s.started)
		s.ns.Start()
	}()
	watchdog := time.NewTimer(timeout)
	defer watchdog.Stop()
	select {
	case <-s.started:
	case msg := <-s.log.fatal:
		return s.startFailed(msg)
	case <-watchdog.C:
		return fail(ErrStore, context.DeadlineExceeded,
			"nats-server did not come up within %s on %s: the store there may be damaged; move it away to start empty, or restore a backup",
			timeout, s.storeDir())
	case <-ctx.Done():
		return fmt.Errorf("start nats-server: %w", context.Cause(ctx))
	}
	select {
	case msg := <-s.log.fatal:
		return s.startFailed(msg)
	default:
	}
	if !s.ns.ReadyForConnections(timeout) || !s.ns.JetStreamEnabled() {
		return s.startFailed("not ready")
	}
	return s.checkStreams()
}

// startFailed makes an error of nats-server's last words.
func (s *Server) startFailed(msg string) error {
	return fail(ErrStore, nil, "nats-server did not start on %s: %s", s.storeDir(), msg)
}

// storeDir is where nats-server keeps its files.
func (s *Server) storeDir() string { return StoreDir(s.dir) }

// StoreDir is where nats-server keeps its files below a data directory.
func StoreDir(dir string) string { return filepath.Join(dir, server.JetStreamStoreDir) }

// abandon stops a server that did not start. One that hangs keeps the lock, as
// it may still write.
func (s *Server) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	_ = s.Shutdown(ctx) // the start's own error says more
}

// Shutdown stops the server, waits until all that it acknowledged is written,
// and gives the directory free. Close connections first: they would try to
// reconnect for ever. When ctx ends before, it returns an error and stopping
// goes on. It may be called again.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop.Do(func() {
		go func() {
			defer close(s.stopped)
			s.ns.Shutdown()
			s.ns.WaitForShutdown()
			<-s.started
			_ = giveLock(s.lock) // only gives the lock back
		}()
	})
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut down nats-server on %s: %w", s.storeDir(), context.Cause(ctx))
	}
}

// InProcess returns the way to connect without a port, for nats.InProcessServer.
func (s *Server) InProcess() nats.InProcessConnProvider { return s.ns }

// ConnectOptions returns the options with which nats.Connect("", …) reaches
// this server in-process, whatever its nats.conf says about logins.
func (s *Server) ConnectOptions() []nats.Option {
	return append([]nats.Option{nats.InProcessServer(s.ns)}, s.auth.options()...)
}

// ClientURL returns the URL of the client listener, without a password; empty
// when there is none.
func (s *Server) ClientURL() string {
	if s.opts.DontListen {
		return ""
	}
	return s.ns.ClientURL()
}

// MonitorURL returns the URL of the monitoring listener, such as
// "http://127.0.0.1:8222"; empty when there is none.
func (s *Server) MonitorURL() string {
	addr := s.ns.MonitorAddr()
	if addr == nil {
		return ""
	}
	scheme := "http"
	if s.opts.HTTPSPort != 0 {
		scheme = "https"
	}
	return scheme + "://" + addr.String()
}

// Name returns the server's name, as the nats CLI shows it.
func (s *Server) Name() string { return s.ns.Name() }

// Password returns the password of the user belay, as kept in nats.password
// and given to nats.conf as $BELAY_NATS_PASSWORD.
func (s *Server) Password() string { return s.password }

// StoreLimit returns the bytes that all streams together may take: that of
// nats.conf, else what nats-server took of the disk's free space at its start.
// It is 0 when JetStream is off, which a full disk can make of it.
func (s *Server) StoreLimit() int64 {
	cfg := s.ns.JetStreamConfig()
	if cfg == nil {
		return 0
	}
	return cfg.MaxStore
}

// DiskTakesWrites writes a small file to the data folder, syncs and removes it,
// and returns what went wrong.
func (s *Server) DiskTakesWrites() error { return probe(s.dir) }

// SyncAlways reports whether every message is synced to disk before it is
// acknowledged.
func (s *Server) SyncAlways() bool {
	cfg := s.ns.JetStreamConfig()
	return cfg != nil && cfg.SyncAlways
}
