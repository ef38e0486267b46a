package doctor

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	belay "github.com/belay-run/belay"
)

func TestParseNATSConf(t *testing.T) {
	t.Parallel()
	rows := map[string]NATSConf{
		"":                             {"127.0.0.1", "4222", ""},
		belay.NATSConf:                 {"127.0.0.1", "4222", "always"},
		"port: 5000\nhost: 10.0.0.1":   {"10.0.0.1", "5000", ""},
		"port=5000 # port: 6000":       {"127.0.0.1", "5000", ""},
		"listen: 0.0.0.0:5000":         {"0.0.0.0", "5000", ""},
		"listen:127.0.0.1:5000":        {"127.0.0.1", "5000", ""},
		"listen: 5000":                 {"127.0.0.1", "5000", ""},
		`listen: "[::1]:5000"`:         {"::1", "5000", ""},
		"cluster { port: 6222 }":       {"127.0.0.1", "4222", ""},
		"port: $PORT":                  {"127.0.0.1", "4222", ""},
		"jetstream {sync_interval:2m}": {"127.0.0.1", "4222", "2m"},
		"jetstream: {\n  store_dir: \"/x{\"\n  sync: 'always'\n}\nport 7000":                             {"127.0.0.1", "7000", "always"},
		"// port: 1\njetstream: enabled\naccounts { A { jetstream { sync_interval: 1s } } }\nport: 8000": {"127.0.0.1", "8000", ""},
		"host: 127.0.0.1\nport: 20002\njetstream { sync_interval: always }\n":                            {"127.0.0.1", "20002", "always"},
	}
	for text, want := range rows {
		require.Equal(t, want, ParseNATSConf(text), text)
	}
	require.Equal(t, "nats://127.0.0.1:4222", NATSConf{Host: "0.0.0.0", Port: "4222"}.URL())
	require.Equal(t, "nats://[::1]:4222", NATSConf{Host: "::1", Port: "4222"}.URL())
}

func TestNATSConfInUse(t *testing.T) {
	t.Parallel()
	with := func(conf string) Findings {
		return check(t, "[nats]\nconfig = \""+file(t, conf, 0o600)+"\"\n"+healthy(dataDir(t)), quiet())
	}
	require.Empty(t, with("jetstream { sync_interval: always }"))
	require.Empty(t, with("jetstream {}"), "belay's server then syncs always")
	only(t, with("jetstream { sync_interval: 2m }"), "nats.config", Warning, "sync_interval is 2m")
	only(t, with("host: 0.0.0.0\njetstream {}"), "nats.config", Warning, "listens on 0.0.0.0")
}

// probe is a server that says what it is told to.
type probe struct {
	server Server
	err    error
}

func (p probe) Inspect(context.Context) (Server, error) { return p.server, p.err }

func TestOnline(t *testing.T) {
	t.Parallel()
	ask := func(p probe) Findings {
		o := quiet()
		o.Probe = p
		return check(t, healthy(dataDir(t)), o)
	}
	well := Server{Version: MinNATSServer, UsedPercent: 80}
	require.Empty(t, ask(probe{server: well}))
	only(t, ask(probe{err: errors.New("refused")}), "nats.config", Warning, "does not answer: refused")
	only(t, ask(probe{server: Server{Version: "2.15.2"}}), "nats.config", Warning, "2.15.2 is older than "+MinNATSServer)
	only(t, ask(probe{server: Server{Version: MinNATSServer, Drift: []string{"update WEBHOOKS"}}}), "streams", Warning, "update WEBHOOKS")
	only(t, ask(probe{server: Server{Version: MinNATSServer, UsedPercent: 81}}), "storage.dir", Warning, "81% full")
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		a, b string
		want bool
	}{
		{"2.15.3", "2.15.3", false}, {"2.15.2", "2.15.3", true}, {"2.9.30", "2.15.3", true}, {"3.0.0", "2.15.3", false},
		{"2.15.3-RC.1", "2.15.3", true}, {"2.16.0-dev", "2.15.3", false}, {"v2.15.3", "2.15.3", false}, {"", "2.15.3", true}, {"2.15", "2.15.3", true},
	} {
		require.Equal(t, row.want, older(row.a, row.b), "%s %s", row.a, row.b)
	}
}
