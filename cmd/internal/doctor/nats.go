package doctor

import (
	"fmt"
	"os"
	"strings"

	belay "github.com/belay-run/belay"
)

// nats checks what can be told of the NATS server without asking it.
func (d *doctor) nats() {
	n := d.c.NATS
	if !d.c.Embedded() {
		if n.Replicas > 1 && n.Replicas%2 == 0 {
			d.warn("nats.replicas", fmt.Sprintf("%d replicas outlive no more servers than %d", n.Replicas, n.Replicas-1), "set an odd number")
		}
		if n.Replicas == 1 {
			d.warn("nats.replicas", "each record is held by one server only: its loss loses them", "set replicas = 3 on a cluster of three or more")
		}
		if d.Probe == nil {
			d.warn("nats.url", "sync_interval of an external server is not known here, and by default it loses two minutes at a power cut",
				"set sync_interval: always in the jetstream block of each server's configuration")
		}
		for _, f := range [][2]string{{"nats.creds_file", n.CredsFile}, {"nats.tls_ca", n.TLSCA}, {"nats.tls_cert", n.TLSCert}, {"nats.tls_key", n.TLSKey}} {
			d.readable(f[0], f[1])
		}
		return
	}
	text := belay.NATSConf
	if n.Config != "" {
		b, err := os.ReadFile(n.Config)
		if err != nil {
			d.fail("nats.config", fmt.Sprintf("%s cannot be read: %s", n.Config, cause(err)), "name a nats.conf, or leave it out for the built-in one")
			return
		}
		text = string(b)
	}
	conf := ParseNATSConf(text)
	if s := conf.SyncInterval; s != "" && !strings.EqualFold(s, "always") {
		d.warn("nats.config", fmt.Sprintf("sync_interval is %s: a power cut loses what was acknowledged since", s),
			"write sync_interval: always in its jetstream block")
	}
	if h := conf.Host; h != "127.0.0.1" && h != "localhost" && h != "::1" {
		d.warn("nats.config", "the NATS server listens on "+h+": every record is within reach of that network", "write host: 127.0.0.1, or use TLS and accounts")
	}
}

// readable checks a file that only its reader will open.
func (d *doctor) readable(field, path string) {
	if path == "" {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		d.fail(field, fmt.Sprintf("%s cannot be read: %s", path, cause(err)), "check the path and its permissions")
		return
	}
	_ = f.Close()
	if strings.HasSuffix(field, "creds_file") || strings.HasSuffix(field, "tls_key") {
		d.private(field, path)
	}
}
