package doctor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
)

// external is a configuration of a NATS server of somebody else's.
func external(t *testing.T, lines string) string {
	return "[nats]\nurl = \"nats://nats.example:4222\"\n" + lines + "\n" + healthy(dataDir(t))
}

// Each finding about a running server, one row each.
func TestOnlineFindings(t *testing.T) {
	t.Parallel()
	three := map[string]int{"WEBHOOKS": 3}
	rows := map[string]struct {
		server         Server
		field, message string
		severity       Severity
	}{
		"old":           {Server{Version: "2.14.0", Sync: "always", Replicas: three}, "nats.url", "2.14.0 is older than", Warning},
		"unsynced":      {Server{Version: MinNATSServer, Sync: "2m0s", Replicas: three}, "nats.url", "sync_interval is 2m0s", Warning},
		"sync unknown":  {Server{Version: MinNATSServer, Replicas: three}, "nats.url", "sync_interval is not known", Warning},
		"no monitoring": {Server{Version: MinNATSServer, SyncError: errors.New("refused"), Replicas: three}, "nats.monitoring_url", "refused", Warning},
		"one replica":   {Server{Version: MinNATSServer, Sync: "always", Replicas: map[string]int{"WEBHOOKS": 1}}, "nats.replicas", "stream WEBHOOKS is held by one server only", Warning},
		"even replicas": {Server{Version: MinNATSServer, Sync: "always", Replicas: map[string]int{"WEBHOOKS": 4}}, "nats.replicas", "stream WEBHOOKS has 4 replicas", Warning},
		"drift":         {Server{Version: MinNATSServer, Sync: "always", Drift: []string{"update AUDIT"}}, "streams", "update AUDIT", Warning},
		"J27 damaged":   {Server{Version: MinNATSServer, Sync: "always", Lost: []string{"stream WEBHOOKS is damaged"}}, "streams", "WEBHOOKS is damaged", Error},
		"no consumer":   {Server{Version: MinNATSServer, Sync: "always", Missing: []string{"consumer WEBHOOKS/admit"}}, "streams", "WEBHOOKS/admit is not there", Warning},
		"J16 full":      {Server{Version: MinNATSServer, Sync: "always", UsedPercent: 81}, "storage.dir", "81% full", Warning},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quiet()
			o.Probe = probe{server: row.server}
			got := check(t, external(t, "replicas = 3"), o)
			only(t, got, row.field, row.severity, row.message)
			require.Equal(t, map[Severity]int{Error: 1, Warning: 0}[row.severity], got.ExitCode())
		})
	}
	o := quiet()
	o.Probe = probe{server: Server{Version: MinNATSServer, Sync: "always", Replicas: three}}
	require.Empty(t, check(t, external(t, "replicas = 3"), o))
	only(t, check(t, external(t, "replicas = 2"), o), "nats.replicas", Warning, "2 replicas outlive no more servers than 1")
}

// Each finding of a process about itself.
func TestFindingsOfARunningProcess(t *testing.T) {
	t.Parallel()
	watch := func(r Running) Findings {
		o := quiet()
		o.Config = config.Default(dataDir(t))
		o.Probe, o.Running = probe{server: Server{Version: MinNATSServer}}, &r
		return Watch(t.Context(), o)
	}
	require.Empty(t, watch(Running{OldestPending: time.Minute}))
	only(t, watch(Running{Stalled: []Stall{{"pull", "was not answered for 25s", "look"}}}), "pull", Error, "not answered")
	only(t, watch(Running{OldestPending: 6 * time.Minute}), "outbox", Warning, "a reply has waited for 6m0s")
	only(t, watch(Running{Unknown: 3}), "outbox", Warning, "3 replies")
	only(t, watch(Running{Disabled: []string{"callback:ci: 410"}}), "callbacks", Warning, "callback:ci: 410")
	only(t, watch(Running{PauseError: errors.New("torn")}), "control.pause", Warning, "torn")
	only(t, watch(Running{Unreadable: 2}), "storage.dir", Warning, "2 records")
	got := watch(Running{LoginUnknown: true})
	only(t, got, "github.app_id", Warning, "login")
	require.Equal(t, "app_login", got[0].Check)
	for _, f := range watch(Running{Unknown: 1, Unreadable: 1, LoginUnknown: true}) {
		require.Contains(t, RunningChecks(), f.Check)
	}
}

// J16: an alarm while there is still headroom.
func TestJ16DiskThatFillsUp(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.Full = func(string) int { return 81 }
	only(t, check(t, healthy(dataDir(t)), o), "storage.dir", Warning, "81% full")
	o.Full = func(string) int { return 80 }
	require.Empty(t, check(t, healthy(dataDir(t)), o))
	require.LessOrEqual(t, full(t.TempDir()), 100)
	require.Zero(t, full("/nonexistent"))
}

// J01: the monitoring of an external server is asked for its sync_interval.
func TestJ01SyncIntervalOfAnExternalServer(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"config":{"sync_always":true,"sync_interval":120000000000}}`: "always",
		`{"config":{"sync_interval":120000000000}}`:                    "2m0s",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "/jsz", r.URL.Path)
			_, _ = w.Write([]byte(body))
		}))
		got, err := syncOf(t.Context(), srv.URL+"/")
		srv.Close()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	_, err := syncOf(t.Context(), srv.URL)
	require.ErrorContains(t, err, "404")
}

// Not parallel: it replaces the resolver.
//
// Without --online nothing is dialled: neither NATS, nor GitHub, nor any
// callback or monitoring of the configuration.
func TestOfflineTouchesNoNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dialled := make(chan struct{}, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
			select {
			case dialled <- struct{}{}:
			default:
			}
		}
	}()
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name was looked up")
		return nil, errors.New("no network")
	}}
	addr := l.Addr().String()
	text := "[nats]\nurl = \"nats://" + addr + "\"\nmonitoring_url = \"http://" + addr + "\"\n" + strings.Replace(healthy(dataDir(t)), "[github]",
		"[github]\napp_id = 1\nprivate_key = \"x\"\napi_url = \"http://"+addr+"\"\nwebhook_url = \"http://"+addr+"\"\n", 1) +
		"callback = \"ci\"\n[[callbacks]]\nname = \"ci\"\nallow_private = true\nurl = \"http://" + addr + "\"\nsecrets = [\"" + whsec + "\"]\n"
	require.NotEmpty(t, check(t, text, quiet()))
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	<-dialled // the test's own, which shows that one would have been seen
	require.Empty(t, dialled)
}
