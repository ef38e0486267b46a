package streams_test

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
)

// logged is a slog handler's output that a test waits for.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
	want string
	seen chan struct{}
}

// newLogged returns a logger and a channel that is closed once it logs want.
func newLogged(want string) (*slog.Logger, <-chan struct{}) {
	l := &logged{want: want, seen: make(chan struct{})}
	return slog.New(slog.NewTextHandler(l, nil)), l.seen
}

// Write collects the log.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := strings.Contains(l.text.String(), l.want)
	l.text.Write(p)
	if !before && strings.Contains(l.text.String(), l.want) {
		close(l.seen)
	}
	return len(p), nil
}

// J26: JetStream comes later than belay.
func TestReconcileWaitsForJetStream(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(ns.WaitForShutdown)
	t.Cleanup(ns.Shutdown)
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)

	log, waiting := newLogged("waiting for JetStream")
	set, done := embedded(t), make(chan error, 1)
	go func() {
		_, err := streams.Reconcile(t.Context(), js, set, streams.Options{Logger: log})
		done <- err
	}()
	select {
	case <-waiting:
	case err := <-done:
		require.Fail(t, "did not wait", "%v", err)
	}
	require.NoError(t, ns.EnableJetStream(&server.JetStreamConfig{StoreDir: t.TempDir(), MaxStore: 8 << 30, MaxMemory: 1 << 20}))
	require.NoError(t, <-done)
}

// J26: a cluster has a leader before all of its nodes are there, and then says
// that it has no place for three copies.
func TestReconcileWaitsForAPlaceForEachCopy(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithoutStreams())
	var refused atomic.Int32
	_, err := env.NC.Subscribe("FRONT.>", func(m *nats.Msg) {
		api := "$JS.API." + strings.TrimPrefix(m.Subject, "FRONT.")
		if strings.Contains(api, "STREAM.CREATE") && refused.Add(1) == 1 {
			_ = m.Respond([]byte(`{"error":{"code":400,"err_code":10005,"description":"no suitable peers for placement"}}`))
			return
		}
		_ = env.NC.PublishRequest(api, m.Reply, m.Data)
	})
	require.NoError(t, err)
	js, err := jetstream.NewWithAPIPrefix(env.Connect(), "FRONT")
	require.NoError(t, err)
	set := embedded(t)
	_, err = streams.Reconcile(t.Context(), js, set, streams.Options{})
	require.NoError(t, err)
	require.EqualValues(t, len(set.Streams)+1, refused.Load())
}
