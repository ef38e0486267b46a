package natsserver

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

// listener is a port that nats-server is going to open.
type listener struct {
	what     string // the listener's purpose
	settings string // its names in nats.conf
	host     string
	port     int
}

// listeners lists the ports of a configuration. Those that are not set, or
// chosen by the kernel, are left out.
func listeners(opts *server.Options) []listener {
	client, monitor := opts.Port, opts.HTTPHost
	if client == 0 {
		client = server.DEFAULT_PORT
	}
	if opts.DontListen {
		client = server.RANDOM_PORT
	}
	if monitor == "" {
		monitor = opts.Host
	}
	all := []listener{
		{"client", "`port` (or `listen`)", opts.Host, client},
		{"monitoring", "`http`", monitor, opts.HTTPPort},
		{"monitoring", "`https`", monitor, opts.HTTPSPort},
		{"cluster", "`port` (or `listen`) of `cluster`", opts.Cluster.Host, opts.Cluster.Port},
		{"leaf node", "`port` (or `listen`) of `leafnodes`", opts.LeafNode.Host, opts.LeafNode.Port},
		{"gateway", "`port` (or `listen`) of `gateway`", opts.Gateway.Host, opts.Gateway.Port},
		{"websocket", "`port` (or `listen`) of `websocket`", opts.Websocket.Host, opts.Websocket.Port},
		{"MQTT", "`port` (or `listen`) of `mqtt`", opts.MQTT.Host, opts.MQTT.Port},
	}
	fixed := all[:0]
	for _, l := range all {
		if l.port > 0 {
			fixed = append(fixed, l)
		}
	}
	return fixed
}

// checkPorts opens and closes each port. nats-server opens the client port
// last, after it has recovered a store that may be large, and takes a port in
// use for a reason to end the process.
func checkPorts(ctx context.Context, opts *server.Options) error {
	for _, l := range listeners(opts) {
		probe, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(l.host, strconv.Itoa(l.port)))
		if err == nil {
			err = probe.Close()
		}
		if err != nil {
			return l.failed(err)
		}
	}
	return nil
}

// failed says which setting changes the port that cannot be opened.
func (l listener) failed(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = errno
	}
	kind := ErrConfig
	next := "change"
	if errors.Is(err, syscall.EADDRINUSE) {
		kind = ErrPortTaken
		next = "stop the process that uses it, or change"
	}
	host := l.host
	if host == "" {
		host = "0.0.0.0"
	}
	return fail(kind, err, "nats %s port %s: %v: %s %s in a nats.conf of your own (--nats-config, or `config` under [nats])",
		l.what, hostPort(host, l.port), err, next, l.settings)
}
