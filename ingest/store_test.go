package ingest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// storeDoor is a door in front of a real delivery log on a server of its own.
func storeDoor(t *testing.T, change func(*Options), opts ...natstest.Option) (*door, *kv.DeliveryLog, *natstest.Env) {
	t.Helper()
	env := natstest.New(t, opts...)
	l, err := kv.OpenDeliveryLog(t.Context(), env.JS)
	require.NoError(t, err)
	d := newDoor(t, func(o *Options) {
		o.Log, o.Deliveries = l, l
		if change != nil {
			change(o)
		}
	})
	return d, l, env
}

// Fifty requests with one id at once: one is stored, all name its task.
func TestDT45DT83OneOfFiftyIsStored(t *testing.T) {
	t.Parallel()
	d, l, _ := storeDoor(t, nil)
	h := hook{event: "issues", guid: "one", body: encode(t, labeled(1)), header: map[string]string{"X-GitHub-Hook-ID": "1"}}
	var wg sync.WaitGroup
	got := make([]answered, 50)
	for i := range got {
		wg.Go(func() { got[i] = d.post(h) })
	}
	wg.Wait()
	first := 0
	for _, a := range got {
		require.Equal(t, 200, a.status, a.text)
		o := a.json(t)
		require.Equal(t, string(kv.TaskID(task.DefaultSource, "one")), o["task"])
		if o["duplicate"] == nil {
			first++
		}
	}
	require.Equal(t, 1, first)
	require.Len(t, page(t, l), 1)

	// DT-58, G01: the same id through another hook is a delivery of its own,
	// and repeats of both are known.
	other := hook{event: "issues", guid: "one", body: encode(t, labeled(2)), header: map[string]string{"X-GitHub-Hook-ID": "2"}}
	two := d.post(other).json(t)
	require.Equal(t, true, two["ok"])
	require.NotContains(t, two, "duplicate")
	require.NotEqual(t, string(kv.TaskID(task.DefaultSource, "one")), two["task"])
	require.Equal(t, object{"ok": true, "task": two["task"], "duplicate": true}, d.post(other).json(t))
	require.Equal(t, true, d.post(h).json(t)["duplicate"])
	require.Len(t, page(t, l), 2)

	// DT-59: through the same hook another body is a conflict.
	other.header, other.body = h.header, encode(t, labeled(3))
	require.Equal(t, 409, d.post(other).status)
	require.Len(t, page(t, l), 2)
	list := d.get(d.base + "/api/github/deliveries").json(t)["deliveries"].([]any)
	require.Len(t, list, 2)
	require.Equal(t, "one", d.get(d.base + "/api/github/deliveries/one").json(t)["delivery"].(object)["id"])
}

func page(t *testing.T, l *kv.DeliveryLog) []kv.Logged {
	t.Helper()
	p, err := l.Page(t.Context(), kv.DeliveryQuery{Limit: 100})
	require.NoError(t, err)
	return p.Deliveries
}

// The store goes away under a request: 503 with a hint, nothing half-written;
// after its return the replay is accepted once.
func TestG36StoreStopsAndReturns(t *testing.T) {
	t.Parallel()
	var current atomic.Pointer[kv.DeliveryLog]
	d, l, env := storeDoor(t, func(o *Options) { o.IntakeDeadline = 500 * time.Millisecond })
	current.Store(l)
	d.o.Log = swapLog{&current}
	h := hook{event: "issues", guid: "one", body: encode(t, labeled(1))}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, env.Server.Shutdown(ctx))
	got := d.post(h)
	require.Equal(t, 503, got.status)
	require.Equal(t, "30", got.header.Get("Retry-After"))
	require.Equal(t, "1", d.metric(`belay_webhook_rejections_total{reason="store_unavailable"}`))
	env.Restart()
	back, err := kv.OpenDeliveryLog(t.Context(), env.JS)
	require.NoError(t, err)
	current.Store(back)
	require.Empty(t, page(t, back))
	require.NotContains(t, d.post(h).json(t), "duplicate")
	require.Equal(t, true, d.post(h).json(t)["duplicate"])
	require.Len(t, page(t, back), 1)
}

type swapLog struct {
	p *atomic.Pointer[kv.DeliveryLog]
}

func (s swapLog) Accept(ctx context.Context, d task.Delivery) (kv.Accepted, error) {
	return s.p.Load().Accept(ctx, d)
}

// The store's answer is lost once: the second try finds the first one's
// message, and GitHub hears of one new delivery.
func TestG31LostAnswerIsNoDuplicate(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	d, l, _ := storeDoor(t, nil)
	l.Hooks = &kv.Hooks{After: func(context.Context, string, string) error {
		if lost.CompareAndSwap(false, true) {
			return kv.ErrUnknown
		}
		return nil
	}}
	got := d.post(hook{event: "issues", guid: "one", body: encode(t, labeled(1))})
	require.Equal(t, 200, got.status)
	require.NotContains(t, got.json(t), "duplicate")
	require.True(t, lost.Load())
	require.Len(t, page(t, l), 1)
}

// J16: a full store is a 503 that says so to the operator, never a 200.
func TestJ16FullStoreIs503(t *testing.T) {
	t.Parallel()
	d, l, _ := storeDoor(t, func(o *Options) { o.IntakeDeadline = 2 * time.Second }, natstest.WithMaxFileStore(256<<10))
	body := labeled(1)
	body["issue"].(object)["body"] = strings.Repeat("text ", 8<<10)
	accepted := 0
	for i := range 100 {
		got := d.post(hook{event: "issues", guid: fmt.Sprintf("g%d", i), body: encode(t, body)})
		if got.status == 503 {
			require.Equal(t, object{"error": "storage unavailable"}, got.json(t))
			require.Equal(t, "1", d.metric(`belay_webhook_rejections_total{reason="store_full"}`))
			require.Len(t, page(t, l), accepted, "all that was accepted is there, and no more")
			return
		}
		require.Equal(t, 200, got.status, got.text)
		accepted++
	}
	t.Fatal("the store took more than it has room for")
}
