package ingest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// ownedBy are owners by installation.
type ownedBy map[int64]string

func (o ownedBy) Owner(_ context.Context, id int64, source string) (string, error) {
	switch owner := o[id]; owner {
	case "":
		o[id] = source
		return source, nil
	case "?":
		return "", kv.ErrUnknown
	default:
		return owner, nil
	}
}

const acmeSecret = "another-long-enough-secret"

// sourceDoor has the source acme, of App 2, beside default, of App 1.
func sourceDoor(t *testing.T) (*door, *kv.DeliveryLog, ownedBy) {
	t.Helper()
	owners := ownedBy{}
	app := func(source string, id int64) *github.Config {
		c := testConfig()
		c.Source, c.AppConfigured, c.AppID, c.AppLogin = source, true, id, source+"-app[bot]"
		return c
	}
	first, second := app(task.DefaultSource, 1), app("acme", 2)
	d, l, _ := storeDoor(t, func(o *Options) {
		o.Owners = owners
		o.Config = func() *github.Config { return first }
		o.Sources = func(name string) (Source, bool) {
			return Source{Config: second, Secrets: []github.Secret{{ID: "0", Key: []byte(acmeSecret)}}}, name == "acme"
		}
	})
	return d, l, owners
}

// to sends a webhook to a source, signed with its secret.
func (d *door) to(source string, h hook) answered {
	if h.secret == "" && source != "" {
		h.secret = acmeSecret
	}
	req := h.request(d.t, d.base)
	if source != "" {
		req.URL.Path += "/" + source
	}
	return d.do(req)
}

func of(installation int, payload object) object {
	payload["installation"] = object{"id": installation}
	return payload
}

