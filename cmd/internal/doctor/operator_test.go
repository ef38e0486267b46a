package doctor

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/operator"
)

// desk are the lines of operator tasks.
const desk = "[operator]\nrepo = \"acme/site\"\n[[operator.keys]]\nid = \"worker\"\nsecret = \"0123456789abcdef0123\"\n"

// withApp is a healthy configuration with an App and some more lines.
func withApp(t *testing.T, lines string) string {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return strings.Replace(healthy(dataDir(t)), "[github]", "[github]\napp_id = 1\nprivate_key_file = \""+
		file(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), 0o600)+"\"", 1) + lines
}

func TestOperator(t *testing.T) {
	t.Parallel()
	require.Empty(t, check(t, withApp(t, desk), quiet()))
	only(t, check(t, healthy(dataDir(t))+"[operator]\nrepo = \"acme/site\"\n", quiet()), "operator.keys", Warning, "operator tasks are blocked")
	only(t, check(t, healthy(dataDir(t))+desk, quiet()), "operator.repo", Warning, "no issue is created")
	only(t, check(t, withApp(t, strings.Replace(desk, "0123456789abcdef0123", "hunter2", 1)), quiet()), "operator.keys[0].secret", Warning, "shorter than 16")
	loose := strings.Replace(desk, "secret = \"0123456789abcdef0123\"", "secret_file = \""+file(t, "0123456789abcdef0123", 0o644)+"\"", 1)
	only(t, check(t, withApp(t, loose), quiet()), "operator.keys[0].secret_file", Warning, "mode 0644")
	only(t, check(t, withApp(t, strings.Replace(desk, "repo =", "callback = \"cd\"\nrepo =", 1)), quiet()), "operator.callback", Error, "is not a callback")
	only(t, check(t, withApp(t, strings.Replace(desk, "repo =", "tenants = { \"acme/site\" = \"a_b\" }\nrepo =", 1)), quiet()), "operator.tenants", Error, "does not name a tenant")
	called := "[[callbacks]]\nname = \"ci\"\nurl = \"https://ci.example/hook\"\nsecrets = [\"" + whsec + "\"]\n"
	require.Empty(t, check(t, withApp(t, called+strings.Replace(desk, "repo =", "callback = \"ci\"\nrepo =", 1)), quiet()), "it is used")
}

// OT-91: a remap while a request is in flight is an error.
func TestOT91RemapIsAnError(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	u, err := url.Parse(env.Server.ClientURL())
	require.NoError(t, err)
	cfg := config.Default(env.Dir)
	cfg.NATS.Config = file(t, "port: "+u.Port(), 0o600)
	cfg.Operator.Repo = "acme/site"
	store, err := kv.OpenEventStore(t.Context(), env.JS, kv.EventStoreOptions{Repo: "acme/site", Tenancy: configured{cfg}, Now: time.Now})
	require.NoError(t, err)
	id := operator.RequestID(uuid.NewString())
	_, err = store.Propose(t.Context(), operator.Owner{Tenant: "invotek", Operator: "ann", Conversation: "c1"}, id, operator.Intent{Repo: "acme/site", Title: "t"})
	require.NoError(t, err)
	s, err := NewProbe(cfg).Inspect(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.Remapped)

	cfg.Operator.Tenants = map[string]string{"acme/site": "acme"}
	s, err = NewProbe(cfg).Inspect(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Remap{{Request: string(id), State: "proposed", Tenant: "invotek", Now: "acme"}}, s.Remapped)
	o := quiet()
	o.Probe = probe{server: Server{Version: MinNATSServer, Remapped: s.Remapped}}
	got := check(t, withApp(t, desk), o)
	only(t, got, "operator.tenants", Error, string(id))
	require.Equal(t, 1, got.ExitCode())

	cfg.Operator.Tenants["acme/site"] = "a_b"
	s, err = NewProbe(cfg).Inspect(t.Context())
	require.NoError(t, err, "that is the configuration's own problem")
	require.Empty(t, s.Remapped)
	require.NoError(t, env.JS.DeleteStream(t.Context(), kv.StreamOperator))
	cfg.Operator.Tenants = nil
	_, err = NewProbe(cfg).Inspect(t.Context())
	require.NoError(t, err)
}
