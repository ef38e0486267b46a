package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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
	return inspect(ctx, nc, js, p.c)
}

// ProbeOf returns a Probe over the connection of a running process.
func ProbeOf(nc *nats.Conn, js jetstream.JetStream, c *config.Config) Probe {
	return connected{nc, js, c}
}

type connected struct {
	nc *nats.Conn
	js jetstream.JetStream
	c  *config.Config
}

// Inspect asks over the connection that is there.
func (p connected) Inspect(ctx context.Context) (Server, error) { return inspect(ctx, p.nc, p.js, p.c) }

// inspect asks a server for all that the checks look at.
func inspect(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, c *config.Config) (Server, error) {
	s := Server{Version: nc.ConnectedServerVersion()}
	var err error
	if err = s.compare(ctx, js, c.NATS.Replicas); err != nil {
		return Server{}, err
	}
	if s.Remapped, err = remapped(ctx, js, c); err != nil {
		return Server{}, err
	}
	if err = s.look(ctx, nc); err != nil {
		return Server{}, err
	}
	if c.NATS.MonitoringURL != "" && !c.Embedded() {
		s.Sync, s.SyncError = syncOf(ctx, c.NATS.MonitoringURL)
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

// compare lists what differs from streams.json.
func (s *Server) compare(ctx context.Context, js jetstream.JetStream, replicas int) error {
	set, err := streams.Load(belay.StreamsJSON)
	if err != nil {
		return fmt.Errorf("load streams.json: %w", err)
	}
	changes, err := streams.Diff(ctx, js, set, streams.Options{Replicas: replicas})
	if err != nil {
		return fmt.Errorf("compare with streams.json: %w", err)
	}
	for _, c := range changes {
		if c.Create && c.Consumer != "" {
			s.Missing = append(s.Missing, "consumer "+c.Name())
		} else {
			s.Drift = append(s.Drift, c.String())
		}
	}
	return nil
}

// streamAnswer is what the server says of a stream, beyond what the client
// reads.
type streamAnswer struct {
	Config struct {
		Replicas int `json:"num_replicas"`
	} `json:"config"`
	State struct {
		Lost *struct {
			Messages []uint64 `json:"msgs"`
			Bytes    uint64   `json:"bytes"`
		} `json:"lost"`
	} `json:"state"`
	Error *jetstream.APIError `json:"error"`
}

// look reads what only the server's own answer has of each stream.
func (s *Server) look(ctx context.Context, nc *nats.Conn) error {
	s.Replicas = map[string]int{}
	set, err := streams.Load(belay.StreamsJSON)
	if err != nil {
		return fmt.Errorf("load streams.json: %w", err)
	}
	for _, st := range set.Streams {
		m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+st.Name, nil)
		if err != nil {
			return fmt.Errorf("look at stream %s: %w", st.Name, err)
		}
		var a streamAnswer
		if err := json.Unmarshal(m.Data, &a); err != nil {
			return fmt.Errorf("look at stream %s: %w", st.Name, err)
		}
		if a.Error != nil {
			continue // the difference to streams.json says that it is missing
		}
		s.Replicas[st.Name] = a.Config.Replicas
		if l := a.State.Lost; l != nil {
			s.Lost = append(s.Lost, fmt.Sprintf("stream %s is damaged: %d messages, %d bytes are lost", st.Name, len(l.Messages), l.Bytes))
		}
	}
	return nil
}

// syncOf asks the monitoring of a server for its sync_interval.
func syncOf(ctx context.Context, base string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/jsz", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var a struct {
		Config struct {
			Always   bool          `json:"sync_always"`
			Interval time.Duration `json:"sync_interval"`
		} `json:"config"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&a); err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s, which is no /jsz", base, resp.Status)
	}
	if a.Config.Always {
		return "always", nil
	}
	return a.Config.Interval.String(), nil
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
		opts := []nats.Option{nats.CustomInboxPrefix("_INBOX." + c.Server.Role)} // as the role itself
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
