package natstest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/streams"
)

// timeout bounds each step of the kit.
const timeout = 30 * time.Second

// Env is a running server and a connection to it. Restart replaces Server, NC
// and JS.
type Env struct {
	// Server is the embedded server.
	Server *natsserver.Server
	// NC is an in-process connection, closed at the end of the test.
	NC *nats.Conn
	// JS is JetStream over NC.
	JS jetstream.JetStream
	// Dir is the server's storage.dir.
	Dir string

	t testing.TB
	o options
}

// New starts a server for a test. The test's end closes the connection, stops
// the server and removes the directory.
func New(t testing.TB, opts ...Option) *Env {
	t.Helper()
	e := &Env{t: t}
	for _, opt := range opts {
		opt(&e.o)
	}
	e.Dir = e.o.dir
	if e.Dir == "" {
		e.Dir = t.TempDir()
	}
	e.start()
	t.Cleanup(e.stop)
	return e
}

// Restart stops the server and starts one on the same directory. Connections
// that the test made itself have to be closed and made again.
func (e *Env) Restart() {
	e.t.Helper()
	e.stop()
	e.start()
}

// Connect makes a further in-process connection, which the test's end closes.
func (e *Env) Connect(opts ...nats.Option) *nats.Conn {
	e.t.Helper()
	nc, err := nats.Connect("", append(e.Server.ConnectOptions(), opts...)...)
	if err != nil {
		e.t.Fatalf("connect to the test server: %v", err)
	}
	e.t.Cleanup(nc.Close)
	return nc
}

// URL is the address of the client listener with user and password, for other
// processes such as the nats CLI. The test has to be started WithListener.
func (e *Env) URL() string {
	e.t.Helper()
	url := e.Server.ClientURL()
	if url == "" {
		e.t.Fatal("the test server has no listener: use natstest.WithListener")
	}
	return url
}

// start starts the server, connects, and makes the streams.
func (e *Env) start() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	listen := natsserver.ListenNone
	if e.o.listen {
		listen = natsserver.ListenRandom
	}
	var err error
	e.Server, err = natsserver.Start(ctx, natsserver.Options{
		ConfigFile:   e.config(),
		Dir:          e.Dir,
		Listen:       listen,
		StartTimeout: timeout,
		Logger:       e.o.log,
	})
	if err != nil {
		e.t.Fatalf("start the test server: %v", err)
	}
	e.NC, err = nats.Connect("", append(e.Server.ConnectOptions(), nats.Name(e.t.Name()))...)
	if err == nil {
		e.JS, err = jetstream.New(e.NC)
	}
	if err == nil && !e.o.bare {
		err = e.reconcile(ctx)
	}
	if err != nil {
		e.stop()
		e.t.Fatalf("prepare the test server: %v", err)
	}
}

// reconcile makes the streams of streams.json.
func (e *Env) reconcile(ctx context.Context) error {
	set, err := Set()
	if err != nil {
		return err
	}
	if e.o.maxStore > 0 {
		// A max_bytes is reserved in full; without, the small store is there
		// for the messages of the test.
		for i := range set.Streams {
			set.Streams[i].MaxBytes = -1
		}
	}
	_, err = streams.Reconcile(ctx, e.JS, set, streams.Options{Logger: e.o.log})
	return err
}

// Set returns the streams of the embedded streams.json, to be changed freely.
func Set() (streams.Set, error) { return streams.Load(belay.StreamsJSON) }

// stop closes the connection, then the server.
func (e *Env) stop() {
	e.t.Helper()
	if e.NC != nil {
		e.NC.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := e.Server.Shutdown(ctx); err != nil {
		e.t.Errorf("stop the test server: %v", err)
	}
}

// config writes the nats.conf of the options and returns its path.
func (e *Env) config() string {
	e.t.Helper()
	text := "max_payload: 8MB\njetstream {\n"
	if e.o.syncAlways {
		text += "  sync_interval: always\n"
	} else {
		text += "  sync_interval: 2m\n"
	}
	if e.o.maxStore > 0 {
		text += fmt.Sprintf("  max_file_store: %d\n", e.o.maxStore)
	}
	text += "}\n" + e.o.conf
	path := filepath.Join(e.t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		e.t.Fatalf("write nats.conf: %v", err)
	}
	return path
}
