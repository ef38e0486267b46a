package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/streams"
)

// store is an embedded server as `belay serve` starts it, with its streams.
type store struct {
	server *natsserver.Server
	nc     *nats.Conn
	js     jetstream.JetStream
}

// Intervals at which a store syncs.
const (
	syncAlways  = "always"
	syncDefault = "2m" // nats-server's own default
)

// openStore starts a server in dir/belay.
func openStore(ctx context.Context, dir, syncInterval string) (*store, error) {
	conf := filepath.Join(dir, "nats.conf")
	text := strings.Replace(belay.NATSConf, "sync_interval: always", "sync_interval: "+syncInterval, 1)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write nats.conf: %w", err)
	}
	ns, err := natsserver.Start(ctx, natsserver.Options{ConfigFile: conf, Dir: filepath.Join(dir, "belay"), Listen: natsserver.ListenRandom})
	if err != nil {
		return nil, err
	}
	s := &store{server: ns}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if want := syncInterval == syncAlways; ns.SyncAlways() != want {
		return nil, errors.Join(fmt.Errorf("the server syncs always: %t, asked for %s", !want, syncInterval), s.close())
	}
	return s, nil
}

func (s *store) connect(ctx context.Context) error {
	var err error
	if s.nc, err = nats.Connect("", s.server.ConnectOptions()...); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if s.js, err = jetstream.New(s.nc, jetstream.WithDefaultTimeout(5*time.Second)); err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	set, err := streams.Load(belay.StreamsJSON)
	if err != nil {
		return err
	}
	_, err = streams.Reconcile(ctx, s.js, set, streams.Options{})
	return err
}

func (s *store) close() error {
	if s.nc != nil {
		s.nc.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.server.Shutdown(ctx)
}
