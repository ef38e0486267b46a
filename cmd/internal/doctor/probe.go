package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/streams"
)

// probeTimeout bounds the whole of an inspection.
const probeTimeout = 10 * time.Second

// NewProbe returns a Probe that connects as the configuration says: to the
// servers of [nats] url, or to the embedded one through its loopback port.
func NewProbe(c *config.Config) Probe { return &natsProbe{c} }

type natsProbe struct{ c *config.Config }

// Inspect connects, asks and leaves.
func (p *natsProbe) Inspect(ctx context.Context) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	nc, err := Connect(p.c, "belay doctor")
	if err != nil {
		return Server{}, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return Server{}, fmt.Errorf("use JetStream: %w", err)
	}
	s := Server{Version: nc.ConnectedServerVersion()}
	if s.Drift, err = drift(ctx, js, p.c.NATS.Replicas); err != nil {
		return Server{}, err
	}
	if s.Remapped, err = remapped(ctx, js, p.c); err != nil {
		return Server{}, err
	}
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return Server{}, fmt.Errorf("ask for the store's size: %w", err)
	}
	if limit := info.Limits.MaxStore; limit > 0 {
		s.UsedPercent = int(100 * info.Store / uint64(limit))
	}
	return s, nil
}

// drift lists what differs from streams.json.
func drift(ctx context.Context, js jetstream.JetStream, replicas int) ([]string, error) {
	set, err := streams.Load(belay.StreamsJSON)
	if err != nil {
		return nil, fmt.Errorf("load streams.json: %w", err)
	}
	changes, err := streams.Diff(ctx, js, set, streams.Options{Replicas: replicas})
	if err != nil {
		return nil, fmt.Errorf("compare with streams.json: %w", err)
	}
	var lines []string
	for _, c := range changes {
		lines = append(lines, c.String())
	}
	return lines, nil
}

// Connect connects as the configuration says: to the servers of [nats] url, or
// to the embedded one of a belay that runs, through its loopback port. A
// connection that breaks stays broken.
func Connect(c *config.Config, name string) (*nats.Conn, error) {
	url, opts, err := connection(c)
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(url, append(opts, nats.Name(name), nats.Timeout(probeTimeout/2), nats.NoReconnect())...)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return nc, nil
}

// connection is where and how to connect.
func connection(c *config.Config) (string, []nats.Option, error) {
	n := c.NATS
	if !c.Embedded() {
		var opts []nats.Option
		if n.CredsFile != "" {
			opts = append(opts, nats.UserCredentials(n.CredsFile))
		}
		if n.TLSCA != "" {
			opts = append(opts, nats.RootCAs(n.TLSCA))
		}
		if n.TLSCert != "" {
			opts = append(opts, nats.ClientCert(n.TLSCert, n.TLSKey))
		}
		return n.URL, opts, nil
	}
	password, err := os.ReadFile(filepath.Join(c.Storage.Dir, PasswordFile))
	if err != nil {
		return "", nil, fmt.Errorf("read the password of the embedded server: %w", err)
	}
	conf, err := EmbeddedNATSConf(c)
	if err != nil {
		return "", nil, err
	}
	return conf.URL(), []nats.Option{nats.UserInfo(NATSUser, strings.TrimSpace(string(password)))}, nil
}

// PasswordFile is the file in storage.dir with the embedded server's password,
// and NATSUser the user that it is for.
const (
	PasswordFile = "nats.password"
	NATSUser     = "belay"
)

// EmbeddedNATSConf reads the nats.conf that the embedded server uses.
func EmbeddedNATSConf(c *config.Config) (NATSConf, error) {
	if c.NATS.Config == "" {
		return DefaultNATSConf(), nil
	}
	b, err := os.ReadFile(c.NATS.Config)
	if err != nil {
		return NATSConf{}, fmt.Errorf("read nats.conf: %w", err)
	}
	return ParseNATSConf(string(b)), nil
}

// URL is the address at which this host reaches the client listener.
func (c NATSConf) URL() string {
	host := c.Host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "nats://" + net.JoinHostPort(host, c.Port)
}
