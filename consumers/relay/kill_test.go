package relay

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/view"
)

// The environment that makes the test binary a process with a relay, which
// stops at a stage and waits to be killed.
const (
	childURL   = "RELAY_TEST_NATS"
	childPost  = "RELAY_TEST_RECEIVER"
	childStage = "RELAY_TEST_STAGE"
)

// child runs until it is killed.
func child(url string) {
	die := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	nc, err := nats.Connect(url)
	die(err)
	js, err := jetstream.New(nc)
	die(err)
	store, err := kv.OpenOutboxStore(context.Background(), js, time.Now)
	die(err)
	v := view.New(quiet, time.Now)
	go v.Run(context.Background(), js)
	cb, err := NewCallback(CallbackOptions{
		Name: "ci", URL: os.Getenv(childPost), Secrets: []redact.Secret{secret('a')}, AllowPrivate: true, Timeout: 30 * time.Second,
	})
	die(err)
	halt := func(stage string) func(outbox.ID) {
		return func(outbox.ID) {
			if os.Getenv(childStage) == stage {
				fmt.Println(stage)
				select {}
			}
		}
	}
	r, err := New(Options{
		Store: store, View: v, JS: js, Logger: quiet, Now: time.Now, Registerer: prometheus.NewRegistry(), Boot: "child", Alone: true,
		Channel: func(string) (Channel, bool) { return cb, true },
		Hooks: &Hooks{
			BeforeClaim: halt("before the claim"), Claimed: halt("after the claim"),
			Answered: func(id outbox.ID, _ Answer) { halt("after the post")(id) },
		},
	})
	die(err)
	r.Start()
	select {}
}

// O01, O03: kill -9 at each stage of a delivery. Before the claim another
// process sends; after it nobody does, and the record becomes unknown.
func TestO01O03KilledAtEachStage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stage string
		posts int
		ends  outbox.Status
	}{
		{"before the claim", 1, outbox.Delivered},
		{"after the claim", 0, outbox.Delivering},
		{"during the post", 1, outbox.Delivering},
		{"after the post", 1, outbox.Delivering},
	} {
		t.Run(c.stage, func(t *testing.T) {
			t.Parallel()
			env := natstest.New(t, natstest.WithListener())
			g := newRig(t, env)
			posted, killed := make(chan struct{}, 1), make(chan struct{})
			rx := newReceiver(t, func(_ http.ResponseWriter, req *http.Request) {
				if c.stage == "during the post" && req.Header.Get(HeaderID) == "r" {
					posted <- struct{}{}
					<-killed
				}
			})
			g.put("r", "callback:ci")
			killAt(t, env.URL(), rx.URL, c.stage, posted)
			close(killed)

			g.callback("ci", rx.URL)
			r := g.start()
			g.put("later", "callback:ci")
			g.reaches("later", outbox.Delivered)
			g.reaches("r", c.ends)
			require.NoError(t, r.Sweep(t.Context()))
			replay(t, g)
			require.Equal(t, c.posts, rx.times("r"))
			require.Equal(t, 1, rx.times("later"))
			if c.ends == outbox.Delivering {
				settleUnknown(t, g, r, rx, c.posts)
			}
		})
	}
}

// settleUnknown lets the lease end: the record shows as unknown, is not sent
// by itself, and is sent once as a new one when a person says so.
func settleUnknown(t *testing.T, g *rig, r *Relay, rx *receiver, posts int) {
	t.Helper()
	_, _, err := g.store.Resolve(t.Context(), "r", outbox.ResolveResend, "asked them", "ann")
	require.ErrorIs(t, err, outbox.ErrState, "its lease is not over")
	g.offset.Store(int64(outbox.Lease) + int64(time.Minute))
	it, _ := g.view.FindOutbox("r")
	require.True(t, it.Unknown)
	require.Equal(t, 1, g.view.OutboxCounts().Unknown)
	require.NoError(t, r.Sweep(t.Context()))
	g.put("latest", "callback:ci")
	g.reaches("latest", outbox.Delivered)
	require.Equal(t, posts, rx.times("r"), "never by itself")
	_, next, err := g.store.Resolve(t.Context(), "r", outbox.ResolveResend, "asked them", "ann")
	require.NoError(t, err)
	g.reaches(next.ID, outbox.Delivered)
	require.Equal(t, posts+1, rx.times("r"), "under the key of the first, for the recipient to tell")
	require.Equal(t, outbox.Failed, g.find("r").Status)
}

// killAt runs a process with a relay and kills it at a stage.
func killAt(t *testing.T, url, post, stage string, posted <-chan struct{}) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childURL+"="+url, childPost+"="+post, childStage+"="+stage)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		said <- line
	}()
	select {
	case <-posted:
	case line := <-said:
		require.Equal(t, stage+"\n", line)
	case <-time.After(30 * time.Second):
		require.NoError(t, cmd.Process.Kill())
		t.Fatal("the process never came to its stage")
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

// replay makes the durable anew, so that it brings every record again, and
// waits until all of that is acknowledged.
func replay(t *testing.T, g *rig) {
	t.Helper()
	require.NoError(t, g.js.DeleteConsumer(t.Context(), kv.StreamState, kv.ConsumerRelay))
	natstest.Eventually(t, "the consumer to be made again and read through", func() bool {
		c, err := g.js.Consumer(context.Background(), kv.StreamState, kv.ConsumerRelay)
		if err != nil {
			return false
		}
		info := c.CachedInfo()
		return info.Delivered.Consumer > 0 && info.NumPending == 0 && info.NumAckPending == 0
	})
}
