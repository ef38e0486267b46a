package app

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/redact"
)

// The App's key may be in the environment, on one line; markers are signed with
// the secret that is configured, and not with one of the key.
func TestAppKeyAndMarkerSecretOfTheConfiguration(t *testing.T) {
	t.Parallel()
	var markers [2]string
	for i, secret := range []redact.Secret{"one-marker-secret-of-some-length", "two-marker-secret-of-some-length"} {
		gh := stand(t)
		r := newRig(t, onGitHub(gh), func(r *rig) {
			r.cfg.GitHub.PrivateKeyFile = ""
			r.cfg.GitHub.PrivateKey = redact.Secret(strings.ReplaceAll(string(gh.PrivateKey()), "\n", `\n`))
			r.cfg.GitHub.MarkerSecrets = []redact.Secret{secret}
		}).start()
		r.await(r.accept(1), "done")
		natstest.Eventually(t, "the comment", func() bool { return len(gh.Comments(99, 1)) == 1 })
		markers[i], _, _ = strings.Cut(gh.Comments(99, 1)[0].Body, "\n")
		require.NotContains(t, r.log.String(), secret.Reveal())
	}
	require.Contains(t, markers[0], "belay:status")
	require.NotEqual(t, markers[0], markers[1])
}
