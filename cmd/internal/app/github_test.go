package app

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/redact"
)

// The App's key may be in the environment, on one line; the secret of markers
// outlives it: what one key's comments are found by, the next one's finds.
func TestAppKeyAndMarkerSecretOfTheConfiguration(t *testing.T) {
	t.Parallel()
	var markers [2]string
	for i := range markers {
		gh := stand(t)
		r := newRig(t, onGitHub(gh), func(r *rig) {
			r.cfg.GitHub.PrivateKeyFile = ""
			r.cfg.GitHub.PrivateKey = redact.Secret(strings.ReplaceAll(string(gh.PrivateKey()), "\n", `\n`))
			r.cfg.GitHub.MarkerSecrets = []redact.Secret{"a-marker-secret-of-some-length"}
		}).start()
		r.await(r.accept(1), "done")
		natstest.Eventually(t, "the comment", func() bool { return len(gh.Comments(99, 1)) == 1 })
		markers[i], _, _ = strings.Cut(gh.Comments(99, 1)[0].Body, "\n")
		require.NotContains(t, r.log.String(), "a-marker-secret")
	}
	require.Contains(t, markers[0], "belay:status")
	require.Equal(t, markers[0], markers[1])
}
