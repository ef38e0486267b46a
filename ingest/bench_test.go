package ingest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// nothingLog accepts and stores nothing.
type nothingLog struct{}

func (nothingLog) Accept(_ context.Context, d task.Delivery) (kv.Accepted, error) {
	if d.Task != nil {
		d.Routing = "task:3f1e9c1e-0000-5000-8000-000000000000"
	}
	return kv.Accepted{Delivery: d, Seq: 1}, nil
}

// nowhere is a response that nobody reads.
type nowhere struct{ h http.Header }

func (n nowhere) Header() http.Header         { return n.h }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

// SetReadDeadline is what a connection's has.
func (n nowhere) SetReadDeadline(time.Time) error { return nil }

// reviewBody is a pull_request.synchronize of 10 KiB.
func reviewBody(b testing.TB) []byte {
	b.Helper()
	repo := repository()
	repo["description"] = strings.Repeat("d", 1000)
	body := object{
		"action": "synchronize", "number": 5, "before": strings.Repeat("a", 40), "after": strings.Repeat("b", 40),
		"installation": object{"id": 7}, "repository": repo, "sender": object{"login": "octocat"},
		"pull_request": object{
			"number": 5, "title": "A change", "user": object{"login": "octocat"}, "updated_at": "2026-05-01T12:00:00Z", "draft": false,
			"head": object{"sha": strings.Repeat("b", 40), "ref": "f", "repo": repo}, "base": object{"ref": "main", "sha": strings.Repeat("c", 40), "repo": repo},
		},
	}
	links := object{}
	for i := 0; len(encode(b, body)) < 10<<10; i++ {
		links[strings.Repeat("k", 1+i)] = "https://api.example.test/repos/acme/api/pulls/5"
		body["_links"] = links
	}
	return encode(b, body)
}

// BenchmarkWebhook is the whole handler but for the network and the store.
func BenchmarkWebhook(b *testing.B) {
	cfg, secrets := testConfig(), []github.Secret{{ID: "current", Key: []byte(testSecret)}}
	o, _, _, _ := testOptions(func(o *Options) {
		o.Log, o.Auditor, o.Logger = nothingLog{}, nil, slog.New(slog.DiscardHandler)
		o.Config, o.Secrets = func() *github.Config { return cfg }, func() []github.Secret { return secrets }
	})
	s, err := New(o)
	require.NoError(b, err)
	body := reviewBody(b)
	req := hook{event: "pull_request", guid: "72d3162e-cc78-11e3-81ab-4c9367dc0958", body: body}.request(b, "")
	h := s.Public()
	w := nowhere{http.Header{}}
	rd := bytes.NewReader(nil)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		rd.Reset(body)
		req.Body = io.NopCloser(rd)
		h.ServeHTTP(w, req)
	}
}
