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
	"github.com/belay-run/belay/kv/natscluster"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/streams"
)

// store is the streams, on an embedded server as `belay serve` starts it, or on
// a cluster.
type store struct {
	server *natsserver.Server // nil on a cluster
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
	if err := s.connect(ctx, "", 1, ns.ConnectOptions()...); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if want := syncInterval == syncAlways; ns.SyncAlways() != want {
		return nil, errors.Join(fmt.Errorf("the server syncs always: %t, asked for %s", !want, syncInterval), s.close())
	}
	return s, nil
}

// openStoreOf opens the streams of the cluster at url, or starts a server in dir
// that syncs each message when url is empty.
func openStoreOf(ctx context.Context, url, dir string) (*store, error) {
	if url == "" {
		return openStore(ctx, dir, syncAlways)
	}
	s := &store{}
	if err := s.connect(ctx, url, natscluster.Size, nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond), nats.ReconnectBufSize(-1)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *store) connect(ctx context.Context, url string, replicas int, opts ...nats.Option) error {
	var err error
	if s.nc, err = nats.Connect(url, opts...); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if s.js, err = jetstream.New(s.nc, jetstream.WithDefaultTimeout(5*time.Second)); err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	set, err := streams.Load(belay.StreamsJSON)
	if err != nil {
		return err
	}
	_, err = streams.Reconcile(ctx, s.js, set, streams.Options{Replicas: replicas})
	return err
}

func (s *store) close() error {
	if s.nc != nil {
		s.nc.Close()
	}
	if s.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.server.Shutdown(ctx)
}