// G01, DT-58: one delivery id through the hooks of two Apps is two tasks, each
// known again.
func TestG01OneIDThroughTwoSources(t *testing.T) {
	t.Parallel()
	d, l, _ := sourceDoor(t)
	hooked := func(app string) map[string]string {
		return map[string]string{
			"X-GitHub-Hook-ID": app, "X-GitHub-Hook-Installation-Target-Type": "integration", "X-GitHub-Hook-Installation-Target-ID": app,
		}
	}
	a := hook{event: "issues", guid: "g1", body: encode(t, of(10, labeled(1))), header: hooked("1")}
	b := hook{event: "issues", guid: "g1", body: encode(t, of(20, labeled(1))), header: hooked("2")}
	first, second := d.to("", a), d.to("acme", b)
	require.Equal(t, 200, first.status, first.text)
	require.Equal(t, 200, second.status, second.text)
	one, two := first.json(t)["task"], second.json(t)["task"]
	require.NotEqual(t, one, two)
	require.EqualValues(t, kv.TaskID("default", "g1"), one)
	require.EqualValues(t, kv.TaskID("acme", "acme:g1"), two)
	require.Equal(t, object{"ok": true, "task": one, "duplicate": true}, d.to("", a).json(t))
	require.Equal(t, object{"ok": true, "task": two, "duplicate": true}, d.to("acme", b).json(t))
	page, err := l.Page(t.Context(), kv.DeliveryQuery{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Deliveries, 2)
	// DT-59 holds within each.
	b.body = encode(t, of(20, labeled(2)))
	require.Equal(t, 409, d.to("acme", b).status)
	b.guid, b.header = "g2", hooked("1")
	require.Equal(t, "foreign_app", d.to("acme", b).json(t)["ignored"])
}

// The secrets of one source verify for no other.
func TestG42SecretsOfASourceAreItsOwn(t *testing.T) {
	t.Parallel()
	d, l, _ := sourceDoor(t)
	h := hook{event: "issues", guid: "g1", body: encode(t, labeled(1))}
	for source, secret := range map[string]string{"": acmeSecret, "acme": testSecret} {
		h.secret = secret
		got := d.to(source, h)
		require.Equal(t, 401, got.status)
		require.Equal(t, object{"error": "invalid signature"}, got.json(t))
	}
	_, err := l.Find(t.Context(), "g1", kv.DeliveryQuery{})
	require.ErrorIs(t, err, kv.ErrNotFound)
}

// An unknown source is refused before its body is read, and counted; `default`
// is at /webhook alone.
func TestUnknownSource(t *testing.T) {
	t.Parallel()
	d, l, owners := sourceDoor(t)
	for _, source := range []string{"other", "default", "ACME", strings.Repeat("x", 4000)} {
		got := d.to(source, hook{event: "issues", guid: "g1", body: encode(t, labeled(1)), secret: testSecret})
		require.Equal(t, 404, got.status, source)
		require.Equal(t, object{"error": "unknown source"}, got.json(t))
	}
	unread := hook{event: "issues", guid: "g1"}.request(t, "")
	unread.URL.Path, unread.Body = "/webhook/other", bodyOf(t)
	require.Equal(t, 404, serve(d.Public(), unread).Code)
	require.Equal(t, "5", d.metric(`belay_webhook_rejections_total{reason="unknown_source"}`))
	require.Equal(t, "0", d.metric("belay_webhook_body_bytes_in_flight"))
	page, err := l.Page(t.Context(), kv.DeliveryQuery{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page.Deliveries)
	require.Empty(t, owners)
	req := hook{event: "issues", guid: "g1"}.request(t, d.base)
	req.URL.Path, req.Method = "/webhook/acme", "GET"
	require.Equal(t, 405, d.do(req).status)
}

// unreadable is a body that nobody may read.
type unreadable struct{ t *testing.T }

func bodyOf(t *testing.T) unreadable { return unreadable{t} }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("read")
}

func (u unreadable) Close() error { return nil }

// DT-103: an installation is its first source's, whatever its delivery is
// about; what another source says of it is recorded and does nothing.
func TestForeignInstallation(t *testing.T) {
	t.Parallel()
	d, l, owners := sourceDoor(t)
	send := func(source, event string, payload object, guid string) any {
		got := d.to(source, hook{event: event, guid: guid, body: encode(t, payload)})
		require.Equal(t, 200, got.status, got.text)
		return got.json(t)["ignored"]
	}
	require.Equal(t, "unsupported_event", send("acme", "star", of(20, object{"action": "created", "repository": repository()}), "a1"))
	require.Equal(t, "acme", owners[20])
	require.Equal(t, "foreign_installation", send("", "issues", of(20, labeled(1)), "d1"))
	require.Equal(t, "foreign_installation", send("", "installation", of(20, object{"action": "deleted"}), "d2"))
	require.Equal(t, "foreign_installation", send("", "star", of(20, object{"action": "created"}), "d3"), "before what it is about")
	require.Nil(t, send("acme", "issues", of(20, labeled(1)), "a2"))
	require.Equal(t, "installation_deleted", send("acme", "installation", of(20, object{"action": "deleted"}), "a3"))
	stored, err := l.Find(t.Context(), "d1", kv.DeliveryQuery{})
	require.NoError(t, err)
	require.Nil(t, stored.Task)
	require.Equal(t, "1", d.metric(`belay_webhook_deliveries_total{disposition="foreign_installation",event="issues"}`))

	// Neither a ping nor a hook of another App takes an installation.
	require.Nil(t, send("acme", "ping", of(30, object{"zen": "x"}), "a4"))
	got := d.to("acme", hook{event: "issues", guid: "a5", body: encode(t, of(30, labeled(1))), header: map[string]string{
		"X-GitHub-Hook-Installation-Target-Type": "integration", "X-GitHub-Hook-Installation-Target-ID": "1",
	}})
	require.Equal(t, "foreign_app", got.json(t)["ignored"])
	require.NotContains(t, owners, int64(30))
	require.NotContains(t, owners, int64(0))

	owners[40] = "?"
	refused := d.to("acme", hook{event: "issues", guid: "a6", body: encode(t, of(40, labeled(1)))})
	require.Equal(t, 503, refused.status)
	require.Equal(t, "30", refused.header.Get("Retry-After"))
	_, err = l.Find(t.Context(), "a6", kv.DeliveryQuery{})
	require.ErrorIs(t, err, kv.ErrNotFound)
}

// G28: each source knows the login of its own App.
func TestG28SelfIsOfEachSource(t *testing.T) {
	t.Parallel()
	d, _, _ := sourceDoor(t)
	by := func(login string, installation int) object {
		p := of(installation, labeled(1))
		p["sender"] = object{"login": login}
		return p
	}
	require.Equal(t, "self", d.to("acme", hook{event: "issues", guid: "a1", body: encode(t, by("acme-app[bot]", 20))}).json(t)["ignored"])
	require.NotNil(t, d.to("", hook{event: "issues", guid: "a1", body: encode(t, by("acme-app[bot]", 10))}).json(t)["task"], "here it is another's bot")
}
