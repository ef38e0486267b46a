package ingest

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest/github"
)

// GitHub's own test vector passes the signature (and then is no JSON); every
// other form of signature is refused, and nothing is stored.
func TestG11DT43Signatures(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *Options) {
		o.Secrets = func() []github.Secret {
			return []github.Secret{{ID: "vector", Key: []byte("It's a Secret to Everybody")}, {ID: "empty"}}
		}
	})
	const vector = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	body := []byte("Hello, World!")
	send := func(header map[string]string) answered {
		return d.post(hook{event: "issues", guid: "one", body: body, header: header})
	}
	got := send(map[string]string{"X-Hub-Signature-256": "sha256=" + vector})
	require.Equal(t, 400, got.status)
	require.Equal(t, object{"error": "parse error"}, got.json(t))

	got = send(map[string]string{"X-Hub-Signature-256": "", "X-Hub-Signature": "sha1=1234567890123456789012345678901234567890"})
	require.Equal(t, 401, got.status)
	require.Equal(t, object{"error": "missing signature"}, got.json(t))
	bad := map[string]string{
		"63 digits": "sha256=" + vector[:63], "65 digits": "sha256=" + vector + "0", "upper prefix": "SHA256=" + vector,
		"sha1": "sha1=" + vector, "no prefix": vector, "not hex": "sha256=" + strings.Repeat("z", 64),
		"wrong secret": sign("another", body), "the empty secret": sign("", body), "one off": "sha256=8" + vector[1:],
	}
	for name, h := range bad {
		got = send(map[string]string{"X-Hub-Signature-256": h})
		require.Equal(t, 401, got.status, name)
		require.Equal(t, object{"error": "invalid signature"}, got.json(t), name)
	}
	require.Empty(t, d.log.all())
	require.Equal(t, "1", d.metric(`belay_webhook_rejections_total{reason="missing_signature"}`))
	require.Equal(t, "9", d.metric(`belay_webhook_rejections_total{reason="invalid_signature"}`))
	require.Equal(t, "1", d.metric(`belay_webhook_rejections_total{reason="parse"}`))
}

// Both secrets pass during a rotation, each is counted, and the old one is
// refused as soon as it is dropped.
func TestG42SecretRotation(t *testing.T) {
	t.Parallel()
	both := []github.Secret{{ID: "new", Key: []byte("the-new-secret")}, {ID: "old", Key: []byte("the-old-secret")}}
	var current atomic.Pointer[[]github.Secret]
	current.Store(&both)
	d := newDoor(t, func(o *Options) { o.Secrets = func() []github.Secret { return *current.Load() } })
	send := func(guid, secret string) int {
		return d.post(hook{event: "issues", guid: guid, secret: secret, body: encode(t, labeled(1))}).status
	}
	require.Equal(t, 200, send("a", "the-new-secret"))
	require.Equal(t, 200, send("b", "the-old-secret"))
	require.Equal(t, 200, send("c", "the-old-secret"))
	require.Equal(t, "1", d.metric(`belay_webhook_signatures_total{secret="0"}`))
	require.Equal(t, "2", d.metric(`belay_webhook_signatures_total{secret="1"}`))
	rotated := both[:1]
	current.Store(&rotated)
	require.Equal(t, 401, send("d", "the-old-secret"))
	require.Equal(t, 200, send("e", "the-new-secret"))
	require.Len(t, d.log.all(), 4)
}

// An unsigned request takes nothing from the signed one of the same id.
func TestG44UnsignedFirstDoesNotTakeTheID(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	h := hook{event: "issues", guid: "g", body: encode(t, labeled(1)), header: map[string]string{"X-Hub-Signature-256": ""}}
	require.Equal(t, 401, d.post(h).status)
	require.Empty(t, d.log.all())
	h.header = nil
	got := d.post(h)
	require.Equal(t, 200, got.status)
	require.NotContains(t, got.json(t), "duplicate")
	require.Len(t, d.log.all(), 1)
}
