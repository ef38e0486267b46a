package natsserver_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
)

// rounds and publishers are the load of TestRestartUnderLoad.
const rounds, publishers = 20, 8

// J17: stopping under load, again and again, loses nothing that was
// acknowledged. The server goes first, with publishes in flight, which is
// harsher than belay's own order.
func TestRestartUnderLoad(t *testing.T) {
	t.Parallel()
	o := natsserver.Options{Dir: t.TempDir(), Listen: natsserver.ListenNone}
	all := map[uint64]string{}
	for round := range rounds {
		acked := map[uint64]string{}
		s := start(t, o)
		nc, js := connect(t, s)
		if round == 0 {
			_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
			require.NoError(t, err)
		}

		var mu sync.Mutex
		var wg sync.WaitGroup
		enough := make(chan struct{})
		for p := range publishers {
			wg.Go(func() {
				for i := 0; ; i++ {
					body := fmt.Sprintf("%d-%d-%d", round, p, i)
					ack, err := js.Publish(t.Context(), "s", []byte(body))
					if err != nil {
						return
					}
					mu.Lock()
					acked[ack.Sequence] = body
					mu.Unlock()
					if p == 0 && i == 20 {
						close(enough)
					}
				}
			})
		}
		<-enough
		go nc.Close() // ends publishes that the stopping server leaves unanswered
		shutdown(t, s)
		wg.Wait()
		maps.Copy(all, acked)
	}
	require.Greater(t, len(all), rounds*20)
	_, js := connect(t, start(t, o))
	requireStored(t, js, all)
}

// requireStored checks each acknowledged message at its sequence.
func requireStored(t *testing.T, js jetstream.JetStream, acked map[uint64]string) {
	t.Helper()
	s, err := js.Stream(t.Context(), "S")
	require.NoError(t, err)
	for seq, body := range acked {
		m, err := s.GetMsg(t.Context(), seq)
		require.NoError(t, err, "sequence %d", seq)
		require.Equal(t, body, string(m.Data))
	}
}
