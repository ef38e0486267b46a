package ingest

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// The store stalls for 9 s: 503 at 8 s exactly, on the clock of the bubble.
func TestG31DT54StalledStoreIs503AtTheDeadline(t *testing.T) {
	t.Parallel()
	o, l, _, _ := testOptions()
	s, err := New(o)
	require.NoError(t, err)
	r := hook{event: "issues", guid: "one", body: encode(t, labeled(1))}.request(t, "")
	synctest.Test(t, func(t *testing.T) {
		l.before = func(ctx context.Context, _ task.Delivery) error {
			select {
			case <-ctx.Done():
				return kv.ErrUnknown
			case <-time.After(9 * time.Second):
				return nil
			}
		}
		start := time.Now()
		w := serve(s.Public(), r)
		require.Equal(t, DefaultIntakeDeadline, time.Since(start))
		require.Equal(t, 503, w.Code)
		require.Equal(t, "30", w.Header().Get("Retry-After"))
		require.Empty(t, l.all())
	})
}

// The client hangs up while the store works: the store's context lives on,
// the delivery is stored whole, and its replay is a duplicate.
func TestG31ClientThatHangsUpDoesNotCutTheStore(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	gone, entered, finished := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	base := d.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			<-r.Context().Done()
			close(gone)
		}()
		d.Public().ServeHTTP(w, r)
	}))
	d.log.before = func(ctx context.Context, _ task.Delivery) error {
		close(entered)
		<-gone
		finished <- ctx.Err()
		return ctx.Err()
	}
	h := hook{event: "issues", guid: "one", body: encode(t, labeled(1))}
	ctx, hangUp := context.WithCancel(t.Context())
	req := h.request(t, base).WithContext(ctx)
	failed := make(chan error, 1)
	go func() {
		res, err := d.client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		failed <- err
	}()
	<-entered
	hangUp()
	require.Error(t, <-failed)
	require.NoError(t, <-finished)
	require.Eventually(t, func() bool { return len(d.log.all()) == 1 }, 10*time.Second, time.Millisecond)
	d.log.before = nil
	require.Equal(t, true, d.post(h).json(t)["duplicate"])
}

// clock is a clock that a test moves.
type clock struct {
	mu    sync.Mutex
	at    time.Time
	asked chan struct{}
}

func newClock() *clock {
	return &clock{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), asked: make(chan struct{}, 100)}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// The deadline counts from the first byte, not from the end of the headers.
func TestDT54DeadlineCountsFromTheFirstByte(t *testing.T) {
	t.Parallel()
	left := make(chan time.Duration, 1)
	c := newClock()
	d := newDoor(t, func(o *Options) { o.IntakeDeadline, o.Now = time.Hour, c.now })
	d.log.before = func(ctx context.Context, _ task.Delivery) error {
		at, _ := ctx.Deadline()
		left <- time.Until(at)
		return nil
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.base, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	var wire strings.Builder
	require.NoError(t, hook{event: "issues", guid: "one", body: encode(t, labeled(1))}.request(t, d.base).Write(&wire))
	_, err = io.WriteString(conn, wire.String()[:10])
	require.NoError(t, err)
	<-c.asked // the first byte came
	c.move(20 * time.Minute)
	_, err = io.WriteString(conn, wire.String()[10:])
	require.NoError(t, err)
	require.InDelta(t, 40*time.Minute, <-left, float64(5*time.Minute))
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	require.NoError(t, err)
	require.Contains(t, string(buf[:n]), "200 OK")
}

// Each request of a connection has a first byte of its own.
func TestFirstByteOfEachRequest(t *testing.T) {
	t.Parallel()
	c := newClock()
	ours, theirs := net.Pipe()
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	f := &firstByteConn{Conn: ours, now: c.now}
	f.idle.Store(true)
	read := func(text string) time.Time {
		go func() { _, _ = io.WriteString(theirs, text) }()
		_, err := io.ReadFull(f, make([]byte, len(text)))
		require.NoError(t, err)
		return *f.at.Load()
	}
	start := c.at
	require.Equal(t, start, read("a"))
	c.move(time.Second)
	require.Equal(t, start, read("b"), "the same request goes on")
	connState(tlsLike{f}, http.StateIdle)
	c.move(time.Second)
	require.Equal(t, start.Add(2*time.Second), read("c"), "the next request")
	require.Same(t, f, connContext(t.Context(), tlsLike{f}).Value(connKey{}))
}

// tlsLike hides a connection as TLS does.
type tlsLike struct{ net.Conn }

func (c tlsLike) NetConn() net.Conn { return c.Conn }
