package natsserver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
)

// J27: a stream whose description is damaged is named, and not made anew.
func TestJ27StartNamesABrokenStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() (*natsserver.Server, error) {
		return natsserver.Start(t.Context(), natsserver.Options{Dir: dir, Listen: natsserver.ListenNone})
	}
	s, err := start()
	require.NoError(t, err)
	nc, err := nats.Connect("", s.ConnectOptions()...)
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for _, name := range []string{"GOOD", "BAD"} {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}})
		require.NoError(t, err)
		_, err = js.Publish(t.Context(), name, []byte("x"))
		require.NoError(t, err)
	}
	nc.Close()
	require.NoError(t, s.Shutdown(t.Context()))
	s, err = start()
	require.NoError(t, err, "a whole store")
	require.NoError(t, s.Shutdown(t.Context()))

	metas, err := filepath.Glob(filepath.Join(natsserver.StoreDir(dir), "*", "streams", "BAD", "meta.inf"))
	require.NoError(t, err)
	require.Len(t, metas, 1)
	whole, err := os.ReadFile(metas[0])
	require.NoError(t, err)
	for _, i := range []int{0, len(whole) / 2, len(whole) - 1} {
		b := append([]byte(nil), whole...)
		b[i] ^= 1
		require.NoError(t, os.WriteFile(metas[0], b, 0o600))
		_, err = start()
		require.ErrorIs(t, err, natsserver.ErrStore, "byte %d", i)
		require.ErrorContains(t, err, "stream BAD on ")
		require.ErrorContains(t, err, "belay restore")
	}
	require.NoError(t, os.WriteFile(metas[0], whole, 0o600))
	s, err = start()
	require.NoError(t, err, "nothing of it was touched")
	require.NoError(t, s.Shutdown(t.Context()))
}

// J02: a node of a cluster that was killed while it wrote starts all the same:
// the others have what its disk has lost.
func TestJ02ANodeOfAClusterStartsWithABrokenStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir, Listen: natsserver.ListenNone})
	require.NoError(t, err)
	nc, err := nats.Connect("", s.ConnectOptions()...)
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s", []byte("x"))
	require.NoError(t, err)
	nc.Close()
	require.NoError(t, s.Shutdown(t.Context()))

	metas, err := filepath.Glob(filepath.Join(natsserver.StoreDir(dir), "*", "streams", "S", "meta.sum"))
	require.NoError(t, err)
	require.Len(t, metas, 1)
	require.NoError(t, os.Truncate(metas[0], 0))
	_, err = natsserver.Start(t.Context(), natsserver.Options{Dir: dir, Listen: natsserver.ListenNone})
	require.ErrorIs(t, err, natsserver.ErrStore, "alone it has nobody to ask")

	conf := filepath.Join(t.TempDir(), "nats.conf")
	text := "server_name: n1\njetstream { sync_interval: always }\ncluster { name: c, listen: \"127.0.0.1:-1\", routes: [\"nats://127.0.0.1:1\", \"nats://127.0.0.1:2\"] }\n"
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o600))
	s, err = natsserver.Start(t.Context(), natsserver.Options{Dir: dir, ConfigFile: conf, Listen: natsserver.ListenRandom})
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(t.Context()))
}
