package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// padded is a push whose body is exactly size bytes.
func padded(t testing.TB, size int) []byte {
	t.Helper()
	head := fmt.Appendf(nil, `{"ref":"refs/heads/main","repository":{"id":99,"full_name":"acme/api"},"pad":"`)
	return append(append(head, bytes.Repeat([]byte{'x'}, size-len(head)-2)...), `"}`...)
}

func TestG21DT61EverySizeUpToTheLimit(t *testing.T) {
	t.Parallel()
	// The race detector makes 25 MiB slow; the deadline has its own tests.
	d := newDoor(t, func(o *Options) { o.IntakeDeadline = time.Minute })
	const mib = 1 << 20
	stored := 0
	for _, size := range []int{176_000, 457_000, mib + 1, 6_000_000, 25_000_000, 25 * mib, 25*mib + 1, 26 * mib} {
		for _, chunked := range []bool{false, true} {
			got := d.post(hook{event: "push", guid: fmt.Sprintf("g%d-%t", size, chunked), body: padded(t, size), chunked: chunked})
			if size <= 25*mib {
				require.Equal(t, 200, got.status, "%d chunked=%t: %s", size, chunked, got.text)
				stored++
			} else {
				require.Equal(t, 413, got.status, "%d chunked=%t", size, chunked)
				require.Equal(t, object{"error": "payload too large", "limit": "26214400 bytes", "githubLimit": "25 MB"}, got.json(t))
			}
			require.Len(t, d.log.all(), stored)
			require.Zero(t, d.budget.used.Load(), "%d chunked=%t", size, chunked)
		}
	}
	require.Equal(t, "4", d.metric(`belay_webhook_rejections_total{reason="too_large"}`))
	require.Contains(t, d.logs.String(), "webhook refused")
}

// A client that asks first is told before it sends anything.
func TestG21TooLargeIsSaidBeforeTheBodyIsSent(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.base, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = fmt.Fprintf(conn, "POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", 26<<20)
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 413")
}

// A declared length counts before its bytes come, an undeclared one as they
// come; what is refused or done is given back.
func TestBodiesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked=%t", chunked), func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, func(o *Options) { o.MaxBody, o.MaxInFlight = 4096, 8192 })
			body := padded(t, 3000)
			r := hook{event: "push", guid: "slow", body: body, chunked: chunked}.request(t, d.base)
			pr, pw := io.Pipe()
			r.Body = pr
			done := make(chan answered)
			go func() { done <- d.do(r) }()
			_, err := pw.Write(body[:2000])
			require.NoError(t, err)
			held := int64(3000)
			if chunked {
				held = 2000
			}
			require.Eventually(t, func() bool { return d.budget.used.Load() == held }, 10*time.Second, time.Millisecond)
			require.Equal(t, fmt.Sprint(held), d.metric("belay_webhook_body_bytes_in_flight"))
			require.Equal(t, "1", d.metric("belay_webhook_requests_in_flight"))
			// 8192 less what is held is free: one of 4000 fits, and with more held none does.
			require.Equal(t, 200, d.post(hook{event: "push", guid: "fits", body: padded(t, 4000), chunked: chunked}).status)
			require.True(t, d.budget.reserve(8192-held-3999))
			busy := d.post(hook{event: "push", guid: "busy", body: padded(t, 4000), chunked: chunked})
			require.Equal(t, 503, busy.status)
			require.Equal(t, object{"error": "too many bodies in flight"}, busy.json(t))
			require.NotEmpty(t, busy.header.Get("Retry-After"))
			d.budget.used.Add(-(8192 - held - 3999))
			_, err = pw.Write(body[2000:])
			require.NoError(t, err)
			require.NoError(t, pw.Close())
			require.Equal(t, 200, (<-done).status)
			require.Zero(t, d.budget.used.Load())
			require.Len(t, d.log.all(), 2)
		})
	}
}

// What the log was handed must not change when the buffer serves the next
// request (the texts of a task are copied).
func TestPooledBodiesAreNotRetained(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	// Accept runs after the buffer was given back: spoil every pooled one.
	d.log.before = func(context.Context, task.Delivery) error {
		for range 64 {
			b := bodies.Get().(*body)
			spoil := b.buf[:cap(b.buf)]
			for i := range spoil {
				spoil[i] = '#'
			}
			defer bodies.Put(b)
		}
		return nil
	}
	first := labeled(1)
	first["issue"].(object)["title"] = "the title of the first"
	require.Equal(t, 200, d.post(hook{event: "issues", guid: "one", body: encode(t, first), header: map[string]string{"X-GitHub-Hook-ID": "12"}}).status)
	got := d.log.all()[0]
	require.Equal(t, "the title of the first", got.Task.Kind.IssueTitle)
	require.Equal(t, "text", got.Task.Kind.IssueBody)
	require.Equal(t, "acme/api", got.Repo)
	require.Equal(t, "https://example.test/acme/api.git", got.Task.CloneURL)
	require.Equal(t, "main", got.Task.DefaultBranch)
	require.Equal(t, "issues", got.Event)
	require.Equal(t, "labeled", got.Action)
	require.Equal(t, "12", got.HookID)
}

// Large buffers do not go back to the pool.
func TestLargeBuffersAreDropped(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequest(http.MethodPost, "/webhook", bytes.NewReader(make([]byte, maxPooled+1)))
	require.NoError(t, err)
	bud := &budget{max: 1 << 30}
	b, err := readBody(r, bud, 1<<30)
	require.NoError(t, err)
	require.EqualValues(t, maxPooled+1, bud.used.Load())
	b.release()
	require.Len(t, b.buf, maxPooled+1, "a pooled one would be emptied")
	require.Zero(t, bud.used.Load())
}

// A body that stops coming is given up at the intake deadline, and one whose
// sender goes away at once; neither is stored.
func TestDT54SlowAndBrokenBodies(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *Options) { o.IntakeDeadline = 50 * time.Millisecond })
	raw := func(closeWrite bool) string {
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.base, "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(conn, "POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
		require.NoError(t, err)
		if closeWrite {
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		}
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		return string(answer)
	}
	require.Contains(t, raw(false), `{"error":"body not received in time"}`)
	require.Contains(t, raw(true), `{"error":"body ended early"}`)
	require.Empty(t, d.log.all())
	require.Equal(t, "1", d.metric(`belay_webhook_rejections_total{reason="slow_body"}`))
	require.Equal(t, "1", d.metric(`belay_webhook_rejections_total{reason="broken_body"}`))
}
