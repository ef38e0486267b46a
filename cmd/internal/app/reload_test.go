package app

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/redact"
)

// reload brings a changed copy of the configuration into force.
func (r *rig) reload(change func(c *config.Config)) {
	r.t.Helper()
	next := *r.app.conf()
	next.Familiars, next.Callbacks = slices.Clone(next.Familiars), slices.Clone(next.Callbacks)
	change(&next)
	require.NoError(r.t, r.app.Reload(func() (*config.Config, error) { return &next, nil }))
	require.Same(r.t, &next, r.app.conf())
}

// What was learned at run time is not in the file, and outlives a reload.
func TestReloadKeepsTheAppsLogin(t *testing.T) {
	t.Parallel()
	gh := stand(t)
	r := newRig(t, onGitHub(gh)).start()
	natstest.Eventually(t, "the login to be known", func() bool { return r.app.source("default").Config.AppLogin == gh.Login() })
	since := r.app.source("default").Config.StoreSince
	require.False(t, since.IsZero())
	r.reload(func(c *config.Config) { c.Familiars[0].TriggerLabels = []string{"other"} })
	require.Equal(t, since, r.app.source("default").Config.StoreSince)
	require.Equal(t, "self", r.post("issue_comment", uuid.NewString(), commented(1, gh.Login(), "@belay fix it")).text("ignored"))
	require.Equal(t, "unroutable", r.post("issues", uuid.NewString(), issue(2)).text("ignored"), "the labels are the new ones")
}

// A callback's secret is rotated while belay runs; callbacks that stay as they
// are stay the same ones.
func TestReloadChangesCallbacks(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	r := newRig(t, calling(rc), func(r *rig) {
		r.cfg.Callbacks[0].Secrets = []redact.Secret{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} // the recipient refuses it
		r.cfg.Callbacks = append(r.cfg.Callbacks, config.Callback{
			Name: "other", URL: rc.srv.URL, Secrets: []redact.Secret{callbackSecret()}, AllowPrivate: true, Timeout: time.Second,
		})
	}).start()
	refused := r.accept(1)
	r.await(refused, "done")
	natstest.Eventually(t, "the refusal", func() bool { return r.app.view.OutboxCounts().ByStatus[outbox.Failed] == 1 })
	before := r.app.live.Load().callbacks
	r.reload(func(c *config.Config) { c.Callbacks[0].Secrets = []redact.Secret{callbackSecret()} })
	id := r.accept(2)
	rc.awaits(id + "-0 completed")
	after := r.app.live.Load().callbacks
	require.Same(t, before["callback:other"], after["callback:other"])
	require.NotSame(t, before["callback:ci"], after["callback:ci"])
}
